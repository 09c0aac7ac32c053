package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// HNSOptions are the options of a Host Network Service. The zero value is a Windows Server 2022.
type HNSOptions struct {
	// ManagementIP is the host's address. Default: 192.0.2.10.
	ManagementIP netip.Addr
	// Build is the build of Windows. Default: 20348.
	Build int
	// Settle is how long a new network lacks a router MAC and a management IP.
	Settle time.Duration
	Quirks NetworkQuirks
}

// HNS is a Host Network Service in memory. It implements the ports of the daemon and of the overlay, and is safe for concurrent
// use.
type HNS struct {
	options HNSOptions

	mu        sync.Mutex
	networks  map[string]hns.Network
	endpoints map[string]hns.Endpoint
	balancers map[string]hns.LoadBalancer
	acls      map[string][]hns.ACL // by endpoint
	aclWrites int
	// hostSpace is the GUID of the namespace of the host's own compartment.
	hostSpace string
	made      int // number of created objects, for unique IDs and MACs
	stopped   bool
	slow      time.Duration
	refused   map[string]error // by the name of the call
	calls     map[string]int
	watches   watches
	// startedAt is when the service was last started; zero if it has been running from the beginning. startsAt is when a service that starts late
	// answers.
	startedAt, startsAt time.Time
	// stale are removed endpoints that the first generation of the API still lists.
	stale []hns.Endpoint
}

// NewHNS returns a running service without objects.
func NewHNS(o HNSOptions) *HNS {
	if !o.ManagementIP.IsValid() {
		o.ManagementIP = netip.AddrFrom4([4]byte{192, 0, 2, 10})
	}
	o.Build = cmp.Or(o.Build, 20348)
	h := &HNS{
		options: o, networks: map[string]hns.Network{}, endpoints: map[string]hns.Endpoint{}, balancers: map[string]hns.LoadBalancer{},
		acls: map[string][]hns.ACL{}, refused: map[string]error{}, calls: map[string]int{}, watches: watches{},
	}
	h.hostSpace = h.newID()
	return h
}

// begin starts every call: it counts the call, delays it, and returns an injected failure.
func (h *HNS) begin(ctx context.Context, call string) error {
	h.mu.Lock()
	h.calls[call]++
	slow := h.slow
	h.mu.Unlock()
	if slow > 0 {
		_ = backoff.Sleep(ctx, slow)
	}
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w: %w", call, hns.ErrUnavailable, err)
	} else if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped || !h.startedLocked() {
		return fmt.Errorf("%s: %w", call, hns.ErrUnavailable)
	}
	if err := h.refused[call]; err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	return nil
}

// newID returns a new GUID. The caller holds the lock, or has exclusive access.
func (h *HNS) newID() string {
	h.made++
	return fmt.Sprintf("51a00000-0000-4000-8000-%012x", h.made)
}

// newMAC returns the address for the last created object, which is unique among these hosts. The caller holds the lock.
func (h *HNS) newMAC(kind byte) string {
	address := h.options.ManagementIP.AsSlice()
	low := address[len(address)-2:]
	return fmt.Sprintf("00-15-%02X-%02X-%02X-%02X", kind, low[0], low[1], byte(h.made))
}

// List implements hostapi.Networks.
func (h *HNS) List(ctx context.Context) (hns.State, error) {
	if err := h.begin(ctx, "List"); err != nil {
		return hns.State{}, err
	}
	return h.firstGeneration(), nil
}

// Networks implements the port of the overlay.
func (h *HNS) Networks(ctx context.Context) ([]hns.Network, error) {
	if err := h.begin(ctx, "Networks"); err != nil {
		return nil, err
	}
	return h.echoed(h.listed(h.State())).Networks, nil
}

