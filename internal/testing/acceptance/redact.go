package acceptance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/mask"
)

// redactor removes from texts what a public report must not contain: secrets, and anything that names or locates the machine. A name or an address is
// replaced by a salted hash, so that it is the same throughout one report and in no other.
type redactor struct {
	salt    []byte
	names   []string // in lower case, longest first
	secrets *mask.Masker
}

// shortestName is the minimum length of a hidden name, in bytes: a shorter name would also match parts of words.
const shortestName = 4

// newRedactor returns a redactor for these names of the machine and its users. It ignores names that every Windows has.
func newRedactor(salt []byte, names ...string) *redactor {
	h := &redactor{salt: salt, secrets: mask.New()}
	for _, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		if len(name) >= shortestName && !slices.Contains(commonNames(), name) && !slices.Contains(h.names, name) {
			h.names = append(h.names, name)
		}
	}
	slices.SortFunc(h.names, func(a, b string) int { return len(b) - len(a) })
	return h
}

func commonNames() []string {
	return []string{"administrator", "system", "workgroup", "localhost", "public", "default", "all users", "default user", "user", "local", "localdomain"}
}

// namesHere returns the names of this machine and of the user who runs the program.
func namesHere() []string {
	host, _ := os.Hostname() // without it, the other names are still hidden
	return []string{host, os.Getenv("COMPUTERNAME"), os.Getenv("USERNAME"), os.Getenv("USERDOMAIN"), os.Getenv("USERDNSDOMAIN"), os.Getenv("LOGONSERVER")}
}

func (h *redactor) hash(text string) string {
	sum := hmac.New(sha256.New, h.salt)
	sum.Write([]byte(text))
	return hex.EncodeToString(sum.Sum(nil))[:8]
}

func (h *redactor) name(text string) string { return "name-" + h.hash(strings.ToLower(text)) }

// text hides names, addresses and secrets in a text.
func (h *redactor) text(text string) string {
	text = h.secrets.Text(strings.ToValidUTF8(text, "?"))
	for _, f := range h.forms() {
		text = f.pattern.ReplaceAllStringFunc(text, f.replace)
	}
	for _, name := range h.names {
		text = regexp.MustCompile(`(?i)\b`+regexp.QuoteMeta(name)+`\b`).ReplaceAllLiteralString(text, h.name(name))
	}
	return text
}

type form struct {
	pattern *regexp.Regexp
	replace func(string) string
}

// forms returns the patterns of names and addresses in texts.
func (h *redactor) forms() []form {
	return []form{
		{regexp.MustCompile(`\b[0-9A-Fa-f]{2}(?:[-:][0-9A-Fa-f]{2}){5}\b`), func(mac string) string {
			return mac[:9] + "mac-" + h.hash(strings.ReplaceAll(strings.ToUpper(mac), ":", "-")) // the first half identifies the vendor
		}},
		{regexp.MustCompile(`\bS-1-5-21(?:-\d+){3}`), func(sid string) string { return "S-1-5-21-" + h.hash(sid) }},
		{regexp.MustCompile(`(?i)[/\\]Users[/\\]+[^/\\"\s]+`), func(path string) string {
			at := strings.LastIndexAny(path, `/\`) + 1
			if slices.Contains(commonNames(), strings.ToLower(path[at:])) {
				return path
			}
			return path[:at] + h.name(path[at:])
		}},
		{regexp.MustCompile(`\\\\[A-Za-z0-9][A-Za-z0-9._-]+\\`), func(unc string) string { return `\\` + h.name(strings.Trim(unc, `\`)) + `\` }},
		{regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`), h.address},
		{regexp.MustCompile(`[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*[0-9A-Fa-f]|[0-9A-Fa-f]+(?::[0-9A-Fa-f]+)*::`), h.address},
	}
}

// address hides an address unless it reveals nothing about the machine. Addresses of the same /24 or /64 keep a common prefix.
func (h *redactor) address(text string) string {
	a, err := netip.ParseAddr(text)
	if err != nil || isKnownAddress(a) {
		return text
	}
	kind, bits := "ipv4", 24
	if a.Is6() {
		kind, bits = "ipv6", 64
	}
	if a.IsPrivate() {
		kind = "private-" + kind
	}
	if a.IsLinkLocalUnicast() {
		kind = "linklocal-" + kind
	}
	network, _ := a.Prefix(bits) // the numbers of bits are valid
	return kind + "-" + h.hash(network.String()) + "-" + h.hash(a.String())
}

// isKnownAddress reports whether an address reveals nothing about the machine: loopback, masks, multicast, documentation networks, the networks of
// this program, and the metadata services of clouds.
func isKnownAddress(a netip.Addr) bool {
	if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.Is4() && a.As4()[0] == 255 {
		return true
	}
	for _, known := range []string{podNetwork, "10.96.0.0/16", clusterRange, hybridRange, "198.18.0.0/15", "100.64.0.0/30", "10.245.0.0/16", "10.246.0.0/16", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "169.254.169.254/32", "168.63.129.16/32"} {
		if netip.MustParsePrefix(known).Contains(a) {
			return true
		}
	}
	return false
}

// value hides the content of a JSON value. In fields whose name reveals their content, it hides all text.
func (h *redactor) value(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = h.value(k, inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = h.value(key, inner)
		}
	case string:
		named := regexp.MustCompile(`(?i)(suffix|suffixsearchlist|domain|hostname|computername|serialnumber|uuid|username|owner)$`)
		version := regexp.MustCompile(`(?i)version$`) // 8.1.0.1 is not an address there
		switch {
		case named.MatchString(key) && v != "" && !slices.Contains(commonNames(), strings.ToLower(v)):
			return h.name(v)
		case version.MatchString(key):
			return v
		}
		return h.text(v)
	}
	return value
}

// answer hides the content of an answer of Windows, JSON or text.
func (h *redactor) answer(output string) (document json.RawMessage, text string) {
	output = strings.TrimSpace(strings.TrimPrefix(output, "\ufeff"))
	if strings.HasPrefix(output, "{") || strings.HasPrefix(output, "[") {
		decoder := json.NewDecoder(strings.NewReader(output))
		decoder.UseNumber()
		var value any
		if decoder.Decode(&value) == nil && !decoder.More() {
			if clean, err := json.Marshal(h.value("", value)); err == nil {
				return clean, ""
			}
		}
	}
	return nil, h.text(output)
}
