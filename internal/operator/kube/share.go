package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Share limits the memory of all objects of a kind, and of each owner's objects, so that a tenant or node with many objects does not take the
// room of others.
type Share struct {
	// Total and PerOwner are in bytes.
	Total, PerOwner int
	// Owner returns the owner of an object.
	Owner func(client.Object) string

	mu     sync.Mutex
	held   map[types.UID]held
	owners map[string]int
	total  int
	round  int
	cut    int
}

type held struct {
	owner       string
	size, round int
}

// reserve reserves room for an object, in place of its previous reservation. It returns false if there is no room.
func (s *Share) reserve(uid types.UID, owner string, size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(uid)
	if s.total+size > s.Total || s.owners[owner]+size > s.PerOwner {
		s.cut++
		return false
	}
	if s.held == nil {
		s.held, s.owners = map[types.UID]held{}, map[string]int{}
	}
	s.held[uid] = held{owner, size, s.round}
	s.owners[owner] += size
	s.total += size
	return true
}

func (s *Share) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(uid)
}

func (s *Share) drop(uid types.UID) {
	h, ok := s.held[uid]
	if !ok {
		return
	}
	delete(s.held, uid)
	s.total -= h.size
	if s.owners[h.owner] -= h.size; s.owners[h.owner] == 0 {
		delete(s.owners, h.owner)
	}
}

// HasRoom reports whether an owner has room for an object of a size.
func (s *Share) HasRoom(owner string, size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total+size <= s.Total && s.owners[owner]+size <= s.PerOwner
}

// keepOnly removes deleted objects and returns how many objects have found no room since the last call. It keeps objects that were added since
// then, because they may not be in the cache yet.
func (s *Share) keepOnly(exist map[types.UID]bool) (cut int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, h := range s.held {
		if h.round < s.round && !exist[uid] {
			s.drop(uid)
		}
	}
	s.round++
	cut, s.cut = s.cut, 0
	return cut
}
