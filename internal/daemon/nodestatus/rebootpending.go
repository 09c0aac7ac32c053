package nodestatus

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/nodestate"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// restartEvery is how often it is looked whether Windows waits for a restart. Nobody tells.
const restartEvery = 10 * time.Minute

// awaited is what Windows waits for a restart for.
type awaited struct {
	// known is false until it was looked for the first time.
	known bool
	why   []string
	since time.Time
}

// RebootPending looks whether Windows waits for a restart, and has the node told when that changes.
type RebootPending struct {
	state.Session
	wake state.Signal

	mu   sync.Mutex
	wait awaited
}

// NewRebootPending makes the part, which sends wake when there is something to tell.
func NewRebootPending(s state.Session, wake state.Signal) *RebootPending {
	return &RebootPending{Session: s, wake: wake}
}

// Run looks until ctx is done.
func (r *RebootPending) Run(ctx context.Context) {
	for ctx.Err() == nil {
		why, err := r.Host.NextStart.Waits(ctx)
		if err != nil && ctx.Err() == nil {
			r.Log.Warn("Asking Windows for a pending restart failed", "error", err.Error())
		}
		if err == nil && r.set(why) {
			r.wake.Send()
		}
		_ = backoff.Sleep(ctx, restartEvery)
	}
}

// set tells whether that is new.
func (r *RebootPending) set(why []string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wait.known && slices.Equal(why, r.wait.why) {
		return false
	}
	r.wait = awaited{known: true, why: why, since: time.Now()}
	return true
}

// IsPending tells whether Windows waits for a restart; known is false until it was looked for the first time.
func (r *RebootPending) IsPending() (pending, known bool) {
	w := r.get()
	return len(w.why) > 0, w.known
}

func (r *RebootPending) get() awaited {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wait
}

// restartOf is what condition WindowsRebootRequired should become; is is nil when the node has none. It is set when Windows
// waits for a restart, and after that only.
func restartOf(now time.Time, w awaited, is *corev1.NodeCondition) (c corev1.NodeCondition, change bool) {
	c = corev1.NodeCondition{
		Type: api.ConditionNodeRebootRequired, Status: corev1.ConditionFalse, Reason: api.ReasonNoRebootPending,
		Message: "Windows does not wait for a restart", LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	if len(w.why) > 0 {
		c.Status, c.Reason = corev1.ConditionTrue, api.ReasonRebootPending
		c.Message = shorten.Text("Windows waits for a restart: "+strings.Join(w.why, "; "), shorten.Note)
	}
	if is != nil && is.Status == c.Status {
		c.LastTransitionTime = is.LastTransitionTime
	}
	switch {
	case !w.known:
		return c, false
	case is == nil:
		return c, c.Status == corev1.ConditionTrue
	}
	return c, is.Status != c.Status || is.Message != c.Message
}

// ReportTo reports to the node that Windows waits for a restart, by a condition and once, when it begins, by an event.
func (r *RebootPending) ReportTo(ctx context.Context, w *Writer, node *corev1.Node) error {
	wait, is := r.get(), nodestate.Condition(node, api.ConditionNodeRebootRequired)
	c, change := restartOf(time.Now(), wait, is)
	if !change {
		return nil
	}
	begins := c.Status == corev1.ConditionTrue && (is == nil || is.Status != corev1.ConditionTrue)
	if begins { // before the condition, which would say that it was told
		p := Problem{Service: "windows", Reason: api.EventRebootPending, Message: c.Message, Since: wait.since}
		if err := w.CreateEvents(ctx, node, []Problem{p}); err != nil {
			return err
		}
	}
	return w.SetCondition(ctx, node, c)
}
