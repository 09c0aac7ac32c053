package instance

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// running are the joins under way, of which each can be ended. An instance has one at most.
type running struct {
	mu   sync.Mutex
	ends map[types.NamespacedName]func()
}

// add keeps how to end a join, until done is called.
func (r *running) add(id types.NamespacedName, end func()) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends == nil {
		r.ends = map[types.NamespacedName]func(){}
	}
	r.ends[id] = end
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.ends, id)
	}
}

// end ends the join of an instance, if there is one.
func (r *running) end(id types.NamespacedName) {
	r.mu.Lock()
	end := r.ends[id]
	r.mu.Unlock()
	if end != nil {
		end()
	}
}
