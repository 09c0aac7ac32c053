package source

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

type entry struct {
	// key is what the user wrote: an IPv4 address or a DNS name.
	key      string
	username string
	// hostKey is the SSH key that the host must show, in the format of spec.hostKey; empty if none is listed.
	hostKey string
}

// address returns the address at which the entry's WindowsInstance is reached.
func (e entry) address() string { return withoutDot(e.key) }

// instanceName returns the name of the entry's WindowsInstance: its address in lower case, the same for all spellings of a DNS name.
func (e entry) instanceName() string { return strings.ToLower(e.address()) }

// withoutDot removes the trailing dot of a fully qualified DNS name.
func withoutDot(name string) string { return strings.TrimSuffix(name, ".") }

// fault is an error in one entry. It does not affect the others.
type fault struct {
	key string
	// kind is one of the kinds of faults; their events are kept apart.
	kind    string
	message string
}

// The kinds of faults.
const (
	addressInvalid      = "AddressInvalid"
	addressUnresolvable = "AddressUnresolvable"
	addressTaken        = "AddressTaken"
	nameTaken           = "NameTaken"
	usernameInvalid     = "UsernameInvalid"
	hostKeyInvalid      = "HostKeyInvalid"
)

// parseEntries parses ConfigMap windows-instances: "<IPv4 address or DNS name>: username=<user>". Entries are sorted by key, for deterministic results.
// Keys in binaryData are faults.
func parseEntries(data map[string]string, binary map[string][]byte) (entries []entry, faults []fault) {
	for key := range binary {
		faults = append(faults, fault{key, usernameInvalid, "the value is in binaryData because it is not UTF-8 text; " +
			"save the file as UTF-8 (in PowerShell 5, with -Encoding utf8) and create the ConfigMap from it again"})
	}
	for key, value := range data {
		if err := checkAddress(key); err != nil {
			faults = append(faults, fault{key, addressInvalid, err.Error()})
			continue
		}
		username, err := parseUsername(value)
		if err != nil {
			faults = append(faults, fault{key, usernameInvalid, err.Error()})
			continue
		}
		entries = append(entries, entry{key: key, username: username})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	entries, duplicates := dropDuplicates(entries)
	faults = append(faults, duplicates...)
	slices.SortFunc(faults, func(a, b fault) int { return strings.Compare(a.key, b.key) })
	return entries, faults
}

// CheckEntries returns the addresses in ConfigMap windows-instances, and the faults of its other entries, by key.
func CheckEntries(data map[string]string, binary map[string][]byte) (addresses []string, faults map[string]string) {
	entries, invalid := parseEntries(data, binary)
	for _, e := range entries {
		addresses = append(addresses, e.address())
	}
	faults = map[string]string{}
	for _, f := range invalid {
		faults[f.key] = f.message
	}
	return addresses, faults
}

// dropDuplicates drops all but the first spelling of a name.
func dropDuplicates(entries []entry) (unique []entry, faults []fault) {
	first := map[string]string{}
	for _, e := range entries {
		if other, spelled := first[e.instanceName()]; spelled {
			faults = append(faults, fault{e.key, addressTaken, fmt.Sprintf("the key is another spelling of entry %q; remove one of the two", other)})
			continue
		}
		first[e.instanceName()] = e.key
		unique = append(unique, e)
	}
	return unique, faults
}

func parseUsername(value string) (string, error) {
	field, username, found := strings.Cut(strings.TrimSpace(value), "=")
	switch {
	case strings.TrimSpace(value) == "":
		return "", fmt.Errorf("the value is empty; it must be username=<user>, for example username=Administrator")
	case !found || field != "username":
		return "", fmt.Errorf("the value %q does not begin with username=; it must be username=<user>, for example username=Administrator",
			truncate.Text(value, truncate.Quoted))
	case username == "":
		return "", fmt.Errorf("the user name after username= is empty; name an account in the host's Administrators group")
	case strings.ContainsAny(username, "\r\n"):
		return "", fmt.Errorf("the value has more than one line; only username=<user> can be set")
	case username != strings.TrimSpace(username):
		return "", fmt.Errorf("the user name %q begins with a space; write it directly after username=", truncate.Text(username, truncate.Quoted))
	case strings.ContainsFunc(username, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", fmt.Errorf("the user name %q contains a character that is not printable", truncate.Text(username, truncate.Quoted))
	case utf8.RuneCountInString(username) > 256:
		return "", fmt.Errorf("the user name has %d characters; Windows allows at most 256", utf8.RuneCountInString(username))
	}
	return username, nil
}

// checkAddress returns an error if the key of an entry is not an IPv4 address or DNS name that a Windows host can have. The API server limits keys to
// letters, digits, '-', '_' and '.'.
func checkAddress(key string) error {
	if ip, err := netip.ParseAddr(key); err == nil {
		if !ip.Is4() {
			return fmt.Errorf("the key is an IPv6 address; only IPv4 addresses and DNS names with an IPv4 address are supported")
		}
		return refused(addresses.Cluster{}, ip)
	}
	if looksLikeIPv4(key) {
		return fmt.Errorf("the key is not a valid IPv4 address (four numbers from 0 to 255)")
	}
	if faults := validation.IsDNS1123Subdomain(strings.ToLower(withoutDot(key))); len(faults) > 0 {
		return fmt.Errorf("the key is neither an IPv4 address nor a DNS name: %s", strings.Join(faults, "; "))
	}
	if reason := (addresses.Cluster{}).RefuseName(key); reason != "" {
		return fmt.Errorf("the key %s", reason)
	}
	return nil
}

// refused returns why no Windows host can have one of the addresses; nil if each is possible.
func refused(in addresses.Cluster, ips ...netip.Addr) error {
	for _, ip := range ips {
		if reason := in.Refuse(ip); reason != "" {
			return fmt.Errorf("address %s %s; use the address that the Windows host has in its own network", ip, reason)
		}
	}
	return nil
}

// looksLikeIPv4 reports whether a key consists of digits and dots only, as no top-level domain does.
func looksLikeIPv4(key string) bool { return strings.Trim(key, "0123456789.") == "" }
