package instance

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// running holds the joins in progress, at most one of each instance, and how to end them.
type running struct {
	mu   sync.Mutex
	ends map[types.NamespacedName]func()
}

// add records how to end a join, until done is called.
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

// end ends the join of an instance, if any.
func (r *running) end(id types.NamespacedName) {
	r.mu.Lock()
	end := r.ends[id]
	r.mu.Unlock()
	if end != nil {
		end()
	}
}

// batchDelay returns how long each host waits while so many hosts join, so that several share one read or one write. It is zero below ten hosts.
func batchDelay(hosts int) time.Duration { return time.Duration(hosts/10) * time.Second }

// defaultJoins is the limit of concurrent joins if WindowsConfig sets none.
const defaultJoins = 32

// joins returns how many hosts may join at the same time.
func joins(config v1alpha1.WindowsConfigSpec) int {
	if config.Rollout.MaxConcurrentJoins > 0 {
		return int(config.Rollout.MaxConcurrentJoins)
	}
	return defaultJoins
}