// CreateNetwork implements the port of the overlay.
func (h *HNS) CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error) {
	if err := h.begin(ctx, "CreateNetwork"); err != nil {
		return hns.Network{}, err
	}
	n, settled, err := h.addNetwork(n)
	if err != nil {
		return hns.Network{}, fmt.Errorf("creating network %s: %w", n.Name, err)
	}
	select {
	case <-settled:
	case <-ctx.Done():
		return hns.Network{}, fmt.Errorf("waiting for the addresses of network %s: %w", n.Name, ctx.Err())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n, found := h.networks[n.ID]
	if !found {
		return hns.Network{}, fmt.Errorf("waiting for the addresses of network %s: %w", n.Name, hns.ErrNotFound)
	}
	return echo(h.options.Quirks, copied(n)), nil
}

// addNetwork creates a network, which gets its addresses after Settle.
func (h *HNS) addNetwork(n hns.Network) (made hns.Network, settled <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, other := range h.networks {
		if other.Name == n.Name {
			return n, nil, hns.ErrExists
		}
	}
	if hns.OwnVXLANPort(n.VXLANPort) != 0 && h.options.Build < firstWithVXLANPort {
		return n, nil, fmt.Errorf("build %d of Windows supports only VXLAN port %d", h.options.Build, hns.DefaultVXLANPort)
	}
	if err := h.bindLocked(n); err != nil {
		return n, nil, err
	}
	n = copied(n)
	n.HostRoute = n.HostRoute && !h.options.Quirks.RefusesHostRoute
	n.ID, n.RouterMAC, n.ManagementIP = h.newID(), "", netip.Addr{}
	n.VXLANPort = hns.OwnVXLANPort(n.VXLANPort)
	h.networks[n.ID] = n
	mac, done := h.newMAC(0x5D), make(chan struct{})
	if h.options.Settle == 0 {
		h.settleLocked(n.ID, mac)
		close(done)
		return n, done, nil
	}
	time.AfterFunc(h.options.Settle, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.settleLocked(n.ID, mac)
		close(done)
	})
	return n, done, nil
}

// firstWithVXLANPort is the first build of Windows Server that supports other VXLAN ports.
const firstWithVXLANPort = 17764

func (h *HNS) settleLocked(id, mac string) {
	n, found := h.networks[id]
	if !found {
		return
	}
	n.ManagementIP = h.managementIPLocked(n)
	if n.Type == hns.Overlay {
		n.RouterMAC = mac
	}
	h.networks[id] = n
}

