package registryclient

import (
	"sync"
	"time"
)

// Recent is a bounded memory. When it is full, all of it is forgotten: it only saves requests.
type Recent[K comparable, V any] struct {
	mu    sync.Mutex
	all   map[K]kept[V]
	most  int
	lasts time.Duration
}

type kept[V any] struct {
	value V
	until time.Time
}

// NewRecent makes a memory of at most so many things, each of which counts for so long.
func NewRecent[K comparable, V any](most int, lasts time.Duration) *Recent[K, V] {
	return &Recent[K, V]{all: map[K]kept[V]{}, most: most, lasts: lasts}
}

// Get finds a value that still counts.
func (r *Recent[K, V]) Get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.all[key]
	if !ok || time.Now().After(k.until) {
		return value, false
	}
	return k.value, true
}

// Put remembers a value.
func (r *Recent[K, V]) Put(key K, value V) { r.PutFor(key, value, r.lasts) }

// PutFor remembers a value for a time of its own.
func (r *Recent[K, V]) PutFor(key K, value V, lasts time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= r.most {
		clear(r.all)
	}
	r.all[key] = kept[V]{value, time.Now().Add(lasts)}
}

// Drop forgets a value.
func (r *Recent[K, V]) Drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, key)
}
