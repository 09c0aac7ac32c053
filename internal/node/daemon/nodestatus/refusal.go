package nodestatus

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// refusedInterval is the minimum time between reports of a refusal, so that its author cannot cause endless events and log lines.
const refusedInterval = 10 * time.Minute

// Refusal reports as an event that an object in the cluster is ignored. It does not set a condition: the operator would act on it, although any
// user may be the cause.
type Refusal struct {
	reason string
	wake   state.Signal

	mu sync.Mutex
	// last is the last report.
	last Problem
}

// NewRefusal returns a Refusal whose events have a reason. It sends wake when there is something to report.
func NewRefusal(reason string, wake state.Signal) *Refusal {
	return &Refusal{reason: reason, wake: wake}
}

// Report reports a message, and returns false if the last report was less than refusedInterval ago.
func (r *Refusal) Report(message string) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last.Since) < refusedInterval {
		return false
	}
	r.last = Problem{Service: api.WICDService, Reason: r.reason, Message: truncate.Text(message, truncate.Note), Since: now}
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
