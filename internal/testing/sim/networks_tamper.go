package sim

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Add creates objects like other programs: kube-proxy's load balancers and remote endpoints. Those without an ID get one. It
// returns them.
func (h *HNS) Add(s hns.State) hns.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	var added hns.State
	for _, n := range s.Networks {
		if n.ID == "" {
			n.ID = h.newID()
		}
		h.networks[n.ID] = copied(n)
		added.Networks = append(added.Networks, n)
	}
	for _, e := range s.Endpoints {
		if e.ID == "" {
			e.ID = h.newID()
		}
		h.endpoints[e.ID] = e
		added.Endpoints = append(added.Endpoints, e)
	}
	for _, b := range s.LoadBalancers {
		if !h.options.Quirks.HasPorts(len(h.balancers)) {
			continue // kube-proxy logs that and continues
		}
		if b.ID == "" {
			b.ID = h.newID()
		}
		h.balancers[b.ID] = b
		added.LoadBalancers = append(added.LoadBalancers, b)
	}
	return added
}

// Lose removes objects by their IDs without a notification, networks with their endpoints.
func (h *HNS) Lose(ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		h.loseLocked(id)
	}
}

// loseLocked removes a network, an endpoint or a load balancer with this ID, and reports whether it existed.
func (h *HNS) loseLocked(id string) bool {
	_, isNetwork := h.networks[id]
	_, isEndpoint := h.endpoints[id]
	_, isBalancer := h.balancers[id]
	if e := h.endpoints[id]; isEndpoint && !e.Remote && h.options.Quirks.ListsStale {
		e.ID, e.Remote = h.newID(), true
		h.stale = append(h.stale, e)
	}
	delete(h.networks, id)
	delete(h.endpoints, id)
	delete(h.balancers, id)
	if isNetwork {
		maps.DeleteFunc(h.endpoints, func(_ string, e hns.Endpoint) bool { return e.Network == id })
	}
	h.dropACLsLocked()
	return isNetwork || isEndpoint || isBalancer
}

// LoseLoadBalancers removes all load balancers without a notification.
func (h *HNS) LoseLoadBalancers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.balancers)
}

// Edit changes a network, like another program or a changed adapter.
func (h *HNS) Edit(network string, edit func(*hns.Network)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n, found := h.networks[network]; found {
		n = copied(n)
		edit(&n)
		h.networks[network] = n
	}
}

// Stop stops the service: until Start, calls fail, and the objects stay.
func (h *HNS) Stop() { h.run(false) }

// Start starts the service with its objects, or without any if it loses all.
func (h *HNS) Start(losesAll bool) {
	if losesAll {
		h.mu.Lock()
		clear(h.networks)
		clear(h.endpoints)
		clear(h.balancers)
		clear(h.acls)
		h.mu.Unlock()
	}
	h.run(true)
}

// Restart stops the service and starts it again.
func (h *HNS) Restart(losesAll bool) {
	h.Stop()
	h.Start(losesAll)
}

func (h *HNS) run(runs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped == !runs {
		return
	}
	h.stopped = !runs
	if runs {
		h.startedAt = time.Now()
	}
	h.watches.notify("")
}

// Slow delays every call from now on.
func (h *HNS) Slow(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow = d
}

// Refuse makes all calls of a name fail with an error from now on, without a change; nil ends that.
func (h *HNS) Refuse(call string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused[call] = err
}

// Calls counts the calls since the last ResetCalls, by the names of the methods of both ports.
func (h *HNS) Calls() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.calls)
}

// ResetCalls sets the counts to zero.
func (h *HNS) ResetCalls() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.calls)
}

// reboot removes all objects except persistent networks, as a start of the computer does.
func (h *HNS) reboot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.networks, func(_ string, n hns.Network) bool { return !n.Persistent })
	clear(h.endpoints)
	clear(h.balancers)
	clear(h.acls)
	h.stopped, h.stale, h.startsAt, h.startedAt = false, nil, time.Time{}, time.Now()
}

// networks is the service for the programs of one boot.
type networks struct{ boot *boot }

// List implements hostapi.Networks.
func (n networks) List(ctx context.Context) (hns.State, error) {
	if n.boot.isOff() {
		return hns.State{}, ErrPower
	}
	return n.boot.w.hns.List(ctx)
}

// ReadObjects implements hostapi.Networks.
func (n networks) ReadObjects(ctx context.Context, endpoints []string) (hns.State, error) {
	if n.boot.isOff() {
		return hns.State{}, ErrPower
	}
	return n.boot.w.hns.ReadObjects(ctx, endpoints)
}

// CreateEndpoint implements hostapi.Networks.
func (n networks) CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error) {
	if err := n.boot.change("endpoint " + e.Name); err != nil {
		return hns.Endpoint{}, err
	}
	return n.boot.w.hns.CreateEndpoint(ctx, e)
}

// Remove implements hostapi.Networks. The power can go before each object.
func (n networks) Remove(ctx context.Context, s hns.State) error {
	if n.boot.isOff() {
		return ErrPower
	}
	if err := n.boot.w.hns.begin(ctx, "Remove"); err != nil {
		return err
	}
	var failures error
	for _, id := range idsOf(s) {
		if err := n.boot.change("remove " + strings.ToLower(id)); err != nil {
			failures = errors.Join(failures, err)
			continue
		}
		n.boot.w.hns.Lose(id)
	}
	return failures
}

// Watch implements hostapi.Networks.
func (n networks) Watch(ctx context.Context) (<-chan struct{}, error) {
	if n.boot.isOff() {
		return nil, ErrPower
	}
	return n.boot.w.hns.Watch(ctx)
}

// HNS returns the Host Network Service of the computer, independent of its power.
func (w *Windows) HNS() *HNS { return w.hns }

// newHNSOf returns the service of a computer.
func newHNSOf(o WindowsOptions) *HNS {
	address, _ := netip.ParseAddr(o.Address) // an invalid address selects the default
	return NewHNS(HNSOptions{ManagementIP: address, Build: o.Build, Quirks: o.Quirks.Network})
}
