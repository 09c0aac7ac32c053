package registryclient

import (
	"sync"
	"time"
)

// Recent is a bounded cache. When it is full, it is cleared: it only saves requests.
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

// NewRecent returns a cache for at most so many values, each of which is valid for the given duration.
func NewRecent[K comparable, V any](most int, lasts time.Duration) *Recent[K, V] {
	return &Recent[K, V]{all: map[K]kept[V]{}, most: most, lasts: lasts}
}

// Get returns a value that is still valid.
func (r *Recent[K, V]) Get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.all[key]
	if !ok || time.Now().After(k.until) {
		return value, false
	}
	return k.value, true
}

// Put stores a value.
func (r *Recent[K, V]) Put(key K, value V) { r.PutFor(key, value, r.lasts) }

// PutFor stores a value with its own lifetime.
func (r *Recent[K, V]) PutFor(key K, value V, lasts time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= r.most {
		clear(r.all)
	}
	r.all[key] = kept[V]{value, time.Now().Add(lasts)}
}

// Drop removes a value.
func (r *Recent[K, V]) Drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, key)
}
