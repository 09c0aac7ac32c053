package podpolicy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

const (
	// Rules that another program changes are written again at once, and then after pauses between these: each write may reset connections.
	// The pauses begin again once the rules have stayed for steadyFor.
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	steadyFor    = 10 * time.Minute
	// forgetAfter is how long an endpoint must be absent before it is forgotten: a service that has just started may not list it.
	forgetAfter = 2 * hns.IncompleteFor
)

// memory records the rules written to each endpoint. The list of endpoints is on the disk, too: only their rules are ever removed. It is safe
// for concurrent use.
type memory struct {
	disk hostapi.Disk

	mu sync.Mutex
	of map[string]*remembered
}

type remembered struct {
	written
	pause *backoff.Backoff
	// writtenAt is when the rules were last written, absentSince when the endpoint was first not listed; zero if it is.
	writtenAt, absentSince time.Time
}

// newMemory reads the list. After an error, it is empty: the file is damaged by a power failure, after which no endpoint is left.
func newMemory(d hostapi.Disk) (*memory, error) {
	m := &memory{disk: d, of: map[string]*remembered{}}
	endpoints, err := state.ReadPolicyEndpoints(d)
	for _, id := range endpoints {
		m.of[id] = &remembered{written: written{hasRules: true}}
	}
	return m, err
}

func (m *memory) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.of) == 0
}

func (m *memory) snapshot() map[string]written {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]written{}
	for id, r := range m.of {
		all[id] = r.written
	}
	return all
}

// remember adds endpoints before their first write.
func (m *memory) remember(endpoints ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	isNew := false
	for _, id := range endpoints {
		if m.of[id] == nil {
			m.of[id], isNew = &remembered{}, true
		}
	}
	if !isNew {
		return nil
	}
	return m.save()
}

// forget removes endpoints that no longer have rules of WICD's, or do not exist.
func (m *memory) forget(endpoints ...string) error {
	if len(endpoints) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range endpoints {
		delete(m.of, id)
	}
	return m.save()
}

// save writes the list. The caller holds the lock.
func (m *memory) save() error {
	return state.WritePolicyEndpoints(m.disk, slices.Collect(maps.Keys(m.of)))
}

// settle records that an endpoint has the rules that it must have.
func (m *memory) settle(endpoint string, acls []hns.ACL) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.of[endpoint]; r != nil {
		r.acls, r.hasRules, r.failure = slices.Clone(acls), true, nil
	}
}

// record records a write, and reports whether it repeats the previous one.
func (m *memory) record(endpoint string, acls []hns.ACL, failure error) (isRepeated bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.of[endpoint]
	if r == nil {
		return false
	}
	now := time.Now()
	isRepeated = r.acls != nil && hns.SameACLs(r.acls, acls)
	if r.pause == nil || !isRepeated || now.Sub(r.writtenAt) > steadyFor {
		r.pause = backoff.Between(firstPause, longestPause)
	}
	if !isRepeated {
		r.echo = nil
	}
	r.acls, r.failure, r.writtenAt, r.notBefore = slices.Clone(acls), failure, now, time.Time{}
	r.hasRules = r.hasRules || failure == nil
	if isRepeated || failure != nil {
		r.notBefore = now.Add(r.pause.Next())
	}
	return isRepeated
}

// setEcho records what the service returns for the rules of an endpoint.
func (m *memory) setEcho(endpoint string, echo []hns.ACL) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.of[endpoint]; r != nil {
		r.echo = echo
	}
}

// absent returns the remembered endpoints that have not been listed for a while.
func (m *memory) absent(listed map[string]bool) (gone []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for id, r := range m.of {
		switch {
		case listed[id]:
			r.absentSince = time.Time{}
		case r.absentSince.IsZero():
			r.absentSince = now
		case now.Sub(r.absentSince) >= forgetAfter:
			gone = append(gone, id)
		}
	}
	return gone
}

// turns lets one goroutine at a time write to an endpoint, which then decides by the newest state.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	taken chan struct{}
	users int
}

// take waits for the turn of an endpoint. The caller calls release.
func (t *turns) take(ctx context.Context, endpoint string) (release func(), err error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]*turn{}
	}
	one := t.of[endpoint]
	if one == nil {
		one = &turn{taken: make(chan struct{}, 1)}
		t.of[endpoint] = one
	}
	one.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.of, endpoint)
		}
	}
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
