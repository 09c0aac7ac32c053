package controllers

import "sync"

// slots are the places for hosts that join at the same time. The limit may change at any time; who has a
// place keeps it.
type slots struct {
	mu    sync.Mutex
	taken int
}

// take takes a place if fewer than limit are taken. release gives it back.
func (s *slots) take(limit int) (release func(), ok bool) {
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

// held is how many are taken.
func (s *slots) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// free says whether a place is left.
func (s *slots) free(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken < limit
}
