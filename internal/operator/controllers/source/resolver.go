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

	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// Resolver resolves the names of hosts to IPv4 addresses and caches them: while DNS does not answer, a name keeps its last addresses.
type Resolver struct {
	dns   func(ctx context.Context, network, name string) ([]netip.Addr, error)
	slots chan struct{} // holds an element for each lookup in progress, except of names that never resolved
	// Answered receives an event when DNS has answered for names without a result.
	Answered chan ctrlevent.GenericEvent

	mu         sync.Mutex
	known      map[string]cachedName
	unresolved int // names that never resolved and are being looked up or about to be
}

// cachedName is the cached result for a name.
type cachedName struct {
	ips       []netip.Addr // of the last good answer; nil before the first
	err       error        // of the last answer
	at        time.Time    // of the last answer
	used      time.Time
	seen      time.Time // first
	lookingUp bool      // in the background
	failures  int       // in a row
}

const (
	// lookupTimeout limits the resolution of one name, lookups the number of concurrent ones.
	lookupTimeout = 5 * time.Second
	lookups       = 64
	// maxUnresolved limits the concurrent lookups of names that never resolved, unresolvedTimeout their duration: there may be any number of such names,
	// and they must not delay all others.
	maxUnresolved     = 256
	unresolvedTimeout = 30 * time.Second
	// answerLifetime is how long a good answer counts as current. minRetryDelay is the delay after the first failure, maxRetryDelay the maximum.
	answerLifetime = 30 * time.Second
	minRetryDelay  = 10 * time.Second
	maxRetryDelay  = 5 * time.Minute
	// forgetAfter is how long an unused name is cached.
	forgetAfter = time.Hour
)

// NewResolver returns a Resolver that calls lookup; nil uses the DNS of this machine.
func NewResolver(lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)) *Resolver {
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	return &Resolver{dns: lookup, slots: make(chan struct{}, lookups), known: map[string]cachedName{}, Answered: make(chan ctrlevent.GenericEvent, 1)}
}

// resolved maps keys, which are addresses or DNS names, to their IPv4 addresses.
type resolved map[string]resolution

// resolution is the result for a key. With neither an address nor an error, DNS has not answered yet.
type resolution struct {
	ips  []netip.Addr
	err  error
	seen time.Time // first, by this process
}

// isPending reports whether an answer is expected soon.
func (r resolution) isPending(now time.Time) bool {
	return len(r.ips) == 0 && r.err == nil && now.Sub(r.seen) < lookupTimeout
}

// ip returns the first address; invalid if there is none.
func (r resolution) ip() netip.Addr {
	if len(r.ips) == 0 {
		return netip.Addr{}
	}
	return r.ips[0]
}

// resolve returns the cached results for addresses and names, without waiting. Names are looked up in the background: resolved ones when their answer is
// old, and of those that never resolved, the ones that have waited longest.
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
		if ip, err := netip.ParseAddr(key); err == nil { // an address needs no lookup
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
			if age > answerLifetime && !m.lookingUp {
				m.lookingUp = true
				go func() { _, _ = r.Lookup(ctx, key) }() // records its result
			}
		case !m.lookingUp && (m.failures == 0 || age > retryDelay(m.failures)):
			due = append(due, key)
		}
		r.known[key] = m
	}
	r.resolveNew(ctx, due)
	r.forget()
	return all
}

// retryDelay returns the delay of the next lookup of a name that never resolved, after the given number of failures.
func retryDelay(failures int) time.Duration {
	return min(minRetryDelay<<min(failures-1, 10), maxRetryDelay)
}

// resolveNew looks up names that never resolved, in the background, up to the limit. r.mu must be held.
func (r *Resolver) resolveNew(ctx context.Context, due []string) {
	slices.SortFunc(due, func(a, b string) int { return cmp.Or(r.known[a].at.Compare(r.known[b].at), strings.Compare(a, b)) })
	due = due[:min(len(due), max(maxUnresolved-r.unresolved, 0))]
	if len(due) == 0 {
		return
	}
	r.unresolved += len(due)
	for _, name := range due {
		m := r.known[name]
		m.lookingUp = true
		r.known[name] = m
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, unresolvedTimeout)
		defer cancel()
		names := make(chan string, len(due))
		for _, name := range due {
			names <- name
		}
		close(names)
		var workers sync.WaitGroup
		for range min(lookups, len(due)) {
			workers.Go(func() {
				for name := range names {
					_, _ = r.lookupAndCache(ctx, name)
				}
			})
		}
		workers.Wait()
		r.mu.Lock()
		r.unresolved -= len(due)
		r.mu.Unlock()
		kube.Notify(r.Answered)
	}()
}

// Lookup looks up a name in DNS and falls back on its cached addresses.
func (r *Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return r.lookupAndCache(ctx, name)
}

// lookupAndCache looks up a name in DNS and caches the answer.
func (r *Resolver) lookupAndCache(ctx context.Context, name string) ([]netip.Addr, error) {
	ips, err := r.lookupName(ctx, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	m, now := r.known[name], time.Now()
	m.lookingUp = false
	if ctx.Err() == nil { // otherwise the error is not about the name
		m.err, m.at, m.used = err, now, now
		m.failures++
		if err == nil {
			if m.ips == nil {
				kube.Notify(r.Answered)
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

// forget drops names that are no longer used. r.mu must be held.
func (r *Resolver) forget() {
	for name, m := range r.known {
		if time.Since(m.used) > forgetAfter {
			delete(r.known, name)
		}
	}
}

// lookupName looks up the IPv4 addresses of a name in DNS.
func (r *Resolver) lookupName(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookupTimeout, fmt.Errorf("no answer within %s", lookupTimeout))
	defer cancel()
	ips, err := r.dns(ctx, "ip4", addresses.Absolute(name))
	if err != nil {
		return nil, fmt.Errorf("the name does not resolve: %w; use a name that resolves to an IPv4 address, or the address itself", err)
	}
	var v4 []netip.Addr
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Is4() {
			v4 = append(v4, ip)
		}
	}
	if v4 == nil {
		return nil, errors.New("the name has no IPv4 address; use a name that resolves to one, or the address itself")
	}
	return v4, nil
}
