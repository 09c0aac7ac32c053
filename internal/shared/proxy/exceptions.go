package proxy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// everything is the entry for all hosts.
const everything = "*"

// exceptions returns the value of NO_PROXY.
func exceptions(users string, inside Inside) (string, error) {
	var l list
	for text := range strings.SplitSeq(users, ",") {
		if text = strings.TrimSpace(text); text != "" {
			l.addUsers(text)
		}
	}
	if n := len(l.refused); n > 0 {
		return "", fmt.Errorf("has invalid entries (%d): %s; allowed: addresses (10.0.0.1), ranges (10.0.0.0/16), host names (example.com), "+
			"only their subdomains (.example.com), both with a port (example.com:443), and * for all hosts, separated by commas",
			n, strings.Join(l.refused[:min(n, 10)], ", "))
	}
	if slices.Contains(l.texts, everything) {
		return everything, nil
	}
	missing, err := l.missing(inside)
	if err != nil {
		return "", err
	}
	value := strings.Join(append(l.texts, missing...), ",")
	if len(value) > longest {
		return "", fmt.Errorf("and the cluster's own entries have %d characters in total, and Windows allows %d; list ranges instead of addresses", len(value), longest)
	}
	return value, nil
}

// list are the user's entries of NO_PROXY.
type list struct {
	texts    []string
	networks []netip.Prefix // those in texts
	refused  []string
}

// addUsers appends an entry, unless it is present in another spelling.
func (l *list) addUsers(text string) {
	network, isNetwork := parseNetwork(text)
	switch {
	case !isNetwork && !isName(text) && text != everything:
		l.refuse(text)
	case isNetwork && !slices.Contains(l.networks, network):
		l.networks = append(l.networks, network)
		l.texts = append(l.texts, text)
	case !isNetwork && !has(l.texts, text):
		l.texts = append(l.texts, text)
	}
}

// missing returns the required entries that are not in the list, sorted.
func (l *list) missing(inside Inside) ([]string, error) {
	var texts []string
	var networks []netip.Prefix
	for _, text := range slices.Concat(always(), []string{inside.APIServer, subdomains(inside.Domain)}, inside.Networks) {
		network, isNetwork := parseNetwork(text)
		switch {
		case isNetwork:
			networks = append(networks, network)
		case text == "" || has(l.texts, text) || has(texts, text):
		case isName(text):
			texts = append(texts, text)
		default:
			return nil, fmt.Errorf("cannot be completed: %.60q, which belongs to the cluster, is not an address, range or host name", text)
		}
	}
	for _, n := range uncovered(l.networks, networks) {
		texts = append(texts, format(n))
	}
	slices.Sort(texts)
	return texts, nil
}

// uncovered returns the candidates that are in no other range, neither of known nor of candidates.
func uncovered(known, candidates []netip.Prefix) []netip.Prefix {
	known = slices.Clone(known)
	// Wide ranges first, so that each is compared with all that may cover it.
	slices.SortFunc(candidates, func(a, b netip.Prefix) int { return cmp.Compare(a.Bits(), b.Bits()) })
	var left []netip.Prefix
	for _, c := range candidates {
		covers := func(k netip.Prefix) bool { return k.Bits() <= c.Bits() && k.Contains(c.Addr()) }
		if !slices.ContainsFunc(known, covers) {
			known, left = append(known, c), append(left, c)
		}
	}
	return left
}

// always returns the entries for every cluster: the host itself, services, and the metadata service of clouds, for which
// a proxy would return its own metadata. OpenShift has the same (cluster-network-operator,
// pkg/util/proxyconfig/no_proxy.go).
func always() []string { return []string{"localhost", "127.0.0.1", ".svc", "169.254.169.254"} }

func subdomains(domain string) string {
	if domain == "" {
		return ""
	}
	return "." + domain
}

// has reports whether texts contain a text, ignoring case.
func has(texts []string, text string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.EqualFold(t, text) })
}

// refuse records an entry for the message, but hides one that may be a URL with a password.
func (l *list) refuse(text string) {
	shown := "an entry with @"
	if !strings.Contains(text, "@") {
		shown = fmt.Sprintf("%.60q", text)
	}
	l.refused = append(l.refused, shown)
}

// parseNetwork parses a range, or an address as a range with a single address.
func parseNetwork(s string) (netip.Prefix, bool) {
	if isAddress(s) {
		a := netip.MustParseAddr(s).Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err == nil
}

func format(n netip.Prefix) string {
	if n.IsSingleIP() {
		return n.Addr().String()
	}
	return n.String()
}

// isName reports whether Go understands an entry that is no network: a name with an optional port, or an address with a
// port.
func isName(s string) bool {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr().Zone() == "" && a.Port() != 0
	}
	host, port, hasPort := strings.Cut(s, ":")
	host = strings.TrimPrefix(strings.TrimPrefix(host, "*."), ".")
	return isHost(host) && (!hasPort || isPort(port))
}

// isAddress reports whether a text is an IP address. NO_PROXY does not support zones.
func isAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

// isHost reports whether a text is a host name. A text that ends with a number is not: it was meant as part of an
// address.
func isHost(s string) bool {
	s = strings.TrimSuffix(s, ".")
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || strings.ContainsFunc(label, notInHost) {
			return false
		}
	}
	last := s[strings.LastIndex(s, ".")+1:]
	return strings.Trim(last, "0123456789") != ""
}

func notInHost(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letter && (r < '0' || r > '9') && r != '-' && r != '_'
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s && n > 0
}
