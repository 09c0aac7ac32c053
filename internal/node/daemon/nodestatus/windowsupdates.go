package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

const (
	// updatesInterval is the pause between queries of the Windows Update Agent, each extended at random by up to half. Answering takes the agent seconds
	// to minutes of CPU time, and the answer changes about once a day.
	updatesInterval = 8 * time.Hour
	// updatesRetry is the pause after a failure, with a random extra of up to half.
	updatesRetry = time.Hour
	// updatesFirst is the longest time that a session waits before its first query, so that hosts that start together do not all query together.
	updatesFirst = 10 * time.Minute
	// updatesTimeout is how long the agent may take. It waits while Windows is installing updates.
	updatesTimeout = 10 * time.Minute
	// forgetInterval is the pause between attempts to remove the last report.
	forgetInterval = time.Minute
)

// WindowsUpdates queries the host's Windows Update Agent for pending and installed updates, and reports them on the Node and in a file. If
// WindowsConfig selects updates to install, it has the agent search for and download them, and installs those that the operator orders; otherwise, the
// agent contacts no server. It restarts nothing.
type WindowsUpdates struct {
	state.Session
	wake    state.Signal
	metrics *Metrics

	// retryAt is when an order that could not be carried out is tried again; queriedAt is when this process last began to query the agent. Only Run
	// uses them.
	retryAt, queriedAt time.Time
	// changed signals that requested changed.
	changed state.Signal

	mu   sync.Mutex
	last updates
	// request is annotation search-updates of the Node, and requested its time; zero if it is absent or invalid.
	request   string
	requested time.Time
	// isCordoned is true if the Node was unschedulable when it was last seen.
	isCordoned bool
}

// updates is what was last learned. It is not known before the first answer or failure.
type updates struct {
	isKnown bool
	report  windowsupdate.Report
	failure error
	// isConclusive is true once a report said whether updates are overdue. reason and message are then those of condition WindowsUpdatesOverdue, since a
	// time; reason is empty if it is not True.
	isConclusive    bool
	reason, message string
	since           time.Time
	// installation is the state of the last order; nil if there is none.
	installation *windowsupdate.Installation
}

// NewWindowsUpdates returns a WindowsUpdates, which sends wake when there is something to report.
func NewWindowsUpdates(s state.Session, wake state.Signal, m *Metrics) *WindowsUpdates {
	return &WindowsUpdates{Session: s, wake: wake, metrics: m, changed: state.NewSignal()}
}

// Run queries the agent until ctx is done. The file keeps the last report across sessions, so that a new session does not query it earlier.
func (u *WindowsUpdates) Run(ctx context.Context) {
	for u.Wanted.UpdatesToInstall == nil && !u.cancelOrder() {
		if backoff.Sleep(ctx, forgetInterval) != nil {
			return
		}
	}
	if !u.isManaged() {
		for !u.forget() && backoff.Sleep(ctx, forgetInterval) == nil {
		}
		return
	}
	wait := rand.N(updatesFirst)
	if previous, err := u.read(); err == nil {
		u.set(previous, nil)
		if due := time.Until(previous.Read.Add(updatesInterval)); due <= updatesInterval { // the clock may have been set back
			wait += max(due, 0)
		}
	}
	regular := time.Now().Add(wait)
	for u.sleep(ctx, u.due(regular)) {
		if u.Wanted.UpdatesToInstall != nil {
			u.followOrder(ctx)
		}
		if !time.Now().Before(u.due(regular)) {
			regular = time.Now().Add(u.queryAgain(ctx))
		}
	}
}

// due returns when the next query is due: at the regular time, or earlier if a user requests it and Windows has not been queried since.
func (u *WindowsUpdates) due(regular time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.requested.After(u.queriedAt) && u.requested.After(u.last.report.Read) && u.requested.Before(regular) {
		return u.requested
	}
	return regular
}

// sleep sleeps until the next query is due, a query is requested, or orders are checked. It returns false once ctx is done.
func (u *WindowsUpdates) sleep(ctx context.Context, due time.Time) bool {
	pause := time.Until(due)
	if u.Wanted.UpdatesToInstall != nil {
		pause = min(pause, ordersInterval)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-u.changed:
	}
	return ctx.Err() == nil
}

// follow reads from the Node what users and the operator want.
func (u *WindowsUpdates) follow(node *corev1.Node) {
	request := node.Annotations[api.AnnotationSearchUpdates]
	u.mu.Lock()
	defer u.mu.Unlock()
	u.isCordoned = node.Spec.Unschedulable
	if request == u.request {
		return
	}
	at, err := time.Parse(time.RFC3339, request)
	if err != nil && request != "" {
		u.Log.Warn("The Node has an invalid request to search for updates; want a time in RFC 3339", "annotation", api.AnnotationSearchUpdates)
	}
	u.request, u.requested = request, at
	u.changed.Send()
}

