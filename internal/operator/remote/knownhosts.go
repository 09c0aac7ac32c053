package remote

import (
	"bytes"
	"crypto/fips140"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// maxPatterns limits the hashed names and patterns, because each is compared with each host.
const maxPatterns = 2048

// KnownHosts are host keys that an administrator listed before first contact.
type KnownHosts struct {
	lines []knownLine
	// named are the lines with plain names, in lower case and without a trailing dot.
	named map[string][]int
	// matching are the lines with patterns or hashed names.
	matching []int
	// Faults are the errors in lines, in order, with line numbers.
	Faults []error
	// Nameless is the first error in a line whose hosts are unknown: it may concern any host. nil if there is none.
	Nameless error
}

// knownLine is the key of some hosts, or why it cannot be used.
type knownLine struct {
	hosts []hostPattern
	key   ssh.PublicKey
	err   error
}

type hostPattern struct {
	name      string // may contain * and ?; empty if hashed
	salt, sum []byte
	port      string
	isNegated bool // excludes matching hosts from the line
}

// ParseKnownHosts parses host keys in the format of ssh-keyscan and OpenSSH's known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): names, hashed
// names, and patterns. A line with a marker is an error.
func ParseKnownHosts(text string) KnownHosts {
	k := KnownHosts{named: map[string][]int{}}
	number, patterns := 0, 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		known, err := parseKnownHost(fields)
		if patterns += known.patterns(); patterns > maxPatterns {
			known, err = knownLine{}, fmt.Errorf("there are more than %d hashed names and patterns, too many to compare; use plain names, as ssh-keyscan writes without -H", maxPatterns)
		}
		if err != nil {
			known.err = fmt.Errorf("line %d: %w", number, err)
			k.Faults = append(k.Faults, known.err)
			if len(known.hosts) == 0 && k.Nameless == nil {
				k.Nameless = known.err
			}
		}
		k.add(known)
	}
	return k
}

func (k *KnownHosts) add(line knownLine) {
	n := len(k.lines)
	k.lines = append(k.lines, line)
	if line.patterns() > 0 {
		k.matching = append(k.matching, n)
		return
	}
	for _, h := range line.hosts {
		k.named[h.name] = append(k.named[h.name], n)
	}
}

// Find returns the key of a host at port 22 by its name or address, or nil if no line matches. It returns an error if a line matches, or may match,
// but has no usable key. Of several keys, it returns the one that the host would present at first contact.
func (k KnownHosts) Find(host string) (ssh.PublicKey, error) {
	host = canonical(host)
	keys := map[string]ssh.PublicKey{}
	var elsewhere error
	for _, n := range slices.Concat(k.named[host], k.matching) {
		line := k.lines[n]
		port, ok := line.portOf(host)
		switch {
		case !ok:
		case line.err != nil:
			return nil, line.err
		case port != defaultPort:
			elsewhere = fmt.Errorf("its key is listed for port %s only; list it for port 22", port)
		case keys[line.key.Type()] != nil && !bytes.Equal(keys[line.key.Type()].Marshal(), line.key.Marshal()):
			return nil, fmt.Errorf("two keys of type %s are listed for it; remove one", line.key.Type())
		default:
			keys[line.key.Type()] = line.key
		}
	}
	switch {
	case len(keys) > 0:
		return preferred(keys), nil
	case elsewhere != nil:
		return nil, elsewhere
	}
	return nil, k.Nameless
}

// preferred returns the one of these keys that the host presents if none is pinned.
func preferred(keys map[string]ssh.PublicKey) ssh.PublicKey {
	for _, algorithm := range hostKeyAlgorithms(nil) {
		if key := keys[algorithm]; key != nil {
			return key
		}
	}
	return slices.Collect(maps.Values(keys))[0] // RSA: its algorithms have other names than its key type
}

