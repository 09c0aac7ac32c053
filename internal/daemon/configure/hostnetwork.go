package configure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

const (
	// hnsService is the Host Network Service of Windows.
	hnsService = "hns"
	// keepsStatic is the build of Windows that keeps static addresses by itself (prerequisites of the original operator).
	keepsStatic = 20348
	// staticMark is there where a join set what a leave takes back.
	staticMark = desired.State + `\keeps-static`
)

// hostNetwork is what of the host's own network must be prepared for its first pod network.
type hostNetwork struct {
	work
	facts  agent.HostFacts
	nodeIP string
	wanted *desired.Network
	// ports are those of TCP on which programs of the node listen.
	ports []uint16
}

// prepare has the Host Network Service keep the host's static address: with its first network, it would give the host a virtual adapter
// that asks DHCP. The service reads the setting when it starts.
func (n hostNetwork) prepare(ctx context.Context) error {
	if n.wanted == nil || n.facts.Build == keepsStatic || !n.isStatic() {
		return nil
	}
	is, unknown := n.Networks.Look(ctx)
	for _, network := range is.Networks {
		if slices.Contains(n.wanted.Names(), network.Name) {
			return nil // the first network was made before
		}
	}
	changed, err := n.HostNetwork.KeepStatic(ctx, true)
	if errors.Is(err, host.ErrNotFound) {
		n.recordNone("the host has a static address, and this Windows has no Host Network Service: %v", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("having the Host Network Service keep static addresses: %w", err)
	}
	if !changed {
		return nil
	}
	if _, err := n.Disk.WriteFile(staticMark, "DeviceLessNicDisabled was set by a join\n"); err != nil {
		return fmt.Errorf("remembering that static addresses are kept: %w", err)
	}
	n.recordChange("the Host Network Service keeps static addresses now (DeviceLessNicDisabled)")
	switch {
	case unknown != nil:
		n.recordNone("service %s is not restarted for it: it does not say whether it has networks: %v", hnsService, unknown)
		return nil
	case len(is.Networks) > 0:
		n.recordNone("service %s is not restarted for it: it has networks of others", hnsService)
		return nil
	}
	return n.restart(ctx)
}

// checkPorts tells of ports that programs of the node cannot have. The host joins all the same: which ports Windows excludes changes with its
// next start.
func (n hostNetwork) checkPorts(ctx context.Context) error {
	is, err := n.HostNetwork.Ports(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	message := is.ExcludedOf(n.ports)
	switch {
	case err != nil:
		n.recordNone("Windows does not say which ports it excludes: %v", err)
	case message != "":
		n.recordNone("%s", message)
		n.tell(agent.Step{Name: n.step + ": " + message})
	}
	return nil
}

// isStatic tells whether the address of the node was configured on the host.
func (n hostNetwork) isStatic() bool {
	return slices.ContainsFunc(n.facts.Interfaces, func(i agent.Interface) bool {
		return slices.ContainsFunc(i.States, func(s agent.AddressState) bool { return s.Static && s.Address == n.address() })
	})
}

func (n hostNetwork) address() netip.Addr {
	address, _ := netip.ParseAddr(n.nodeIP) // one that is none is on no interface
	return address
}

// restart restarts the Host Network Service if it runs.
func (n hostNetwork) restart(ctx context.Context) error {
	list, err := n.Services.List(ctx, []string{hnsService})
	if err != nil {
		return fmt.Errorf("asking for service %s: %w", hnsService, err)
	}
	if !slices.ContainsFunc(list, func(s host.Service) bool { return s.Name == hnsService && s.State == host.Running }) {
		return nil // it reads the setting when it starts
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

// giveBack takes the setting back if a join made it.
func (n hostNetwork) giveBack(ctx context.Context, r *remains) error {
	if !n.Disk.Exists(staticMark) {
		return nil
	}
	changed, err := n.HostNetwork.KeepStatic(ctx, false)
	if err != nil && ctx.Err() == nil {
		r.note("value DeviceLessNicDisabled of service %s: %v", hnsService, err)
		return nil
	}
	if err == nil && changed {
		n.recordChange("the Host Network Service makes adapters as before (DeviceLessNicDisabled)")
	}
	if err == nil {
		err = n.Disk.Remove(staticMark)
	}
	return err
}