// DeleteNetwork implements the port of the overlay.
func (h *HNS) DeleteNetwork(ctx context.Context, id string) error {
	if err := h.begin(ctx, "DeleteNetwork"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.loseLocked(id) {
		return fmt.Errorf("deleting network %s: %w", id, hns.ErrNotFound)
	}
	return nil
}

// AddRemotes implements the port of the overlay.
func (h *HNS) AddRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error {
	return h.changeRemotes(ctx, "AddRemotes", network, func(have []hns.RemoteSubnet) ([]hns.RemoteSubnet, error) {
		for _, r := range remotes {
			i := slices.IndexFunc(have, func(other hns.RemoteSubnet) bool { return other.Prefix == r.Prefix })
			switch {
			case i < 0:
				have = append(have, r)
			case have[i] != r:
				return nil, fmt.Errorf("subnet %v: %w", r.Prefix, hns.ErrExists)
			}
		}
		return have, nil
	})
}

// RemoveRemotes implements the port of the overlay.
func (h *HNS) RemoveRemotes(ctx context.Context, network string, remotes []hns.RemoteSubnet) error {
	return h.changeRemotes(ctx, "RemoveRemotes", network, func(have []hns.RemoteSubnet) ([]hns.RemoteSubnet, error) {
		return slices.DeleteFunc(have, func(r hns.RemoteSubnet) bool { return slices.Contains(remotes, r) }), nil
	})
}

func (h *HNS) changeRemotes(ctx context.Context, call, network string, change func([]hns.RemoteSubnet) ([]hns.RemoteSubnet, error)) error {
	if err := h.begin(ctx, call); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n, found := h.networks[network]
	if !found {
		return fmt.Errorf("%s of network %s: %w", call, network, hns.ErrNotFound)
	}
	remotes, err := change(slices.Clone(n.Remotes))
	if err != nil {
		return fmt.Errorf("%s of network %s: %w", call, network, err)
	}
	slices.SortFunc(remotes, func(a, b hns.RemoteSubnet) int { return a.Prefix.Compare(b.Prefix) })
	n.Remotes = remotes
	h.networks[network] = copied(n)
	return nil
}

// CreateEndpoint implements hostapi.Networks.
func (h *HNS) CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error) {
	if err := h.begin(ctx, "CreateEndpoint"); err != nil {
		return hns.Endpoint{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n, found := h.networks[e.Network]
	if !found {
		return hns.Endpoint{}, fmt.Errorf("creating endpoint %s on network %s: %w", e.Name, e.Network, hns.ErrNotFound)
	}
	for _, other := range h.endpoints {
		if other.Network == e.Network && (other.Name == e.Name || e.Address.IsValid() && other.Address == e.Address) {
			return hns.Endpoint{}, fmt.Errorf("creating endpoint %s on network %s: %w", e.Name, n.Name, hns.ErrExists)
		}
	}
	e.ID, e.Namespace = h.newID(), ""
	e.MAC = cmp.Or(e.MAC, h.newMAC(0x5E))
	if !e.Address.IsValid() {
		e.Address = h.freeAddressLocked(n)
	}
	if e.Host {
		e.Namespace = h.hostSpace
	}
	h.endpoints[e.ID] = e
	return e, nil
}

// freeAddressLocked returns the first unused address of a network's first subnet; not valid if there is none.
func (h *HNS) freeAddressLocked(n hns.Network) netip.Addr {
	if len(n.Subnets) == 0 {
		return netip.Addr{}
	}
	subnet, taken := n.Subnets[0], map[netip.Addr]bool{n.Subnets[0].Gateway: true}
	for _, e := range h.endpoints {
		if e.Network == n.ID {
			taken[e.Address] = true
		}
	}
	for a := subnet.Prefix.Masked().Addr().Next(); subnet.Prefix.Contains(a); a = a.Next() {
		if !taken[a] {
			return a
		}
	}
	return netip.Addr{}
}

// Remove implements hostapi.Networks.
func (h *HNS) Remove(ctx context.Context, s hns.State) error {
	if err := h.begin(ctx, "Remove"); err != nil {
		return err
	}
	h.Lose(idsOf(s)...)
	return nil
}

// idsOf returns the IDs of a state's objects in the order in which they are removed.
func idsOf(s hns.State) []string {
	var ids []string
	for _, b := range s.LoadBalancers {
		ids = append(ids, b.ID)
	}
	for _, e := range s.Endpoints {
		ids = append(ids, e.ID)
	}
	for _, n := range s.Networks {
		ids = append(ids, n.ID)
	}
	return ids
}

// Watch implements hostapi.Networks.
func (h *HNS) Watch(ctx context.Context) (<-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watches.add(ctx, &h.mu, nil), nil
}

// State returns all objects of the service, even if it is stopped. It does not count as a call.
func (h *HNS) State() hns.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	var s hns.State
	for _, id := range slices.Sorted(maps.Keys(h.networks)) {
		s.Networks = append(s.Networks, copied(h.networks[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(h.endpoints)) {
		s.Endpoints = append(s.Endpoints, h.endpoints[id])
	}
	for _, id := range slices.Sorted(maps.Keys(h.balancers)) {
		b := h.balancers[id]
		b.VIPs, b.Endpoints = slices.Clone(b.VIPs), slices.Clone(b.Endpoints)
		s.LoadBalancers = append(s.LoadBalancers, b)
	}
	return s
}

func copied(n hns.Network) hns.Network {
	n.Subnets, n.Remotes = slices.Clone(n.Subnets), slices.Clone(n.Remotes)
	if len(n.Remotes) == 0 {
		n.Remotes = nil
	}
	return n
}
