package instance

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// statusWriter holds the status of one instance during a reconcile: as last written, and as it should be. Nothing else writes it, so a patch needs no
// resource version.
type statusWriter struct {
	client  client.Client
	events  kube.Events
	metrics *metrics
	wanted  *v1alpha1.WindowsInstance
	pause   time.Duration // between progress writes
	silent  bool          // the host did not answer last time: a new attempt is not reported until it does
	// deleted, if set, is called when a write reveals that the instance is being deleted.
	deleted func()

	mu         sync.Mutex // guards the fields below: a timer writes delayed progress
	written    *v1alpha1.WindowsInstance
	writtenAt  time.Time
	lastReason string                          // reason of condition Ready in the last write
	pending    *v1alpha1.WindowsInstanceStatus // progress that came too soon after the last write
	flushTimer *time.Timer                     // writes pending
}

// progressInterval is the minimum interval of progress writes: steps within it share one write. The interval grows with the number of joining hosts, or
// progress would be most of the API server's load.
const progressInterval = time.Second

// progressPause returns the interval of each host's progress writes while this many hosts join.
func progressPause(hosts int) time.Duration { return progressInterval + batchDelay(hosts) }

func (c *Controller) newStatus(i *v1alpha1.WindowsInstance) *statusWriter {
	return &statusWriter{client: c.Client, events: c.Events, metrics: c.metrics, written: i.DeepCopy(), wanted: i, lastReason: kube.Condition(i, api.ConditionReady).Reason, pause: progressInterval}
}

// want returns the status as it should be; write persists it.
func (s *statusWriter) want() *v1alpha1.WindowsInstanceStatus { return &s.wanted.Status }

// setWriteInterval sets the minimum time between progress writes. The first write waits too, so that it includes the host's facts.
func (s *statusWriter) setWriteInterval(pause time.Duration) {
	s.pause, s.writtenAt = pause, time.Now()
}

// write patches the status if it differs and records an event for a new reason of Ready.
func (s *statusWriter) write(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.patch(ctx, s.wanted.Status.DeepCopy())
}

// patch is write for callers that hold the lock. It includes delayed progress.
func (s *statusWriter) patch(ctx context.Context, to *v1alpha1.WindowsInstanceStatus) error {
	s.cancelPending()
	bound(to, s.events.Masked)
	if equality.Semantic.DeepEqual(&s.written.Status, to) {
		return nil
	}
	s.writtenAt = time.Now()
	want := s.written.DeepCopy() // the client decodes the server's response into this object
	want.Status = *to.DeepCopy()
	if err := s.client.Status().Patch(ctx, want, client.MergeFrom(s.written)); err != nil {
		return fmt.Errorf("writing the status of WindowsInstance %s: %w", s.written.Name, err)
	}
	s.written.Status = *to
	s.recordReason()
	if want.DeletionTimestamp != nil && s.deleted != nil {
		s.deleted()
	}
	return nil
}

// bound masks secrets in texts that hosts or foreign APIs influence, and shortens them to what the object accepts. One overlong text would block
// every later status write of the instance.
func bound(st *v1alpha1.WindowsInstanceStatus, masked func(string) string) {
	texts := []*string{&st.Hostname, &st.NodeIP, &st.OSBuild, &st.BootID}
	if st.Plan != nil {
		texts = append(texts, &st.Plan.Message)
	}
	if st.Maintenance != nil {
		texts = append(texts, &st.Maintenance.Message, &st.Maintenance.PreviousVersion, &st.Maintenance.BootID)
	}
	if st.Failure != nil {
		texts = append(texts, &st.Failure.Message)
	}
	for i := range st.Steps {
		texts = append(texts, &st.Steps[i].Message)
	}
	for i := range st.Conditions {
		texts = append(texts, &st.Conditions[i].Message)
	}
	for _, text := range texts {
		*text = truncate.Text(masked(truncate.Text(*text, 2*truncate.Reported)), truncate.Reported)
	}
}

// progress records the progress of a step. A write that follows another too soon is delayed; a failed write is covered by the next one. The progress
// of a failed step is not written, because the report follows immediately.
func (s *statusWriter) progress(ctx context.Context, p join.Progress) {
	s.track(p)
	if p.State == v1alpha1.StepFailed || s.silent && p.Step == join.StepConnect {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	current, wait := s.wanted.Status.DeepCopy(), s.pause-time.Since(s.writtenAt)
	if wait <= 0 {
		s.patchProgress(ctx, current)
		return
	}
	s.pending = current
	if s.flushTimer == nil {
		s.flushTimer = time.AfterFunc(wait, func() { s.flush(ctx) })
	}
}

func (s *statusWriter) track(p join.Progress) {
	if took, done := join.Track(s.want(), p, time.Now()); done {
		s.metrics.stepSeconds.WithLabelValues(p.Step).Observe(took.Seconds())
	}
}

// flush writes delayed progress, so that a long step is visible while it runs.
func (s *statusWriter) flush(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		s.patchProgress(ctx, s.pending)
	}
}

func (s *statusWriter) patchProgress(ctx context.Context, current *v1alpha1.WindowsInstanceStatus) {
	if err := s.patch(ctx, current); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).V(1).Info("Writing join progress failed", "error", err.Error())
	}
}

// settle discards delayed progress; the caller writes the whole status later.
func (s *statusWriter) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelPending()
}

func (s *statusWriter) cancelPending() {
	s.pending = nil
	if s.flushTimer != nil {
		s.flushTimer.Stop()
		s.flushTimer = nil
	}
}

// recordReason records an event for a new reason of condition Ready, which is the cause that blocks the host. Transient reasons of a join appear only
// in the conditions.
func (s *statusWriter) recordReason() {
	ready := meta.FindStatusCondition(s.written.Status.Conditions, api.ConditionReady)
	if ready == nil || ready.Reason == s.lastReason {
		return
	}
	previous := s.lastReason
	s.lastReason = ready.Reason
	if isTransient(ready.Reason) && previous != api.ReasonReady {
		return
	}
	kind := corev1.EventTypeWarning
	switch ready.Reason {
	case api.ReasonReady, api.ReasonJoining, api.ReasonRebooting, api.ReasonWaitingForSlot,
		api.ReasonPaused, api.ReasonNodeMissing, api.ReasonVersionPending, api.ReasonNodeNotReady,
		api.ReasonDraining, api.ReasonAdoptionPending, api.ReasonWaitingForCloud:
		kind = corev1.EventTypeNormal
	}
	s.events.Emit(kube.Event{Object: s.written, Type: kind, Reason: ready.Reason, Action: "Join"}, "%s", ready.Message)
}

// isTransient reports whether every host has a reason for some time while it joins, although nothing is wrong.
func isTransient(reason string) bool {
	switch reason {
	case api.ReasonWaitingForSlot, api.ReasonNodeMissing, api.ReasonNodeNotReady, api.ReasonVersionPending, api.ReasonWaitingForCloud:
		return true
	}
	return false
}