// queryAgain queries the agent, reports the answer, and returns how long to wait until the next query.
func (u *WindowsUpdates) queryAgain(ctx context.Context) time.Duration {
	u.queriedAt = time.Now()
	report, err := u.query(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		u.Log.Warn("Querying the Windows Update Agent failed", "error", err.Error())
		u.set(u.get().report, err)
		return spread(updatesRetry)
	default:
		u.keep(ctx, report)
	}
	return spread(updatesInterval)
}

// keep adds the version of Windows to the agent's report, stores it, and reports it.
func (u *WindowsUpdates) keep(ctx context.Context, report windowsupdate.Report) {
	var err error
	if report.Build, report.Revision, err = u.Host.Inventory.Version(ctx); err != nil {
		u.Log.Warn("Reading the version of Windows failed", "error", err.Error())
	}
	u.store(report)
	u.set(report, nil)
}

// isManaged reports whether WindowsConfig lets WICD query the agent.
func (u *WindowsUpdates) isManaged() bool { return u.Wanted.WindowsUpdates != desired.UpdatesUnmanaged }

func spread(d time.Duration) time.Duration { return d + rand.N(d/2) }

// query returns what the agent knows. If updates are to be installed, the agent searches for and downloads them first.
func (u *WindowsUpdates) query(ctx context.Context) (windowsupdate.Report, error) {
	if selection := u.Wanted.UpdatesToInstall; selection != nil {
		return u.fetch(ctx, *selection)
	}
	ctx, cancel := context.WithTimeout(ctx, updatesTimeout)
	defer cancel()
	return u.Host.UpdateAgent.Updates(ctx)
}

// read returns the report in the file.
func (u *WindowsUpdates) read() (windowsupdate.Report, error) {
	b, err := u.Host.Disk.ReadAtMost(desired.WindowsUpdatesFile, windowsupdate.MaxBytes)
	if err != nil {
		return windowsupdate.Report{}, err
	}
	return windowsupdate.Parse(b)
}

// store writes the file, which the kubelet serves to users. A host that is leaving keeps none.
func (u *WindowsUpdates) store(r windowsupdate.Report) {
	err := u.IfIdle(func() error {
		b, err := json.MarshalIndent(r, "", " ")
		if err == nil {
			_, err = u.Host.Disk.WriteFile(desired.WindowsUpdatesFile, string(b))
		}
		return err
	})
	if err != nil {
		u.Log.Warn("Writing the report about Windows updates failed", "file", desired.WindowsUpdatesFile, "error", err.Error())
	}
}

// forget removes what an earlier session wrote, and reports whether that is done.
func (u *WindowsUpdates) forget() bool {
	if !u.Host.Disk.Exists(desired.WindowsUpdatesFile) {
		return true
	}
	err := u.IfIdle(func() error { return u.Host.Disk.Remove(desired.WindowsUpdatesFile) })
	if err != nil && !errors.Is(err, state.ErrBusy) {
		u.Log.Warn("Removing the report about Windows updates failed", "file", desired.WindowsUpdatesFile, "error", err.Error())
	}
	return err == nil
}

// set stores the result. A failure keeps the last report, which ages; data that could not be read does not clear a problem.
func (u *WindowsUpdates) set(r windowsupdate.Report, failure error) {
	now := time.Now()
	goal := u.Wanted.UpdateGoal
	reason, message := r.Overdue(now, goal)
	u.mu.Lock()
	next := u.last
	next.isKnown, next.report, next.failure = true, r, failure
	if reason != "" || r.IsConclusive(goal) {
		if !next.isConclusive || next.reason != reason {
			next.since = now
		}
		next.isConclusive, next.reason, next.message = true, reason, message
	}
	u.last = next
	u.mu.Unlock()
	u.metrics.setUpdates(next)
	u.wake.Send()
}

func (u *WindowsUpdates) get() updates {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}

// ReportTo reports a summary as an annotation, and overdue updates as a condition and, when it becomes True, as one event. Unmanaged hosts have
// neither.
func (u *WindowsUpdates) ReportTo(ctx context.Context, w *Writer, node *corev1.Node) error {
	u.follow(node)
	condition := Condition{api.ConditionUpdatesOverdue, api.ReasonUpdatesNotOverdue, "Windows has searched for updates and installed some recently"}
	current, summary, p := u.get(), "", Problem{}
	switch {
	case !u.isManaged():
		condition.OKReason, condition.OKMessage = api.ReasonUpdatesUnmanaged, "spec.windowsUpdates.policy of WindowsConfig is Unmanaged"
	case !current.isKnown:
		return nil
	default:
		summary = u.summarize(current).Format()
		if current.reason != "" {
			p = Problem{Service: "windows-updates", Reason: current.reason, Message: current.message, Since: current.since}
		}
	}
	if !u.isManaged() || current.isConclusive { // otherwise, nothing is known about a problem that an earlier process reported
		if err := w.ReportProblem(ctx, node, condition, p); err != nil {
			return err
		}
	}
	if node.Annotations[api.AnnotationWindowsUpdates] == summary {
		return nil
	}
	return w.Annotate(ctx, node, api.AnnotationWindowsUpdates, summary)
}
