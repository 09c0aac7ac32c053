package balancer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// Filters returns the tables that enforce the ACLs of local endpoints, by name: input of "nft -f" that replaces the table. An endpoint
// without ACLs has none. The tables filter the packets that the host forwards, and those between the host itself and its pods, after
// the addresses of Services have been replaced: rules have the addresses of pods (Microsoft's page "Multiple subnet support in Host
// Networking Service").
func Filters(endpoints []hns.Object) map[string]string {
	tables := map[string]string{}
	for _, o := range endpoints {
		var e endpoint
		acls, err := o.ACLs()
		if len(acls) == 0 && err == nil || o.Into(&e) != nil || e.Flags&remoteEndpoint != 0 {
			continue
		}
		var own []string
		for _, c := range e.IpConfigurations {
			if c.IpAddress.Is4() {
				own = append(own, c.IpAddress.String())
			}
		}
		if len(own) == 0 {
			continue
		}
		isClosed := err != nil || slices.ContainsFunc(acls, hns.ACL.Closes)
		name := filterPrefix + hns.Key(e.ID)
		tables[name] = filter(name, strings.Join(own, ", "), acls, isClosed)
	}
	return tables
}

// filterPrefix begins the names of tables with ACLs.
const filterPrefix = "acl-"

// remoteEndpoint is the flag of endpoints of other hosts (hcsshim's hcn/hcnendpoint.go).
const remoteEndpoint = 1

// Changes returns the input of "nft -f" that makes tables of one result of Filters those of another; empty if they are equal.
func Changes(applied, wanted map[string]string) string {
	var script strings.Builder
	for _, name := range slices.Sorted(maps.Keys(applied)) {
		if _, stays := wanted[name]; !stays {
			fmt.Fprintf(&script, "table ip %[1]s\ndelete table ip %[1]s\n", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[name] != applied[name] {
			script.WriteString(wanted[name])
		}
	}
	return script.String()
}

// filterTable has the chains of an endpoint's rules. Each layer and direction ends with a drop, so that a packet passes only if both
// layers allow it. A rule that allows returns to the packet's next layer. Established connections pass: rules are stateful.
const filterTable = `table ip %[1]s
delete table ip %[1]s
table ip %[1]s {
	chain host-in {
%[3]s		drop
	}
	chain host-out {
%[4]s		drop
	}
	chain switch-in {
%[5]s		drop
	}
	chain switch-out {
%[6]s		drop
	}
	chain packets {
%[7]s		ip saddr { %[2]s } jump host-out
		ip saddr { %[2]s } jump switch-out
		ip daddr { %[2]s } jump switch-in
		ip daddr { %[2]s } jump host-in
	}
	chain forward {
		type filter hook forward priority filter
		jump packets
	}
	chain output {
		type filter hook output priority filter
		jump packets
	}
	chain input {
		type filter hook input priority filter
		jump packets
	}
}
`

// filter returns the table of an endpoint with these addresses. A closed one drops all packets, of established connections, too.
func filter(name, own string, acls []hns.ACL, isClosed bool) string {
	chain := func(has func(hns.ACL) bool) string {
		var rules strings.Builder
		for _, a := range acls {
			if has(a) && !isClosed {
				rules.WriteString(filterRule(a))
			}
		}
		return rules.String()
	}
	established := "\t\tct state established,related accept\n"
	if isClosed {
		established = ""
	}
	return fmt.Sprintf(filterTable, name, own,
		chain(func(a hns.ACL) bool { return a.Host && a.In }), chain(func(a hns.ACL) bool { return a.Host && !a.In }),
		chain(func(a hns.ACL) bool { return a.Switch && a.In }), chain(func(a hns.ACL) bool { return a.Switch && !a.In }), established)
}

// filterRule returns the rule for an ACL; empty if it matches nothing.
func filterRule(a hns.ACL) string {
	local, remote := "daddr", "saddr"
	localPorts, remotePorts := "dport", "sport"
	if !a.In {
		local, remote, localPorts, remotePorts = remote, local, remotePorts, localPorts
	}
	matches := []string{protocols(a)}
	for _, list := range []struct {
		field    string
		prefixes []netip.Prefix
	}{{local, a.Local}, {remote, a.Remote}} {
		if len(list.prefixes) == 0 {
			continue
		}
		set := distinct(list.prefixes)
		if len(set) == 0 {
			return ""
		}
		matches = append(matches, fmt.Sprintf("ip %s { %s } ", list.field, strings.Join(set, ", ")))
	}
	for _, list := range []struct {
		field string
		ports []hns.PortRange
	}{{localPorts, a.LocalPorts}, {remotePorts, a.RemotePorts}} {
		if len(list.ports) > 0 {
			matches = append(matches, fmt.Sprintf("th %s { %s } ", list.field, strings.Join(merged(list.ports), ", ")))
		}
	}
	verdict := "drop"
	if a.Allow {
		verdict = "return"
	}
	return "\t\t" + strings.Join(matches, "") + verdict + "\n"
}

// protocols matches the protocols of a rule; with ports but without protocols, those that have ports.
func protocols(a hns.ACL) string {
	var all []string
	for _, p := range slices.Compact(slices.Sorted(slices.Values(a.Protocols))) {
		all = append(all, fmt.Sprint(p))
	}
	if len(all) == 0 && len(a.LocalPorts)+len(a.RemotePorts) > 0 {
		all = []string{"6", "17", "132"}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("meta l4proto { %s } ", strings.Join(all, ", "))
}

// distinct returns IPv4 prefixes that do not overlap, which nftables rejects in sets, without those of length 0, which match nothing
// (hns.ACL).
func distinct(prefixes []netip.Prefix) []string {
	byLength := slices.SortedFunc(slices.Values(prefixes), func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	kept := map[netip.Prefix]bool{}
	var texts []string
	for _, p := range byLength {
		if !p.Addr().Is4() || p.Bits() == 0 || isCovered(p, kept) {
			continue
		}
		kept[p] = true
		texts = append(texts, p.String())
	}
	return texts
}

// isCovered reports whether one of the prefixes contains another.
func isCovered(p netip.Prefix, by map[netip.Prefix]bool) bool {
	for bits := p.Bits(); bits > 0; bits-- {
		if wider, err := p.Addr().Prefix(bits); err == nil && by[wider] {
			return true
		}
	}
	return false
}

// merged returns ranges of ports that neither overlap nor touch.
func merged(ranges []hns.PortRange) []string {
	var all []hns.PortRange
	for _, r := range slices.SortedFunc(slices.Values(ranges), func(a, b hns.PortRange) int { return int(a.First) - int(b.First) }) {
		if last := len(all) - 1; last >= 0 && int(r.First) <= int(all[last].Last)+1 {
			all[last].Last = max(all[last].Last, r.Last)
			continue
		}
		all = append(all, r)
	}
	var texts []string
	for _, r := range all {
		if texts = append(texts, fmt.Sprintf("%d-%d", r.First, r.Last)); r.First == r.Last {
			texts[len(texts)-1] = fmt.Sprint(r.First)
		}
	}
	return texts
}
