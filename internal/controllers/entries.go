package controllers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windows-machine-config/wmco/internal/addresses"
)

// entry is one host of ConfigMap windows-instances.
type entry struct {
	// key as the user wrote it: an IPv4 address or a DNS name.
	key      string
	username string
}

// instanceName is the name of the entry's WindowsInstance: the address itself is a valid one.
func (e entry) instanceName() string { return strings.ToLower(e.key) }

// fault is what is wrong with one entry. The other entries are not touched by it.
type fault struct {
	key string
	// kind is one of the kinds of faults; the events of different ones are kept apart.
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
)

// parseEntries reads the data of ConfigMap windows-instances: "<IPv4 address or DNS name>: username=<user>".
// Entries come sorted by key, so that the same data always means the same.
func parseEntries(data map[string]string) (entries []entry, faults []fault) {
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
	slices.SortFunc(faults, func(a, b fault) int { return strings.Compare(a.key, b.key) })
	return entries, faults
}

// parseUsername reads the value of an entry.
func parseUsername(value string) (string, error) {
	field, username, found := strings.Cut(strings.TrimSpace(value), "=")
	switch {
	case strings.TrimSpace(value) == "":
		return "", fmt.Errorf("the value is empty; it must be username=<user>, for example username=Administrator")
	case !found || field != "username":
		return "", fmt.Errorf("the value %q does not begin with username=; it must be username=<user>, for example username=Administrator",
			clipped(value))
	case username == "":
		return "", fmt.Errorf("the user name after username= is empty; name an account in the host's Administrators group")
	case strings.ContainsAny(username, "\r\n\x00"):
		return "", fmt.Errorf("the value has more than one line; only username=<user> can be set")
	case len(username) > 256:
		return "", fmt.Errorf("the user name has %d characters; Windows allows at most 256", len(username))
	}
	return username, nil
}

// checkAddress says why the key of an entry, which the API server limits to letters, digits, '-', '_' and '.',
// is neither an IPv4 address nor a DNS name.
func checkAddress(key string) error {
	if ip, err := netip.ParseAddr(key); err == nil {
		if !ip.Is4() {
			return fmt.Errorf("the key is an IPv6 address; only IPv4 addresses and DNS names with an IPv4 address are supported")
		}
		return refused(addresses.Cluster{}, ip)
	}
	if looksLikeIPv4(key) {
		return fmt.Errorf("the key is no valid IPv4 address (four numbers from 0 to 255)")
	}
	if faults := validation.IsDNS1123Subdomain(strings.ToLower(key)); len(faults) > 0 {
		return fmt.Errorf("the key is neither an IPv4 address nor a DNS name: %s", strings.Join(faults, "; "))
	}
	return nil
}

// refused says why no Windows host can have one of some addresses; nil when each can be one's.
func refused(in addresses.Cluster, ips ...netip.Addr) error {
	for _, ip := range ips {
		if why := in.Refuse(ip); why != "" {
			return fmt.Errorf("its address %s %s; name a Windows host by the address that it has in its own network", ip, why)
		}
	}
	return nil
}

// looksLikeIPv4 says whether a key is made of digits and dots only: no top-level domain is.
func looksLikeIPv4(key string) bool { return strings.Trim(key, "0123456789.") == "" }

func clipped(s string) string { return s[:min(len(s), 80)] }
