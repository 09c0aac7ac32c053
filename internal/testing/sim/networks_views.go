package sim

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim/hnsquirks"
)

// startedLocked reports whether the service runs. The first call starts a service with quirk StartsLate.
func (h *HNS) startedLocked() bool {
	delay := h.options.Quirks.StartsLate
	if delay == 0 || !h.startedAt.IsZero() && !h.startsAt.IsZero() {
		return true
	}
	if h.startsAt.IsZero() {
		h.startsAt = time.Now().Add(delay)
	}
	if time.Now().Before(h.startsAt) {
		return false
	}
	h.startedAt = h.startsAt
	return true
}

// bindLocked rejects a network because of its adapter.
func (h *HNS) bindLocked(n hns.Network) error {
	var bound []string
	for _, other := range h.networks {
		bound = append(bound, other.Adapter)
	}
	if !h.options.Quirks.CanBind(n.Adapter, n.Type == hns.Overlay, bound) {
		return fmt.Errorf("adapter %q: %w", n.Adapter, hns.ErrAdapter)
	}
	return nil
}

// managementIPLocked returns the host's address on the adapter of a network.
func (h *HNS) managementIPLocked(n hns.Network) netip.Addr {
	if chosen, err := netip.ParseAddr(h.options.Quirks.ChoosesAddress); err == nil && n.Adapter == "" {
		return chosen
	}
	return h.options.ManagementIP
}

// echo returns a network in the form in which the service returns it.
func echo(q NetworkQuirks, n hns.Network) hns.Network {
	for i := range n.Subnets {
		if q.OmitsVNI {
			n.Subnets[i].VNI = 0
		}
	}
	if q.OmitsVXLANPort {
		n.VXLANPort = 0
	}
	switch {
	case q.OmitsAdapter:
		n.Adapter = ""
	case q.RenamesAdapter && n.Adapter != "":
		n.Adapter = "vEthernet (" + n.Adapter + ")"
	}
	return n
}

func (h *HNS) echoed(s hns.State) hns.State {
	h.mu.Lock()
	q := h.options.Quirks
	h.mu.Unlock()
	for i := range s.Networks {
		s.Networks[i] = echo(q, s.Networks[i])
	}
	return s
}

// listed removes the objects that lists lack for a while after the service has started.
func (h *HNS) listed(s hns.State) hns.State {
	h.mu.Lock()
	started, delay := h.startedAt, h.options.Quirks.ListsLate
	h.mu.Unlock()
	if delay == 0 || started.IsZero() || time.Since(started) >= delay {
		return s
	}
	return hns.State{
		Networks: hnsquirks.EverySecond(s.Networks), Endpoints: hnsquirks.EverySecond(s.Endpoints), LoadBalancers: hnsquirks.EverySecond(s.LoadBalancers),
	}
}

// firstGeneration returns the state that the first generation of the API lists.
func (h *HNS) firstGeneration() hns.State {
	s := h.echoed(h.listed(h.State()))
	h.mu.Lock()
	q := h.options.Quirks
	s.Endpoints = append(s.Endpoints, h.stale...)
	h.mu.Unlock()
	for i := range s.Endpoints {
		if q.OmitsAddresses {
			s.Endpoints[i].Address = netip.Addr{}
		}
	}
	for i := range s.LoadBalancers {
		if q.OmitsVIPs {
			s.LoadBalancers[i].VIPs = nil
		}
	}
	return s
}

// ReadObjects implements hostapi.Networks: it returns the state that the second generation of the API lists.
func (h *HNS) ReadObjects(ctx context.Context, _ []string) (hns.State, error) {
	if err := h.begin(ctx, "ReadObjects"); err != nil {
		return hns.State{}, err
	}
	return h.echoed(h.found()), nil
}

// HasNetwork implements overlay.HNS.
func (h *HNS) HasNetwork(ctx context.Context, id string) (bool, error) {
	if err := h.begin(ctx, "HasNetwork"); err != nil {
		return false, err
	}
	return slices.ContainsFunc(h.found().Networks, func(n hns.Network) bool { return n.ID == id }), nil
}

// AddHostRoute implements overlay.HNS.
func (h *HNS) AddHostRoute(ctx context.Context, network string) error {
	if err := h.begin(ctx, "AddHostRoute"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n, exists := h.networks[network]
	switch {
	case !exists:
		return fmt.Errorf("network %s: %w", network, hns.ErrNotFound)
	case h.options.Quirks.RefusesHostRoute:
		return fmt.Errorf("policy HostRoute of network %s is refused", n.Name)
	}
	n.HostRoute = true
	h.networks[network] = n
	return nil
}

// found returns the objects that the service finds by ID.
func (h *HNS) found() hns.State {
	h.mu.Lock()
	isLate := h.options.Quirks.FindsLate
	h.mu.Unlock()
	if isLate {
		return h.listed(h.State())
	}
	return h.State()
}

// SetQuirks replaces the quirks of the service, as an update of Windows does.
func (h *HNS) SetQuirks(q NetworkQuirks) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.options.Quirks = q
}
