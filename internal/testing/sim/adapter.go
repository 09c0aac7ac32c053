package sim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// HostAdapter is the host's own network interface below the networks of a Host Network Service. Its methods CreateNetwork and DeleteNetwork wrap
// those of the service and apply their effect on the host. It is safe for concurrent use.
type HostAdapter struct {
	*HNS
	quirks AdapterQuirks
	// deviceLess is set if the service may create adapters without a device: registry value DeviceLessNicDisabled is not set.
	deviceLess bool

	mu       sync.Mutex
	physical hostnetwork.Adapter
	virtual  hostnetwork.Adapter
	// switched is when the first network was created; zero while there is none.
	switched time.Time
	restores int
}

// The settings of a simulated adapter.
const (
	adapterName = "Ethernet"
	adapterMTU  = 1460
)

// On returns the adapter of a host on which the service creates its networks.
func (h *HNS) On(q AdapterQuirks) *HostAdapter {
	address := netip.PrefixFrom(h.options.ManagementIP, 24)
	last := h.options.ManagementIP.As16()[15]
	second := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100, last}), 24)
	return &HostAdapter{HNS: h, quirks: q, deviceLess: true, physical: hostnetwork.Adapter{
		Name: adapterName, Index: 4, MTU: adapterMTU, Metric: 15, Suffix: "example.com", DHCP: !q.Static, StaticDNS: true,
		Addresses: []hostnetwork.Address{{Prefix: address, Static: q.Static}, {Prefix: second, Static: q.Static, SkipAsSource: true}},
		DNS:       []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("192.0.2.54")},
	}}
}

// DisableDeviceLess sets DeviceLessNicDisabled, and restarts the service.
func (a *HostAdapter) DisableDeviceLess() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deviceLess = false
}

// CreateNetwork implements the port of the overlay.
func (a *HostAdapter) CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error) {
	a.mu.Lock()
	if a.switched.IsZero() {
		a.switched, a.virtual = time.Now(), a.moved()
	}
	a.mu.Unlock()
	return a.HNS.CreateNetwork(ctx, n)
}

// DeleteNetwork implements the port of the overlay. Deleting the last network restores the host's adapter.
func (a *HostAdapter) DeleteNetwork(ctx context.Context, id string) error {
	err := a.HNS.DeleteNetwork(ctx, id)
	a.returnAddress()
	return err
}

// returnAddress returns the host's address to the adapter if no network is left.
func (a *HostAdapter) returnAddress() {
	if len(a.State().Networks) > 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.switched = time.Time{}
}

// moved returns the virtual adapter that the first network creates.
func (a *HostAdapter) moved() hostnetwork.Adapter {
	v, q := a.physical, a.quirks
	v.Name, v.Index, v.MTU = "vEthernet ("+adapterName+")", 17, a.physical.MTU-hostnetwork.Encapsulation
	v.Addresses, v.DNS = slices.Clone(v.Addresses), slices.Clone(v.DNS)
	if q.Second {
		v.Name += " 2"
	}
	if q.MTU != 0 {
		v.MTU = q.MTU
	}
	if q.LosesDNS {
		v.DNS, v.Suffix = nil, ""
	}
	if q.LosesMetric {
		v.Metric = 0
	}
	if q.LosesSecondary {
		v.Addresses = v.Addresses[:1]
	}
	instead := q.Instead
	if q.Static && a.deviceLess && a.options.Build != 20348 {
		v.DHCP, v.Addresses = true, v.Addresses[:1]
		instead = netip.MustParsePrefix("169.254.3.4/16")
	}
	if instead.IsValid() {
		v.Addresses[0] = hostnetwork.Address{Prefix: instead}
	}
	return v
}

// Adapters implements the port of the overlay.
func (a *HostAdapter) Adapters(context.Context) ([]hostnetwork.Adapter, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return []hostnetwork.Adapter{a.nowLocked()}, nil
}

func (a *HostAdapter) nowLocked() hostnetwork.Adapter {
	if a.switched.IsZero() {
		return a.physical
	}
	v := a.virtual
	v.Addresses, v.DNS = slices.Clone(v.Addresses), slices.Clone(v.DNS)
	if time.Since(a.switched) < a.quirks.AddressLostFor {
		v.Addresses, v.DNS = nil, nil
	}
	return v
}

// HasAddress reports whether the host has its address.
func (a *HostAdapter) HasAddress() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := hostnetwork.With([]hostnetwork.Adapter{a.nowLocked()}, a.options.ManagementIP)
	return ok
}

// SetDNS sets suffix and DNS servers of the adapter, like an administrator.
func (a *HostAdapter) SetDNS(suffix string, servers ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.configuredLocked()
	v.DNS, v.Suffix = nil, suffix
	for _, s := range servers {
		v.DNS = append(v.DNS, netip.MustParseAddr(s))
	}
}

// configuredLocked returns the adapter that has the host's settings.
func (a *HostAdapter) configuredLocked() *hostnetwork.Adapter {
	if a.switched.IsZero() {
		return &a.physical
	}
	return &a.virtual
}

// Restores returns the number of Restore calls.
func (a *HostAdapter) Restores() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.restores
}

// Restore implements the port of the overlay.
func (a *HostAdapter) Restore(_ context.Context, address netip.Addr, l hostnetwork.Loss) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restores++
	if _, ok := hostnetwork.With([]hostnetwork.Adapter{a.nowLocked()}, address); !ok {
		return fmt.Errorf("an interface with address %s: %w", address, errors.ErrUnsupported)
	}
	v := a.configuredLocked()
	for _, lost := range l.Addresses {
		if _, found := hostnetwork.With([]hostnetwork.Adapter{*v}, lost.Prefix.Addr()); !found {
			v.Addresses = append(v.Addresses, lost)
		}
	}
	if l.MTU != 0 {
		v.MTU = l.MTU
	}
	if l.Metric != 0 {
		v.Metric = l.Metric
	}
	switch {
	case len(l.DNS) == 0 && l.Suffix == "":
	case a.quirks.Refuses:
		err = fmt.Errorf("setting DNS servers: %w", errors.ErrUnsupported)
	default:
		if v.DNS = slices.Clone(l.DNS); l.Suffix != "" {
			v.Suffix = l.Suffix
		}
	}
	return err
}
