package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// hub computes the fleet's status when a page needs it and notifies pages of changes.
type hub struct {
	source  *source
	cluster string

	mu      sync.Mutex
	latest  *snapshot
	took    time.Duration // duration of the last computation
	waiting chan struct{} // closed at the next change
}

func newHub(s *source, cluster string) *hub {
	return &hub{source: s, cluster: cluster, waiting: make(chan struct{})}
}

// run forwards the changes of the source until the context ends.
func (h *hub) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.source.changed:
			h.mu.Lock()
			close(h.waiting)
			h.waiting = make(chan struct{})
			h.mu.Unlock()
		}
	}
}

// version returns the number of changes so far.
func (h *hub) version() uint64 {
	h.source.mu.Lock()
	defer h.source.mu.Unlock()
	return h.source.version
}

// pause returns how long a page waits between two updates. It grows with the fleet.
func (h *hub) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(minPause, 2*h.took)
}

// current returns the fleet's current status, and a channel that is closed when it changes. Pages share the computed status.
func (h *hub) current() (*snapshot, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	version := h.version()
	if h.latest == nil || h.latest.version != version {
		began := time.Now()
		s, err := snapshotOf(fleetstatus.Of(h.source.input()), version, func(o *overview) {
			o.Cluster, o.Loading = h.cluster, !h.source.ready()
			if since, reason := h.source.lost(); reason != "" {
				o.Lost = &lost{Since: since, Why: reason}
			}
		})
		if err != nil {
			return nil, nil, err
		}
		h.latest, h.took = s, time.Since(began)
	}
	return h.latest, h.waiting, nil
}
