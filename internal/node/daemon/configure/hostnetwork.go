package configure

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

const (
	// hnsService is the Host Network Service of Windows.
	hnsService = "hns"
	// keepsStatic is the build of Windows that preserves static addresses on its own (prerequisites of the original operator).
	keepsStatic = 20348
)

// hostNetwork prepares the host's own network for the first pod network.
type hostNetwork struct {
	work
	facts  wicdapi.HostFacts
	nodeIP string
	wanted *desired.Network
	// ports are the TCP ports on which the node's programs listen; firewall are the host's inbound rules.
	ports    []uint16
	firewall []desired.FirewallRule
}

// prepare sets the registry values of the Host Network Service, which reads the one for static addresses when it starts, and the others for each
// object. If the first network already exists, nothing is done for static addresses.
func (n hostNetwork) prepare(ctx context.Context) error {
	current, readErr := n.Networks.List(ctx)
	values := hnsState{work: n.work}
	notes, err := values.notes()
	if err != nil {
		return err
	}
	_, wasSet := notes[deviceLess]
	values.wanted = hnsValuesOf(n.wanted != nil && n.facts.Build != keepsStatic && n.isStatic() && (wasSet || !n.networkExists(current)))
	changed, err := values.set(ctx)
	switch {
	case err != nil || !slices.Contains(changed, deviceLess):
		return err
	case readErr != nil:
		n.recordSkip("service %s is not restarted for %s: reading its networks failed: %v", hnsService, deviceLess, readErr)
		return nil
	case len(current.Networks) > 0:
		n.recordSkip("service %s is not restarted for %s: it has other networks", hnsService, deviceLess)
		return nil
	}
	return n.restart(ctx)
}

// networkExists reports whether one of the networks for pods exists.
func (n hostNetwork) networkExists(current hns.State) bool {
	return slices.ContainsFunc(current.Networks, func(h hns.Network) bool { return slices.Contains(n.wanted.Names(), h.Name) })
}

// record records the settings of the adapter before flanneld creates its network, so that WICD can restore what the network removes.
// hybrid-overlay-node does both for its own. The host joins anyway if that fails.
func (n hostNetwork) record(ctx context.Context) error {
	if n.wanted == nil || !n.wanted.Once {
		return state.ForgetHostNetwork(n.Disk)
	}
	current, err := n.Networks.List(ctx)
	if err == nil && n.networkExists(current) {
		return nil
	}
	if err == nil {
		_, err = state.BeginHostNetwork(ctx, n.Host, n.address())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		n.recordSkip("settings that the first network removes from the network adapter will not be restored: %v", err)
	}
	return nil
}

// checkPorts warns of ports that the node's programs cannot use. The host joins anyway: the ports that Windows excludes change at its next start.
func (n hostNetwork) checkPorts(ctx context.Context) error {
	current, err := n.Inventory.Ports(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	message := current.ExcludedOf(n.ports)
	switch {
	case err != nil:
		n.recordSkip("reading the excluded ports failed: %v", err)
	case message != "":
		n.warn("%s", message)
	}
	return nil
}

// checkListeners warns of other programs that use ports of the node: TCP on a host that is already a node, which the operator does not refuse, and
// UDP, which the virtual switch takes for the overlay before any program receives it.
func (n hostNetwork) checkListeners(context.Context) error {
	for _, l := range n.facts.Listeners {
		isNeeded := slices.ContainsFunc(n.firewall, func(r desired.FirewallRule) bool {
			return (r.Protocol == desired.UDP) == l.UDP && slices.Contains(r.Ports, l.Port)
		})
		if isNeeded && !l.Ours() {
			n.warn("another program uses a port that the node needs: %s; stop it, or configure it to listen on another port", l)
		}
	}
	return nil
}

// checkEngines warns of Docker, which also creates networks in the Host Network Service. The host joins anyway: if Docker occupies what the node
// needs, the operator has already refused the host.
func (n hostNetwork) checkEngines(ctx context.Context) error {
	list, err := n.Services.List(ctx, desired.Engines())
	if err != nil {
		n.recordSkip("listing services failed: %v", err)
		return ctx.Err()
	}
	for _, s := range list {
		if s.State == hostapi.Running {
			n.warn("service %s is running (%s): another container engine creates its own networks; remove it, or disable its service, unless it is needed", s.Name, s.Command)
		}
	}
	return nil
}

// warn reports a finding that does not stop the join.
func (n hostNetwork) warn(format string, args ...any) {
	message := truncate.Text(fmt.Sprintf(format, args...), truncate.Reported)
	n.recordSkip("%s", message)
	n.notify(wicdapi.Step{Name: n.step + ": " + message})
}

// checkMTU warns of an adapter whose network is too small for the packets of pods, before the first network hides it below a virtual one. The host
// joins anyway: TCP with pods of Linux nodes works.
func (n hostNetwork) checkMTU(context.Context) error {
	if n.wanted == nil {
		return nil
	}
	at := slices.IndexFunc(n.facts.Interfaces, func(i wicdapi.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr() == n.address() })
	})
	if at < 0 {
		return nil
	}
	i := n.facts.Interfaces[at]
	if _, isVirtual := hns.AdapterBelow(i.Name); isVirtual {
		return nil
	}
	if message := hostnetwork.TooSmall(i.Name, i.MTU); message != "" {
		n.warn("%s", message)
	}
	return nil
}

// isStatic reports whether the node's address was configured on the host.
func (n hostNetwork) isStatic() bool {
	return slices.ContainsFunc(n.facts.Interfaces, func(i wicdapi.Interface) bool {
		return slices.ContainsFunc(i.States, func(s wicdapi.AddressState) bool { return s.Static && s.Address == n.address() })
	})
}

func (n hostNetwork) address() netip.Addr {
	address, _ := netip.ParseAddr(n.nodeIP) // an invalid address is on no interface
	return address
}

// restart restarts the Host Network Service if it runs.
func (n hostNetwork) restart(ctx context.Context) error {
	list, err := n.Services.List(ctx, []string{hnsService})
	if err != nil {
		return fmt.Errorf("querying service %s: %w", hnsService, err)
	}
	if !slices.ContainsFunc(list, func(s hostapi.Service) bool { return s.Name == hnsService && s.State == hostapi.Running }) {
		return nil // it reads the value when it starts
	}
	if err := n.Services.Stop(ctx, hnsService); err != nil {
		return fmt.Errorf("stopping service %s: %w", hnsService, err)
	}
	if err := n.Services.Start(ctx, hnsService); err != nil {
		return fmt.Errorf("starting service %s: %w", hnsService, err)
	}
	n.recordChange("service %s restarted", hnsService)
	return nil
}
