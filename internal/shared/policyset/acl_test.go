package policyset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// text returns an ACL as one line.
func text(a hns.ACL) string {
	ports := func(name string, list []hns.PortRange) string {
		var all []string
		for _, r := range list {
			all = append(all, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
		if len(all) == 0 {
			return ""
		}
		return " " + name + " " + strings.Join(all, ",")
	}
	line := fmt.Sprintf("%d %s %s %d", a.Priority, a.Action, a.Direction, a.Protocol)
	line += ports("local", a.LocalPorts) + ports("remote", a.RemotePorts)
	for _, p := range a.Remote {
		line += " " + p.String()
	}
	return line
}

// checkACLs checks what Windows requires of all lists of ACLs, that they are in the order in which they decide, and that they end with a
// rule for everything else.
func checkACLs(t *testing.T, acls []hns.ACL) {
	t.Helper()
	if err := hns.CheckACLs(acls); err != nil {
		t.Error(err)
	}
	for i, a := range acls {
		if i > 0 && acls[i-1].Direction == a.Direction && acls[i-1].Priority > a.Priority {
			t.Errorf("ACL %d has a lower priority number than the one before it", i)
		}
	}
	if len(acls) == 0 {
		return
	}
	for _, d := range []hns.Direction{hns.In, hns.Out} {
		last := hns.ACL{Direction: d, Protocol: hns.AnyProtocol, Priority: hns.MaxACLPriority}
		isLast := func(a hns.ACL) bool { last.Action = a.Action; return text(a) == text(last) }
		if !slices.ContainsFunc(acls, isLast) {
			t.Errorf("direction %s has no last rule", d)
		}
	}
}

func TestACLsOfAnEndpoint(t *testing.T) {
	node := Facts{Node: addresses("10.4.0.1", "192.168.1.4", "fd00::4"), Own: addresses("10.4.0.9")}
	both, onlyIn := Directions{Ingress: true, Egress: true}, Directions{Ingress: true}
	ingress := func(rules ...Rule) Set {
		return Set{
			Namespace: "shop", Unlisted: onlyIn,
			Policies: []Policy{{Name: "p", Isolates: onlyIn, Ingress: rules}},
			Addresses: [][]netip.Prefix{
				prefixes("10.0.0.0/8"), prefixes("0.0.0.0/1"), prefixes("128.0.0.0/1"), prefixes("10.1.0.0/16", "172.16.0.0/12"),
			},
			Pods: []Pod{{Name: "web", UID: "u", Policies: []int{0}, Ports: []NamedPort{{"http", hns.TCP, 8080}, {"http", hns.UDP, 9090}}}},
		}
	}
	ports := func(list int, ports ...Port) Rule { return Rule{Peers: &list, Ports: ports} }
	tcp := func(list int, first, last uint16) Rule {
		return ports(list, Port{Protocol: hns.TCP, First: first, Last: last})
	}
	five := func(protocol hns.Protocol) Port { return Port{Protocol: protocol, First: 5, Last: 5} }
	web, all := PodID{"web", "u"}, Rule{AnyPeer: true, AnyPort: true}
	const nodeIn, ownOut = "100 Allow In 0 10.4.0.1/32 10.4.0.9/32 192.168.1.4/32", "100 Allow Out 0 10.4.0.9/32"
	const blockIn, blockOut, openOut = "65500 Block In 0", "65500 Block Out 0", "65500 Allow Out 0"
	for _, c := range []struct {
		name  string
		set   Set
		pod   PodID
		facts Facts
		want  []string
	}{
		{"a namespace without policies", Set{Namespace: "shop"}, web, node, nil},
		{"a pod that no policy selects", Set{Namespace: "shop", Unlisted: both, Pods: []Pod{{Name: "web", UID: "u"}}}, web, node, nil},
		{"an unlisted pod", Closed("shop"), web, node, []string{nodeIn, blockIn, ownOut, blockOut}},
		{"an unlisted pod, ingress alone is isolated", ingress(), PodID{"new", "u"}, node, []string{nodeIn, blockIn, openOut}},
		{"a former pod of the same name", ingress(all), PodID{"web", "former"}, node, []string{nodeIn, blockIn, openOut}},
		{"nothing allowed", ingress(), web, node, []string{nodeIn, blockIn, openOut}},
		{"no facts", Closed("shop"), web, Facts{}, []string{blockIn, blockOut}},
		{"everything allowed", ingress(all), web, node, nil},
		{"everything allowed by two rules", ingress(Rule{Peers: new(1), AnyPort: true}, Rule{Peers: new(2), AnyPort: true}), web, node, nil},
		{"all addresses are no addresses", ingress(tcp(1, 80, 80), tcp(2, 80, 80)), web, node,
			[]string{nodeIn, "1000 Allow In 6 local 80-80", blockIn, openOut}},
		{"all ports of a protocol", ingress(tcp(0, 1, 65535)), web, node, []string{nodeIn, "1000 Allow In 6 10.0.0.0/8", blockIn, openOut}},
		{"ports of the same peers are merged", ingress(tcp(0, 443, 443), tcp(0, 80, 90), tcp(0, 91, 95)), web, node,
			[]string{nodeIn, "1000 Allow In 6 local 80-95,443-443 10.0.0.0/8", blockIn, openOut}},
		{"peers of the same ports are merged", ingress(tcp(3, 80, 80), tcp(0, 80, 80)), web, node,
			[]string{nodeIn, "1000 Allow In 6 local 80-80 10.0.0.0/8 172.16.0.0/12", blockIn, openOut}},
		{"protocols are not merged", ingress(ports(0, five(hns.SCTP), five(hns.UDP), five(hns.TCP))), web, node, []string{nodeIn,
			"1000 Allow In 6 local 5-5 10.0.0.0/8", "1000 Allow In 17 local 5-5 10.0.0.0/8", "1000 Allow In 132 local 5-5 10.0.0.0/8",
			blockIn, openOut}},
		{"any peer includes others", ingress(tcp(0, 80, 80), Rule{AnyPeer: true, Ports: tcp(0, 80, 80).Ports}), web, node,
			[]string{nodeIn, "1000 Allow In 6 local 80-80", blockIn, openOut}},
		{"a named port of the pod, by protocol", ingress(ports(0, Port{Protocol: hns.TCP, Name: "http"})), web, node,
			[]string{nodeIn, "1000 Allow In 6 local 8080-8080 10.0.0.0/8", blockIn, openOut}},
		{"named ports that the pod does not have", ingress(ports(0, Port{Protocol: hns.SCTP, Name: "http"}, Port{Protocol: hns.TCP, Name: "https"})),
			web, node, []string{nodeIn, blockIn, openOut}},
	} {
		var got []string
		result := ACLs(c.set, c.pod, c.facts)
		for _, a := range result.ACLs {
			got = append(got, text(a))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
		if _, err := Encode(c.set); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		checkACLs(t, result.ACLs)
	}
}

func addresses(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// TestPoliciesOfPodAreAdditive: directions are isolated separately, and egress has remote ports.
func TestPoliciesOfPodAreAdditive(t *testing.T) {
	set := shop()
	var got []string
	for _, a := range ACLs(set, PodID{"web-1", "u2"}, Facts{}).ACLs {
		got = append(got, text(a))
	}
	want := []string{
		"1000 Allow In 6 local 80-90,8080-8080 10.0.0.1/32 10.0.0.2/31", "65500 Block In 0",
		"1000 Allow Out 0 192.168.0.0/16", "1000 Allow Out 17 remote 53-53", "65500 Block Out 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	set.Pods[1].Policies = []int{1}
	if ingress, egress := Merge(set, PodID{"web-1", "u2"}); !ingress.Isolated || egress.Isolated {
		t.Errorf("a policy for ingress isolates ingress: %t, egress: %t", ingress.Isolated, egress.Isolated)
	}
}
