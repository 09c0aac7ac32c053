package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Resolver asks DNS for the IPv4 addresses of hosts' names, and remembers them: where DNS does not answer, a name means what it meant last.
type Resolver struct {
	dns    func(ctx context.Context, network, name string) ([]netip.Addr, error)
	places chan struct{} // an element for each question under way

	mu    sync.Mutex
	known map[string]memory
}

// memory is what is remembered of a name.
type memory struct {
	ips    []netip.Addr // of the last good answer; nil before the first
	err    error        // of the last answer
	at     time.Time    // of the last answer
	used   time.Time
	asking bool // in the background
}

const (
	// lookupTimeout bounds the resolution of one name, lookups how many are resolved at the same time.
	lookupTimeout = 5 * time.Second
	lookups       = 64
	// freshFor is how long a good answer is taken for the present one, failedFor how long a bad one is.
	freshFor  = 30 * time.Second
	failedFor = 10 * time.Second
	// forgetAfter is how long a name is remembered that nobody asks for.
	forgetAfter = time.Hour
)

// NewResolver makes a Resolver that asks lookup; nil asks the DNS of this machine.
func NewResolver(lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)) *Resolver {
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	return &Resolver{dns: lookup, places: make(chan struct{}, lookups), known: map[string]memory{}}
}

// resolved are the IPv4 addresses that keys mean: addresses, or names that DNS was asked for.
type resolved map[string]resolution

type resolution struct {
	ips []netip.Addr // at least one, where there is no error
	err error
}

// ip is the first of the addresses; invalid where there is none.
func (r resolution) ip() netip.Addr {
	if len(r.ips) == 0 {
		return netip.Addr{}
	}
	return r.ips[0]
}

// resolve resolves addresses and names. A name that is remembered costs no time: where it was asked for long ago, it is asked for again in
// the background. All others are asked for at the same time.
func (r *Resolver) resolve(ctx context.Context, keys []string) resolved {
	var mu sync.Mutex
	all := make(resolved, len(keys))
	slices.Sort(keys)
	var asking sync.WaitGroup
	for _, key := range slices.Compact(keys) {
		if is, known := r.remembered(ctx, key); known {
			all[key] = is
			continue
		}
		asking.Go(func() {
			ips, err := r.Lookup(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			all[key] = resolution{ips, err}
		})
	}
	asking.Wait()
	r.forget()
	return all
}

// remembered is what a key means without a question: an address means itself.
func (r *Resolver) remembered(ctx context.Context, key string) (resolution, bool) {
	if ip, err := netip.ParseAddr(key); err == nil {
		return resolution{ips: []netip.Addr{ip}}, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, now := r.known[key], time.Now()
	m.used = now
	age := now.Sub(m.at)
	switch {
	case m.ips != nil && age > freshFor && !m.asking:
		m.asking = true
		go func() { _, _ = r.Lookup(context.WithoutCancel(ctx), key) }() // keeps what it learns
	case m.ips == nil && (m.err == nil || age > failedFor):
		return resolution{}, false
	}
	r.known[key] = m
	if m.ips == nil {
		return resolution{err: m.err}, true
	}
	return resolution{ips: m.ips}, true
}

// Lookup asks DNS for a name, and falls back on what is remembered of it.
func (r *Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	ips, err := r.lookupName(ctx, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	m, now := r.known[name], time.Now()
	m.err, m.at, m.used, m.asking = err, now, now, false
	if err == nil {
		m.ips = ips
	}
	if ctx.Err() == nil { // else it says nothing about the name
		r.known[name] = m
	}
	if m.ips != nil {
		return m.ips, nil
	}
	return nil, err
}

// forget drops names that nobody asks for any more.
func (r *Resolver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.known {
		if time.Since(m.used) > forgetAfter {
			delete(r.known, name)
		}
	}
}

// lookupName asks DNS for the IPv4 addresses of a name.
func (r *Resolver) lookupName(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookupTimeout, fmt.Errorf("no answer within %s", lookupTimeout))
	defer cancel()
	ips, err := r.dns(ctx, "ip4", name)
	if err != nil {
		return nil, fmt.Errorf("the name does not resolve: %w; use a name that DNS gives an IPv4 address for, or the address itself", err)
	}
	var v4 []netip.Addr
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Is4() {
			v4 = append(v4, ip)
		}
	}
	if v4 == nil {
		return nil, errors.New("the name has no IPv4 address; use a name that DNS gives one for, or the address itself")
	}
	return v4, nil
}
