package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/hns"
)

// Networks is Windows' Host Network Service. Other programs of the host change it at the same time: the overlay, kube-proxy,
// and the network plugins of containerd. Calls that fail give the errors of package hns where one of them fits; a service that
// does not answer before ctx ends is hns.ErrUnavailable, too.
type Networks interface {
	// Look returns everything that the service has, each kind ordered by ID. A service that does not answer is
	// hns.ErrUnavailable, and never a state without objects; a Windows that has no such service at all has no objects.
	Look(ctx context.Context) (hns.State, error)
	// LookClosely is Look by the second generation of Windows' API, which reads each object by itself: it takes long where there are
	// thousands. Endpoints whose IDs are given are looked for by these, too.
	LookClosely(ctx context.Context, endpoints []string) (hns.State, error)
	// CreateEndpoint makes an endpoint on the network that e.Network names and returns it as it is then, with ID, MAC, and an
	// address of the network's first subnet when e has none. One with Host is attached to the host's compartment before it
	// returns; when that fails, there is no endpoint. When the network has one of that name, or another has its address, that is
	// hns.ErrExists and nothing changes; an absent network is hns.ErrNotFound.
	CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error)
	// Remove removes the load balancers, endpoints and networks of a state by their IDs, in this order, and looks at nothing
	// else of them. Absent ones are no error. It goes on after a failure and tells all of them. Removing the last overlay cuts
	// the connections of the host for some seconds.
	Remove(ctx context.Context, s hns.State) error
	// Watch sends whenever the service has stopped or started, until ctx is done; then it closes the channel. Several changes
	// may become one message, and there may be messages without a change.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// HostNetwork is what Windows lets be set of the host's own network, beside that of pods.
type HostNetwork interface {
	// Ports says which ports Windows gives away by itself, and which it gives to nobody.
	Ports(ctx context.Context) (Ports, error)
}

// Ports are those of TCP over IPv4.
type Ports struct {
	// Dynamic is the range from which Windows gives ports to programs that ask for any.
	Dynamic PortRange
	// Excluded are ranges that programs cannot listen on, though none does.
	Excluded []PortRange
}

// PortRange is a range of ports with its ends; empty if both are 0.
type PortRange struct{ First, Last uint16 }

// ExcludedOf says, for people, which of some ports Windows gives to nobody; empty if none. A program that listens there fails with
// WSAEACCES (10013), as if it had no permission.
func (p Ports) ExcludedOf(ports []uint16) string {
	var all []string
	for _, port := range slices.Compact(slices.Sorted(slices.Values(ports))) {
		for _, r := range p.Excluded {
			if r.First <= port && port <= r.Last {
				all = append(all, fmt.Sprintf("%d (range %d-%d)", port, r.First, r.Last))
				break
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "ports are excluded by Windows, so that no program can listen on them: " + strings.Join(all, ", ") +
		"; reserve each on the host before winnat and hns take it: netsh interface ipv4 add excludedportrange tcp <port> 1, after net stop winnat or a restart of Windows"
}

// portsPerService is how many dynamic ports the load balancers of a Service take (Adjust-DynamicPortRange of github.com/Azure/AgentBaker).
const portsPerService = 63

// ShortFor says, for people, that the load balancers of so many Services take most of the dynamic ports; empty if they do not.
func (p Ports) ShortFor(services int) string {
	all := int(p.Dynamic.Last) - int(p.Dynamic.First) + 1
	if needed := services * portsPerService; p.Dynamic.First > 0 && needed*100 > all*80 {
		return fmt.Sprintf("the load balancers of %d Services take about %d of the %d dynamic ports of Windows (%d-%d), and load balancers beyond are refused; "+
			"widen the range on the host: netsh interface ipv4 set dynamicport tcp start=33000 num=32536", services, needed, all, p.Dynamic.First, p.Dynamic.Last)
	}
	return ""
}
