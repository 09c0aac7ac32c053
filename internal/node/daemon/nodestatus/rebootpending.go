package nodestatus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// restartInterval is how often Windows is checked for a pending restart. Windows has no notification for it.
const restartInterval = 10 * time.Minute

// Windows completes its servicing after a start, and reports a pending restart until then. For servicingWithin that is ignored, and checked
// again every servicingInterval.
const (
	servicingWithin   = 15 * time.Minute
	servicingInterval = time.Minute
)

// awaited is why Windows waits for a restart.
type awaited struct {
	// known is false before the first check.
	known bool
	// boot is the ID of the Windows start that was checked; empty if unknown.
	boot    string
	reasons []string
	since   time.Time
}

// RebootPending checks whether Windows waits for a restart, and reports changes to the Node.
type RebootPending struct {
	state.Session
	wake, recheck state.Signal

	mu   sync.Mutex
	wait awaited
}

// NewRebootPending returns a RebootPending, which sends wake when there is something to report.
func NewRebootPending(s state.Session, wake state.Signal) *RebootPending {
	return &RebootPending{Session: s, wake: wake, recheck: state.NewSignal()}
}

// Recheck requests an immediate check, after a change that takes effect with a restart.
func (r *RebootPending) Recheck() { r.recheck.Send() }

// Run checks until ctx is done.
func (r *RebootPending) Run(ctx context.Context) {
	for ctx.Err() == nil {
		boot, wait := r.boot(ctx), restartInterval
		reason, known, err := r.check(ctx, boot)
		switch {
		case err != nil && ctx.Err() == nil:
			r.Log.Warn("Checking for a pending restart failed", "error", err.Error())
		case err == nil && !known:
			wait = servicingInterval
		case err == nil && r.set(boot, reason):
			r.wake.Send()
		}
		select {
		case <-ctx.Done():
		case <-r.recheck:
		case <-time.After(wait):
		}
	}
}

// check returns why Windows waits for a restart. Files that already waited for their replacement before the last restart do not count:
// programs queue them again each time. known is false while Windows has not completed its servicing after the start.
func (r *RebootPending) check(ctx context.Context, boot string) (reason []string, known bool, err error) {
	waits, err := r.Host.NextStart.Waits(ctx)
	if err != nil {
		return nil, false, err
	}
	if waits.Servicing {
		unfinished, err := r.Host.NextStart.Unfinished(ctx)
		if err != nil || len(unfinished.Servicing) > 0 && unfinished.Up < servicingWithin {
			return nil, false, err
		}
	}
	waits.Replacements, err = state.NewReplacements(r.Host.Disk, boot, waits.Replacements)
	if err != nil { // a restart may then be reported that does not help
		r.Log.Warn("Recording pending file replacements failed", "error", err.Error())
	}
	reason = waits.All()
	if r.Record.Local.Kubelet.WaitsFor(boot) {
		reason = append(reason, "changes to the CPU, memory or topology manager of the kubelet take effect (spec.kubelet of WindowsConfig)")
	}
	return reason, true, nil
}

// boot returns the boot ID of Windows; empty if it cannot be read.
func (r *RebootPending) boot(ctx context.Context) string {
	id, err := r.Host.NextStart.Boot(ctx)
	if err == nil && !nodestate.IsBootID(id) {
		err = fmt.Errorf("boot ID %.100q is invalid: up to 64 letters, digits and hyphens are allowed", id)
	}
	if err == nil {
		return id
	}
	if ctx.Err() == nil {
		r.Log.Warn("Reading the boot ID of Windows failed", "error", err.Error())
	}
	return ""
}

// set stores the result and reports whether it is new.
func (r *RebootPending) set(boot string, reason []string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wait.known && boot == r.wait.boot && slices.Equal(reason, r.wait.reasons) {
		return false
	}
	r.wait = awaited{known: true, boot: boot, reasons: reason, since: time.Now()}
	return true
}

// IsPending reports whether Windows waits for a restart; known is false before the first check.
func (r *RebootPending) IsPending() (pending, known bool) {
	w := r.get()
	return len(w.reasons) > 0, w.known
}

func (r *RebootPending) get() awaited {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wait
}

// ReportTo reports a pending restart to the Node by a condition and, when it begins, by one event. It then annotates the Node with the boot ID
// to which the report applies.
func (r *RebootPending) ReportTo(ctx context.Context, w *Writer, node *corev1.Node) error {
	wait := r.get()
	if !wait.known {
		return nil
	}
	p := Problem{}
	if len(wait.reasons) > 0 {
		p = Problem{
			Service: "windows", Reason: api.EventRebootPending, Message: api.RebootPendingPrefix + strings.Join(wait.reasons, "; "), Since: wait.since,
		}
	}
	c := Condition{api.ConditionNodeRebootRequired, api.ReasonNoRebootPending, "no restart is pending"}
	if err := w.ReportProblem(ctx, node, c, p); err != nil || wait.boot == "" || node.Annotations[api.AnnotationBootID] == wait.boot {
		return err
	}
	return w.Annotate(ctx, node, api.AnnotationBootID, wait.boot)
}
