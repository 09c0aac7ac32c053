package configure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// exclusionsInterval is the wait after a failure before exclusions are changed again. Each attempt is an event in Defender's log, and may raise an
// alert.
const exclusionsInterval = 24 * time.Hour

// Exclusions maintains the exclusions of Microsoft Defender, and reports to the Node when it cannot.
type Exclusions struct {
	state.Session
	wake state.Signal
	// failure is the error of the last change, and notBefore the earliest time of the next one. lastProblem is the result of the last check.
	failure, lastProblem error
	notBefore            time.Time
	metrics              *nodestatus.Metrics
	// missing is true when the last check found missing exclusions.
	missing bool

	mu       sync.Mutex
	reported nodestatus.Problem
	// isKnown is true after the first check. interferes is true while Defender scans files that should be excluded.
	isKnown, interferes bool
}

// NewExclusions returns an Exclusions that sends wake when there is something new to report.
func NewExclusions(s state.Session, wake state.Signal, m *nodestatus.Metrics) *Exclusions {
	return &Exclusions{Session: s, wake: wake, metrics: m}
}

// Run maintains exclusions until ctx is done.
func (e *Exclusions) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := settingsInterval
		err := e.reconcile(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, state.ErrBusy):
			wait = settingsSoon
		case err != nil && !errors.Is(err, errExclusions):
			e.Log.Error("Maintaining Microsoft Defender exclusions failed", "error", err.Error())
		default:
			e.record(err, err != nil && e.missing && e.scans(ctx))
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// reconcile checks the exclusions and repairs differences. The check takes no lock, because Windows can be slow to answer.
func (e *Exclusions) reconcile(ctx context.Context) error {
	all := exclusions{
		work:   newWork(e.Host, func(s wicdapi.Step) { e.Log.Info("Host changed", "change", s.Name) }),
		wanted: e.Wanted.Exclusions,
	}
	all.begin("maintaining exclusions of Microsoft Defender")
	err := all.check(ctx)
	e.missing = errors.Is(err, errMissing)
	if err == nil || errors.Is(err, hostapi.ErrNoDefender) { // without Defender, no exclusions are needed
		e.notBefore = time.Time{}
		return nil
	}
	if !errors.Is(err, errNotAsWanted) {
		return err
	}
	if time.Now().Before(e.notBefore) {
		return e.failure
	}
	err = e.IfIdle(func() error { return all.set(ctx) })
	if errors.Is(err, errExclusions) {
		e.failure, e.notBefore = err, time.Now().Add(exclusionsInterval)
	}
	return err
}

// errNotAsWanted is the class of errors that a change of exclusions can fix.
var errNotAsWanted = fmt.Errorf("%w: not as configured", errExclusions)

// errMissing is the subclass of errNotAsWanted for which Defender scans too much.
var errMissing = fmt.Errorf("%w: missing", errNotAsWanted)

// check returns an error if the exclusions are not as wanted. It changes nothing.
func (e exclusions) check(ctx context.Context) error {
	added, err := e.added()
	if err != nil {
		return err
	}
	if surplus := added.Without(e.wanted); !surplus.IsEmpty() {
		return fmt.Errorf("%w: unwanted: %s", errNotAsWanted, strings.Join(surplus.List(), ", "))
	}
	if e.wanted.IsEmpty() {
		return nil
	}
	current, err := e.Defender.Exclusions(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errExclusions, err)
	}
	if missing := e.wanted.Beyond(current); !missing.IsEmpty() {
		return fmt.Errorf("%w: %s", errMissing, strings.Join(missing.List(), ", "))
	}
	return nil
}

// scans reports whether Defender scans files when programs use them. It assumes so when the query fails.
func (e *Exclusions) scans(ctx context.Context) bool {
	scans, err := e.Host.Defender.Scans(ctx)
	return scans || err != nil && !errors.Is(err, hostapi.ErrNoDefender)
}

// record stores the result of a check. A problem is reported only after two checks in a row, because Defender and WMI may still be starting.
func (e *Exclusions) record(problem error, interferes bool) {
	wasProblem := e.lastProblem != nil
	e.lastProblem = problem
	e.mu.Lock()
	defer e.mu.Unlock()
	previous, interfered := e.reported, e.interferes
	switch {
	case problem == nil:
		e.isKnown, e.reported, e.interferes = true, nodestatus.Problem{}, false
	case wasProblem && (e.reported.Reason == "" || interferes && !e.interferes):
		e.Log.Warn("Microsoft Defender exclusions are not as configured", "error", problem.Error())
		e.isKnown, e.interferes = true, interferes
		e.reported = nodestatus.Problem{
			Service: "defender", Reason: api.EventDefenderExclusions, Message: truncate.Text(e.message(problem), truncate.Note), Since: time.Now(),
		}
	}
	e.metrics.SetProblem(api.ConditionDefenderInterference, e.interferes)
	if e.reported != previous || e.interferes != interfered {
		e.wake.Send()
	}
}

func (e *Exclusions) message(problem error) string {
	advice := "remove the remaining exclusions where Defender is managed"
	if wanted := e.Wanted.Exclusions; !wanted.IsEmpty() {
		advice = fmt.Sprintf("pods run, but may start slowly; exclude %s where Defender is managed, for example in its group policy, "+
			"or set spec.runtime.defenderExclusions of WindowsConfig to None", strings.Join(wanted.List(), ", "))
	}
	return fmt.Sprintf("%v; %s", problem, advice)
}

// ReportTo reports by an event that exclusions cannot be maintained, and by a condition whether Defender scans files that should be excluded.
func (e *Exclusions) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	e.mu.Lock()
	problem, isKnown, interferes := e.reported, e.isKnown, e.interferes
	e.mu.Unlock()
	condition := nodestatus.Condition{
		Type: api.ConditionDefenderInterference, OKReason: api.ReasonDefenderExclusionsInForce, OKMessage: "Microsoft Defender scans no files that should be excluded",
	}
	switch {
	case !isKnown:
		return nil
	case interferes:
		return w.ReportProblem(ctx, node, condition, problem)
	case problem.Reason != "":
		if err := w.CreateEvents(ctx, node, []nodestatus.Problem{problem}); err != nil {
			return err
		}
	}
	return w.ReportProblem(ctx, node, condition, nodestatus.Problem{})
}
