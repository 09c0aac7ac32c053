package kube

import (
	"sync"
)

// Slots limits the hosts that join at the same time. The limit may change at any time; slots that are taken remain valid.
type Slots struct {
	mu    sync.Mutex
	taken int
}

// Slot is a slot that was taken.
type Slot struct{ release func() }

// Close releases the slot, once. On nil it does nothing.
func (s *Slot) Close() error {
	if s != nil {
		s.release()
	}
	return nil
}

// Take takes a slot if fewer than limit are taken.
func (s *Slots) Take(limit int) (slot *Slot, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= limit {
		return nil, false
	}
	s.taken++
	return &Slot{release: sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
	})}, true
}

// Taken returns the number of slots taken.
func (s *Slots) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// Free reports whether a slot is free.
func (s *Slots) Free(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken < limit
}
