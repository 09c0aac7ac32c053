package policyset

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// TestVerdictNamesPolicies has the names. Package networkpolicy compares the verdicts with the API, for random policies.
func TestVerdictNamesPolicies(t *testing.T) {
	facts := Facts{Node: addresses("10.0.0.254"), Own: addresses("10.0.0.9")}
	web, batch, created := PodID{"web-1", "u2"}, PodID{"batch-1", "u1"}, PodID{"web-2", "u3"}
	large := Set{Namespace: "shop", Omitted: MaxSize + 1, Unlisted: Directions{Ingress: true}}
	open := facts
	open.OpenIfTooLarge = true
	for _, test := range []struct {
		name      string
		set       Set
		facts     Facts
		id        PodID
		direction hns.Direction
		remote    string
		protocol  hns.Protocol
		port      uint16
		want      Verdict
	}{
		{"allowed by a rule", shop(), facts, web, hns.In, "10.0.0.2", hns.TCP, 80, Verdict{Allowed: true, Policies: []string{"web"}}},
		{"allowed by a named port", shop(), facts, web, hns.In, "10.0.0.2", hns.TCP, 8080, Verdict{Allowed: true, Policies: []string{"web"}}},
		{"another port", shop(), facts, web, hns.In, "10.0.0.2", hns.TCP, 91, Verdict{Policies: []string{"web"}}},
		{"another protocol", shop(), facts, web, hns.In, "10.0.0.2", hns.UDP, 80, Verdict{Policies: []string{"web"}}},
		{"another peer", shop(), facts, web, hns.In, "10.0.0.4", hns.TCP, 80, Verdict{Policies: []string{"web"}}},
		{"another direction", shop(), facts, web, hns.Out, "10.0.0.2", hns.TCP, 80, Verdict{Policies: []string{"dns"}}},
		{"any peer", shop(), facts, web, hns.Out, "8.8.8.8", hns.UDP, 53, Verdict{Allowed: true, Policies: []string{"dns"}}},
		{"any port", shop(), facts, web, hns.Out, "192.168.1.1", hns.TCP, 1, Verdict{Allowed: true, Policies: []string{"dns"}}},
		{"from the node", shop(), facts, web, hns.In, "10.0.0.254", hns.TCP, 1, Verdict{Allowed: true, Always: true}},
		{"to the node", shop(), facts, web, hns.Out, "10.0.0.254", hns.TCP, 1, Verdict{Policies: []string{"dns"}}},
		{"to itself, as an IPv6 address", shop(), facts, web, hns.Out, "::ffff:10.0.0.9", hns.TCP, 1, Verdict{Allowed: true, Always: true}},
		{"a pod without policies", shop(), facts, batch, hns.In, "10.0.0.4", hns.TCP, 80, Verdict{Allowed: true}},
		{"a pod that is not listed", shop(), facts, created, hns.In, "10.0.0.2", hns.TCP, 80, Verdict{}},
		{"no policies", Set{Namespace: "shop"}, facts, web, hns.In, "10.0.0.4", hns.TCP, 80, Verdict{Allowed: true}},
		{"too large", large, facts, web, hns.In, "10.0.0.4", hns.TCP, 80, Verdict{Excess: &Excess{"bytes for the policies of the namespace", MaxSize + 1, MaxSize}}},
		{"too large, opened", large, open, web, hns.In, "10.0.0.4", hns.TCP, 80,
			Verdict{Allowed: true, Excess: &Excess{"bytes for the policies of the namespace", MaxSize + 1, MaxSize}}},
		{"too large in the other direction", large, facts, web, hns.Out, "10.0.0.4", hns.TCP, 80, Verdict{Allowed: true}},
	} {
		got := Decide(test.set, test.id, test.facts, Connection{test.direction, test.protocol, netip.MustParseAddr(test.remote), test.port})
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}
