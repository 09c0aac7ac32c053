package nodestatus

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// refusedEvery is how often, at most, it is told that something is not followed: whoever writes it must not write events and lines of
// the log without end.
const refusedEvery = 10 * time.Minute

// Refusal tells the node that something of the cluster is not followed, by an event: no condition, by which the operator would go,
// since anybody may be to blame.
type Refusal struct {
	reason string
	wake   state.Signal

	mu sync.Mutex
	// last is what was told last.
	last Problem
}

// NewRefusal makes a refusal, whose events have a reason. It sends wake when there is something to tell.
func NewRefusal(reason string, wake state.Signal) *Refusal {
	return &Refusal{reason: reason, wake: wake}
}

// Tell tells it, and returns false where something was told a short while ago.
func (r *Refusal) Tell(message string) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last.Since) < refusedEvery {
		return false
	}
	r.last = Problem{Service: api.WICDService, Reason: r.reason, Message: shorten.Text(message, shorten.Note), Since: now}
	r.wake.Send()
	return true
}

// ReportTo implements Source.
func (r *Refusal) ReportTo(ctx context.Context, w *Writer, node *corev1.Node) error {
	r.mu.Lock()
	p := r.last
	r.mu.Unlock()
	if p.Since.IsZero() {
		return nil
	}
	return w.CreateEvents(ctx, node, []Problem{p})
}
