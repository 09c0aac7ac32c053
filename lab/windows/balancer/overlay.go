package balancer

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/windows-machine-config/wmco/lab/windows/hns"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// network has the fields of a network of the network service that the ruleset uses.
type network struct {
	Name, Type string
	Ipams      []struct {
		Subnets []struct{ IpAddressPrefix netip.Prefix }
	}
	Policies []struct {
		Type     string
		Settings struct{ DestinationPrefix netip.Prefix }
	}
}

// encapsulation returns the rules for packets of pods. As on Windows, packets from an overlay network reach its own subnets,
// and other pods of the cluster only with a remote subnet route. The lab's own network needs no such routes.
func encapsulation(pods netip.Prefix, networks []hns.Object) string {
	var rules strings.Builder
	for _, o := range networks {
		var n network
		if err := o.Into(&n); err != nil || n.Type != "Overlay" || n.Name == hostspec.PodNetworkName {
			continue
		}
		for _, ipam := range n.Ipams {
			for _, s := range ipam.Subnets {
				rules.WriteString(n.routes(s.IpAddressPrefix, pods))
			}
		}
	}
	return rules.String()
}

// routes returns the rules for packets from one subnet of a network.
func (n network) routes(from, pods netip.Prefix) string {
	if !from.IsValid() || !from.Addr().Is4() || !pods.IsValid() {
		return ""
	}
	from = from.Masked()
	rules := fmt.Sprintf("\t\tip saddr %s ip daddr %s accept\n", from, from)
	for _, p := range n.Policies {
		if to := p.Settings.DestinationPrefix; p.Type == "RemoteSubnetRoute" && to.IsValid() && to.Overlaps(pods) {
			rules += fmt.Sprintf("\t\tip saddr %s ip daddr %s accept\n", from, to.Masked())
		}
	}
	return rules + fmt.Sprintf("\t\tip saddr %s ip daddr %s drop\n", from, pods)
}
