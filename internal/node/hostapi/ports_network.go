package hostapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Networks is the Host Network Service of Windows. Other programs change its objects at the same time: the overlay, kube-proxy, and the network
// plugins of containerd. Errors are those of package hns where one applies; if the service does not answer before ctx ends, the error is
// hns.ErrUnavailable, too.
type Networks interface {
	// List returns all objects of the service, each kind ordered by ID. If the service does not answer, the error is hns.ErrUnavailable; a state
	// without objects means that there are none, or that Windows has no such service.
	List(ctx context.Context) (hns.State, error)
	// ReadObjects is like List with the second generation of the Windows API, which reads each object separately: it takes long if there are
	// thousands. Endpoints with the given IDs are queried by ID, too.
	ReadObjects(ctx context.Context, endpoints []string) (hns.State, error)
	// CreateEndpoint creates an endpoint on the network e.Network and returns it with ID, MAC, and an address of the network's first subnet if e has
	// none. An endpoint with Host is attached to the host's compartment before it returns; if that fails, there is no endpoint. If the name exists in
	// the network, or another endpoint has the address, the error is hns.ErrExists and nothing changes. An absent network is hns.ErrNotFound.
	CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error)
	// Remove removes the load balancers, endpoints and networks of a state, in this order. It uses only their IDs. Absent ones are not errors. It
	// continues after failures and returns all of them. Removing the last overlay interrupts the connections of the host for some seconds.
	Remove(ctx context.Context, s hns.State) error
	// Watch sends a message when the service has stopped or started, until ctx is done; then it closes the channel. Several changes may be merged
	// into one message, and there may be messages without a change.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Ports are TCP ports over IPv4.
type Ports struct {
	// Dynamic is the range from which Windows assigns ports to programs that request any port.
	Dynamic PortRange
	// Excluded are reserved ranges: no program can listen there, even if none does.
	Excluded []PortRange
}

// PortRange is an inclusive range of ports; empty if both are 0.
type PortRange struct{ First, Last uint16 }

// ExcludedOf describes which of these ports Windows reserves; empty if none. A program that listens on one fails with WSAEACCES (10013), as if it
// lacked permission.
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
		"; to reserve each of them before winnat and hns do, run net stop winnat or restart Windows, then run: netsh interface ipv4 add excludedportrange tcp <port> 1"
}

// portsPerBalancer is how many dynamic ports a load balancer reserves. Adjust-DynamicPortRange of github.com/Azure/AgentBaker has the number, "per
// service", with direct server return, too. Microsoft's text to which it refers counts load balancers: a Service has one for each port and address.
const portsPerBalancer = 63

// ShortFor returns a warning if this many Services with this many load balancers use most of the dynamic ports; empty if they do not. The greater
// number counts, because the sources differ.
func (p Ports) ShortFor(services, balancers int) string {
	all := int(p.Dynamic.Last) - int(p.Dynamic.First) + 1
	if needed := max(services, balancers) * portsPerBalancer; p.Dynamic.First > 0 && needed*100 > all*80 {
		return fmt.Sprintf("the %d load balancers of %d Services take about %d of the %d dynamic ports of Windows (%d-%d), and load balancers beyond that are refused; "+
			"widen the range on the host: netsh interface ipv4 set dynamicport tcp start=33000 num=32536", balancers, services, needed, all, p.Dynamic.First, p.Dynamic.Last)
	}
	return ""
}