// parseKnownHost parses the fields of a line. With an error, it returns the hosts of the line if all of them are known.
func parseKnownHost(fields []string) (line knownLine, err error) {
	if marker := fields[0]; strings.HasPrefix(marker, "@") {
		if len(fields) > 3 { // otherwise the names may be missing
			line.hosts, _ = parseHosts(fields[1])
		}
		return line, fmt.Errorf("the marker %.20q is not supported", marker)
	}
	if len(fields) < 3 || !isKeyType(fields[1]) { // the first field may not be the names
		return line, hostKeyError("no names, type and key")
	}
	if line.hosts, err = parseHosts(fields[0]); err != nil {
		return line, err
	}
	line.key, err = ParseHostKey(fields[1] + " " + fields[2])
	return line, err
}

// isKeyType reports whether a text looks like a key type, supported or not.
func isKeyType(text string) bool {
	return slices.ContainsFunc([]string{"ssh-", "ecdsa-", "sk-"}, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// parseHosts parses the first field of a line. It fails if any part is invalid.
func parseHosts(field string) (hosts []hostPattern, err error) {
	for text := range strings.SplitSeq(field, ",") {
		h, err := parseHost(text)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

func parseHost(text string) (h hostPattern, err error) {
	if strings.HasPrefix(text, "|") {
		return parseHash(text)
	}
	h.port = defaultPort
	text, h.isNegated = strings.CutPrefix(text, "!")
	h.name = text
	if inside, isBracketed := strings.CutPrefix(text, "["); isBracketed {
		if h.name, h.port, isBracketed = strings.Cut(inside, "]:"); !isBracketed || h.port == "" || strings.Trim(h.port, "0123456789") != "" {
			return h, fmt.Errorf("%.60q is not a name with a port", text)
		}
	}
	h.name = canonical(h.name)
	isNameRune := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_:*?%", r)
	}
	if strings.TrimFunc(h.name, isNameRune) != "" || h.name == "" {
		return h, fmt.Errorf("%.60q is not a host name", text)
	}
	return h, nil
}

// parseHash parses a hashed name: |1|<salt>|<HMAC-SHA1 of the name>, both in base64.
func parseHash(text string) (h hostPattern, err error) {
	const advice = "; create the lines with ssh-keyscan without -H"
	if fips140.Enforced() {
		return h, errors.New("its name is hashed with SHA-1, which is not allowed in FIPS 140-3 mode" + advice)
	}
	parts := strings.Split(text, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return h, errors.New("its name is hashed with an unknown method" + advice)
	}
	h.salt, err = base64.StdEncoding.DecodeString(parts[2])
	if err == nil {
		h.sum, err = base64.StdEncoding.DecodeString(parts[3])
	}
	if err != nil || len(h.salt) == 0 || len(h.sum) != sha1.Size {
		return h, errors.New("its hashed name is damaged" + advice)
	}
	return h, nil
}

// patterns returns how many host patterns of the line must be compared with each host.
func (l knownLine) patterns() (n int) {
	for _, h := range l.hosts {
		if h.salt != nil || h.isNegated || strings.ContainsAny(h.name, "*?") {
			n++
		}
	}
	return n
}

// portOf reports whether the line matches a host, and for which port. A match of a pattern with ! excludes the host.
func (l knownLine) portOf(host string) (port string, ok bool) {
	for _, h := range l.hosts {
		at, matches := h.portOf(host)
		switch {
		case matches && h.isNegated && at == defaultPort:
			return "", false
		case matches && !h.isNegated && port != defaultPort:
			port, ok = at, true
		}
	}
	return port, ok
}

func (h hostPattern) portOf(host string) (port string, ok bool) {
	if h.salt == nil {
		ok, _ = path.Match(h.name, host) // parseHost admits no character that makes a pattern invalid
		return h.port, ok
	}
	mac := hmac.New(sha1.New, h.salt)
	mac.Write([]byte(host))
	return defaultPort, hmac.Equal(mac.Sum(nil), h.sum)
}

const defaultPort = "22"

// canonical returns the form in which names are compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
