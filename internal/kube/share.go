package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Share bounds how much memory all objects of a kind take, and those of one owner: a tenant or a node that makes many does not take the
// room of others.
type Share struct {
	// Total and PerOwner are in bytes.
	Total, PerOwner int
	// Owner says whose an object is.
	Owner func(client.Object) string

	mu     sync.Mutex
	held   map[types.UID]held
	owners map[string]int
	total  int
	round  int
	cut    int
}

// held is what one object takes.
type held struct {
	owner       string
	size, round int
}

// take gives an object room, in place of what it had. There may be none.
func (s *Share) take(uid types.UID, owner string, size int) bool {
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
	h, has := s.held[uid]
	if !has {
		return
	}
	delete(s.held, uid)
	s.total -= h.size
	if s.owners[h.owner] -= h.size; s.owners[h.owner] == 0 {
		delete(s.owners, h.owner)
	}
}

// HasRoom says whether an owner has room for an object of a size.
func (s *Share) HasRoom(owner string, size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total+size <= s.Total && s.owners[owner]+size <= s.PerOwner
}

// keepOnly drops objects that are gone, and says how many objects found no room since the last time. An object that came since then may not
// be in the cache yet.
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
