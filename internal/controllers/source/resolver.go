package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windows-machine-config/wmco/internal/addresses"
)

// Resolver asks DNS for the IPv4 addresses of hosts' names, and remembers them: where DNS does not answer, a name means what it meant last.
type Resolver struct {
	dns    func(ctx context.Context, network, name string) ([]netip.Addr, error)
	places chan struct{} // an element for each question under way, but for those about names that never resolved
	// Answered has an element when something was learned of names that were not known.
	Answered chan ctrlevent.GenericEvent

	mu       sync.Mutex
	known    map[string]memory
	unproven int // questions under way, or about to be asked, about names that never resolved
}

// memory is what is remembered of a name.
type memory struct {
	ips      []netip.Addr // of the last good answer; nil before the first
	err      error        // of the last answer
	at       time.Time    // of the last answer
	used     time.Time
	seen     time.Time // for the first time
	asking   bool      // in the background
	failures int       // in a row
}

const (
	// lookupTimeout bounds the resolution of one name, lookups how many are resolved at the same time.
	lookupTimeout = 5 * time.Second
	lookups       = 64
	// unprovenNames is how many names that never resolved are asked for in one go, unprovenWithin how long that may take: there may be any number
	// of them, and all others are not to wait.
	unprovenNames  = 256
	unprovenWithin = 30 * time.Second
	// freshFor is how long a good answer is taken for the present one, failedFor how long the first bad one is, and failedMost how long any is.
	freshFor   = 30 * time.Second
	failedFor  = 10 * time.Second
	failedMost = 5 * time.Minute
	// forgetAfter is how long a name is remembered that nobody asks for.
	forgetAfter = time.Hour
)

// NewResolver makes a Resolver that asks lookup; nil asks the DNS of this machine.
func NewResolver(lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)) *Resolver {
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	return &Resolver{dns: lookup, places: make(chan struct{}, lookups), known: map[string]memory{}, Answered: make(chan ctrlevent.GenericEvent, 1)}
}

// resolved are the IPv4 addresses that keys mean: addresses, or names that DNS was asked for.
type resolved map[string]resolution

// resolution is what a key means. Without an address and an error, DNS has not answered yet.
type resolution struct {
	ips  []netip.Addr
	err  error
	seen time.Time // for the first time, by this program
}

// isAsked says whether an answer is to come soon.
func (r resolution) isAsked(now time.Time) bool {
	return len(r.ips) == 0 && r.err == nil && now.Sub(r.seen) < lookupTimeout
}

// ip is the first of the addresses; invalid where there is none.
func (r resolution) ip() netip.Addr {
	if len(r.ips) == 0 {
		return netip.Addr{}
	}
	return r.ips[0]
}

// resolve says what addresses and names mean, as far as that is known, without waiting. Names are asked for in the background: those that
// resolved when their answer is old, and of those that never did the ones that have waited longest.
func (r *Resolver) resolve(ctx context.Context, keys []string) resolved {
	all := make(resolved, len(keys))
	ctx, now := context.WithoutCancel(ctx), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []string
	for _, key := range keys {
		if _, twice := all[key]; twice {
			continue
		}
		if ip, err := netip.ParseAddr(key); err == nil { // an address means itself
			all[key] = resolution{ips: []netip.Addr{ip}}
			continue
		}
		m := r.known[key]
		if m.used = now; m.seen.IsZero() {
			m.seen = now
		}
		all[key] = resolution{ips: m.ips, err: m.err, seen: m.seen}
		switch age := now.Sub(m.at); {
		case m.ips != nil:
			all[key] = resolution{ips: m.ips}
			if age > freshFor && !m.asking {
				m.asking = true
				go func() { _, _ = r.Lookup(ctx, key) }() // keeps what it learns
			}
		case !m.asking && (m.failures == 0 || age > pauseAfter(m.failures)):
			due = append(due, key)
		}
		r.known[key] = m
	}
	r.askUnproven(ctx, due)
	r.forget()
	return all
}

// pauseAfter is how long a name that never resolved is left alone after so many failures.
func pauseAfter(failures int) time.Duration {
	return min(failedFor<<min(failures-1, 10), failedMost)
}

// askUnproven asks for names that never resolved, in the background, as many as may be asked for now. r.mu is held.
func (r *Resolver) askUnproven(ctx context.Context, due []string) {
	slices.SortFunc(due, func(a, b string) int { return cmp.Or(r.known[a].at.Compare(r.known[b].at), strings.Compare(a, b)) })
	due = due[:min(len(due), max(unprovenNames-r.unproven, 0))]
	if len(due) == 0 {
		return
	}
	r.unproven += len(due)
	for _, name := range due {
		m := r.known[name]
		m.asking = true
		r.known[name] = m
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, unprovenWithin)
		defer cancel()
		names := make(chan string, len(due))
		for _, name := range due {
			names <- name
		}
		close(names)
		var asking sync.WaitGroup
		for range min(lookups, len(due)) {
			asking.Go(func() {
				for name := range names {
					_, _ = r.learn(ctx, name)
				}
			})
		}
		asking.Wait()
		r.mu.Lock()
		r.unproven -= len(due)
		r.mu.Unlock()
		r.tell()
	}()
}

// tell says that something was learned.
func (r *Resolver) tell() {
	select {
	case r.Answered <- ctrlevent.GenericEvent{}:
	default: // it is said already
	}
}

// Lookup asks DNS for a name, and falls back on what is remembered of it.
func (r *Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return r.learn(ctx, name)
}

// learn asks DNS for a name, and remembers the answer.
func (r *Resolver) learn(ctx context.Context, name string) ([]netip.Addr, error) {
	ips, err := r.lookupName(ctx, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	m, now := r.known[name], time.Now()
	m.asking = false
	if ctx.Err() == nil { // else it says nothing about the name
		m.err, m.at, m.used = err, now, now
		m.failures++
		if err == nil {
			if m.ips == nil {
				r.tell()
			}
			m.ips, m.failures = ips, 0
		}
	}
	r.known[name] = m
	if m.ips != nil {
		return m.ips, nil
	}
	return nil, err
}

// forget drops names that nobody asks for any more. r.mu is held.
func (r *Resolver) forget() {
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
	ips, err := r.dns(ctx, "ip4", addresses.Absolute(name))
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
