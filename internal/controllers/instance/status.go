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
	"github.com/windows-machine-config/wmco/internal/join"
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// status is the status of one instance while it is reconciled: what was written last, and what shall be.
// Nobody else writes it, so that a patch needs no resource version.
type status struct {
	client  client.Client
	events  kube.Events
	metrics *metrics
	wanted  *v1alpha1.WindowsInstance
	pause   time.Duration // between writes of progress
	silent  bool          // the host did not answer the last time: that it is tried again is no news until it does
	// deleted, where it is set, is called when a write finds out that the instance is being deleted.
	deleted func()

	mu         sync.Mutex // guards what follows: progress that had to wait is written by a timer
	written    *v1alpha1.WindowsInstance
	writtenAt  time.Time
	lastReason string                          // the reason of Ready that was written last
	waiting    *v1alpha1.WindowsInstanceStatus // progress that came too soon after the last write
	flushTimer *time.Timer                     // writes it
}

// progressEvery is how often progress is written: steps that follow each other within it are one write. Where many hosts join, each waits
// longer, or most of what the API server does would be to write how far they are.
const progressEvery = time.Second

// progressPause is the pause between writes of progress of each of so many hosts.
func progressPause(hosts int) time.Duration { return progressEvery + batchDelay(hosts) }

func (c *Controller) newStatus(i *v1alpha1.WindowsInstance) *status {
	return &status{client: c.Client, events: c.Events, metrics: c.metrics, written: i.DeepCopy(), wanted: i, lastReason: readyReason(i), pause: progressEvery}
}

// desired is the status as it shall be; write writes it.
func (s *status) desired() *v1alpha1.WindowsInstanceStatus { return &s.wanted.Status }

// setWriteInterval lets so much time pass between writes of progress, and before the first: what a host says of itself at once goes with it.
func (s *status) setWriteInterval(pause time.Duration) { s.pause, s.writtenAt = pause, time.Now() }

// write patches what differs, and tells of a new reason of Ready in an event. No difference, no write.
func (s *status) write(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.patch(ctx, s.wanted.Status.DeepCopy())
}

// patch is write, for who has the lock. What waited is in it.
func (s *status) patch(ctx context.Context, to *v1alpha1.WindowsInstanceStatus) error {
	s.drop()
	bound(to, s.events.Masked)
	if equality.Semantic.DeepEqual(&s.written.Status, to) {
		return nil
	}
	s.writtenAt = time.Now()
	want := s.written.DeepCopy() // the client writes the server's answer into what it patches
	want.Status = *to.DeepCopy()
	if err := s.client.Status().Patch(ctx, want, client.MergeFrom(s.written)); err != nil {
		return fmt.Errorf("writing the status of WindowsInstance %s: %w", s.written.Name, err)
	}
	s.written.Status = *to
	s.tellReason()
	if want.DeletionTimestamp != nil && s.deleted != nil {
		s.deleted()
	}
	return nil
}

// bound cuts what hosts, or the API of others, have a part in to what the object takes, without secrets. One text that is too long would keep every later
// status of the instance from being written.
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
		*text = shorten.Text(masked(shorten.Text(*text, 2*shorten.Reported)), shorten.Reported)
	}
}

// progress keeps how a step goes. A write that fails is made up for by the next one; one that comes too soon after another waits. Of a
// step that failed the report tells, which follows at once.
func (s *status) progress(ctx context.Context, p join.Progress) {
	s.track(p)
	if p.State == v1alpha1.StepFailed || s.silent && p.Step == join.StepConnect {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is, wait := s.wanted.Status.DeepCopy(), s.pause-time.Since(s.writtenAt)
	if wait <= 0 {
		s.patchProgress(ctx, is)
		return
	}
	s.waiting = is
	if s.flushTimer == nil {
		s.flushTimer = time.AfterFunc(wait, func() { s.catchUp(ctx) })
	}
}

// track writes into the status how a step goes.
func (s *status) track(p join.Progress) {
	if took, done := join.Track(s.desired(), p, time.Now()); done {
		s.metrics.stepSeconds.WithLabelValues(p.Step).Observe(took.Seconds())
	}
}

// catchUp writes the progress that waited, so that a step which takes long is seen while it does.
func (s *status) catchUp(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != nil {
		s.patchProgress(ctx, s.waiting)
	}
}

func (s *status) patchProgress(ctx context.Context, is *v1alpha1.WindowsInstanceStatus) {
	if err := s.patch(ctx, is); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).V(1).Info("Writing join progress failed", "error", err.Error())
	}
}

// settle forgets the progress that waits: whoever goes on writes the whole status.
func (s *status) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

func (s *status) drop() {
	s.waiting = nil
	if s.flushTimer != nil {
		s.flushTimer.Stop()
		s.flushTimer = nil
	}
}

// tellReason makes an event of a new reason of Ready: it is the reason of whatever stands in the way. What every host goes through until
// it is Ready is in its conditions only.
func (s *status) tellReason() {
	ready := meta.FindStatusCondition(s.written.Status.Conditions, api.ConditionReady)
	if ready == nil || ready.Reason == s.lastReason {
		return
	}
	was := s.lastReason
	s.lastReason = ready.Reason
	if passing(ready.Reason) && was != api.ReasonReady {
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

// passing says whether a reason is one of those that follow each other while a host becomes a node, where nothing is wrong.
func passing(reason string) bool {
	switch reason {
	case api.ReasonWaitingForSlot, api.ReasonNodeMissing, api.ReasonNodeNotReady, api.ReasonVersionPending, api.ReasonWaitingForCloud:
		return true
	}
	return false
}

func readyReason(i *v1alpha1.WindowsInstance) string {
	if c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}
