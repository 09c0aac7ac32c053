package balancer

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOverlayPodsReachOnlyRoutedSubnets(t *testing.T) {
	pods := netip.MustParsePrefix("10.130.0.0/17")
	const subnet = `"Ipams":[{"Subnets":[{"IpAddressPrefix":"10.130.1.0/24"}]}]`
	const remote = `{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"10.130.2.0/24","ProviderAddress":"10.99.1.3"}}`
	const linux = `{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"172.20.0.0/24"}}`
	const own, dropped = "ip saddr 10.130.1.0/24 ip daddr 10.130.1.0/24 accept", "ip saddr 10.130.1.0/24 ip daddr 10.130.0.0/17 drop"
	for name, test := range map[string]struct {
		document string
		want     []string
	}{
		"no route":               {`{"Name":"x","Type":"Overlay",` + subnet + `}`, []string{own, dropped}},
		"route":                  {`{"Name":"x","Type":"Overlay",` + subnet + `,"Policies":[` + remote + `]}`, []string{own, "ip saddr 10.130.1.0/24 ip daddr 10.130.2.0/24 accept", dropped}},
		"route to other network": {`{"Name":"x","Type":"Overlay",` + subnet + `,"Policies":[` + linux + `]}`, []string{own, dropped}},
		"another type":           {`{"Name":"x","Type":"L2Bridge",` + subnet + `}`, nil},
		"lab's own network":      {`{"Name":"lab","Type":"Overlay",` + subnet + `}`, nil},
		"invalid subnet":         {`{"Name":"x","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"x"}]}]}`, nil},
	} {
		var got []string
		for line := range strings.Lines(encapsulation(pods, objects(t, test.document))) {
			got = append(got, strings.TrimSpace(line))
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
