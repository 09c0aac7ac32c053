package kube

import (
	"sync"
)

// Slots are the places for hosts that join at the same time. The limit may change at any time; who has a
// place keeps it.
type Slots struct {
	mu    sync.Mutex
	taken int
}

// Slot is a place that was taken.
type Slot struct{ release func() }

// Close gives the place back, once. Without a slot it does nothing.
func (s *Slot) Close() error {
	if s != nil {
		s.release()
	}
	return nil
}

// Take takes a place if fewer than limit are taken.
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

// Taken is how many are taken.
func (s *Slots) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// Free says whether a place is left.
func (s *Slots) Free(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken < limit
}
