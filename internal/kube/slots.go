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

// Take takes a place if fewer than limit are taken. release gives it back.
func (s *Slots) Take(limit int) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= limit {
		return nil, false
	}
	s.taken++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
	}), true
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
