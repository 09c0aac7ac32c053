package sim

import (
	"context"
	"net/netip"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Ports implements hostapi.Inventory.
func (i inventory) Ports(ctx context.Context) (hostapi.Ports, error) {
	if err := i.boot.lock(ctx); err != nil {
		return hostapi.Ports{}, err
	}
	defer i.boot.w.mu.Unlock()
	q := i.boot.w.options.Quirks.Adapter
	p := hostapi.Ports{Dynamic: hostapi.PortRange{First: 49152, Last: 65535}, Excluded: q.Excluded}
	if q.Dynamic.First != 0 {
		p.Dynamic = q.Dynamic
	}
	return p, nil
}

// adapters implements hostapi.Adapters.
type adapters struct{ boot *boot }

// Adapters implements hostapi.Adapters.
func (a adapters) Adapters(ctx context.Context) ([]hostnetwork.Adapter, error) {
	if err := a.boot.lock(ctx); err != nil {
		return nil, err
	}
	defer a.boot.w.mu.Unlock()
	return a.boot.w.adapter.Adapters(ctx)
}

// Restore implements hostapi.Adapters.
func (a adapters) Restore(ctx context.Context, address netip.Addr, lost hostnetwork.Loss) error {
	if err := a.boot.lock(ctx); err != nil {
		return err
	}
	defer a.boot.w.mu.Unlock()
	if err := a.boot.changeLocked("restore adapter"); err != nil {
		return err
	}
	return a.boot.w.adapter.Restore(ctx, address, lost)
}

// Adapter returns the computer's adapter. Networks that are created with its methods change it.
func (w *Windows) Adapter() *HostAdapter {
	if w.HNSState()["DeviceLessNicDisabled"] == 1 {
		w.adapter.DisableDeviceLess()
	}
	return w.adapter
}

// Interfaces returns the computer's interfaces as Windows reports them: the one with the default route has the quirks.
func (q AdapterQuirks) Interfaces(list []wicdapi.Interface, hasOverlay bool) []wicdapi.Interface {
	list = slices.Clone(list)
	at := slices.IndexFunc(list, func(i wicdapi.Interface) bool { return i.DefaultRoute })
	if at < 0 || !q.Moves && !q.Static && len(q.More) == 0 {
		return list
	}
	i := &list[at]
	i.DHCP, i.MTU, i.States = !q.Static, adapterMTU, slices.Clone(q.More)
	for _, a := range i.Addresses {
		i.States = append(i.States, wicdapi.AddressState{Address: a.Addr(), Static: q.Static, State: "Preferred"})
	}
	var addresses []netip.Prefix
	for _, s := range q.More {
		addresses = append(addresses, netip.PrefixFrom(s.Address, 24))
	}
	i.Addresses = append(addresses, i.Addresses...)
	if q.Moves && hasOverlay {
		i.Name, i.Index, i.GUID, i.MTU = "vEthernet ("+i.Name+")", i.Index+13, "6c0b2f3e-0000-4000-8000-0000000f00d5", i.MTU-50
		if q.Second {
			i.Name += " 2"
		}
		if q.MTU != 0 {
			i.MTU = q.MTU
		}
	}
	return list
}

// hasOverlay reports whether the host has a virtual adapter.
func (h *HNS) hasOverlay() bool {
	return slices.ContainsFunc(h.State().Networks, func(n hns.Network) bool { return n.Type == hns.Overlay })
}
