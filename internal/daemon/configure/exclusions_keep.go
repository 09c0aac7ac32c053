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
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// exclusionsAgain is how long after a failure exclusions are added again. Each attempt is an event in the log of Defender, and may be an
// alert of those who watch it.
const exclusionsAgain = 24 * time.Hour

// Exclusions keeps those of Microsoft Defender, and tells the Node when it cannot.
type Exclusions struct {
	state.Session
	wake state.Signal
	// failure is why the last change failed, and notBefore when there may be another one. lastProblem is what the last look has shown.
	failure, lastProblem error
	notBefore            time.Time

	mu       sync.Mutex
	reported nodestatus.Problem
}

// NewExclusions makes the part, which sends wake when there is something to tell.
func NewExclusions(s state.Session, wake state.Signal) *Exclusions {
	return &Exclusions{Session: s, wake: wake}
}

// Run keeps exclusions until ctx is done.
func (e *Exclusions) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := settingsEvery
		err := e.keep(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, state.ErrBusy):
			wait = settingsSoon
		case err != nil && !errors.Is(err, errExclusions):
			e.Log.Error("Keeping exclusions of Microsoft Defender failed", "error", err.Error())
		default:
			e.judge(err)
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// keep looks, and changes exclusions where they are not as wanted. Looking takes no lock: Windows can be slow to answer.
func (e *Exclusions) keep(ctx context.Context) error {
	all := exclusions{
		work:   newWork(e.Host, func(s agent.Step) { e.Log.Info("Changed", "change", s.Name) }),
		wanted: e.Wanted.Exclusions,
	}
	all.begin("keeping exclusions of Microsoft Defender")
	err := all.check(ctx)
	if err == nil || errors.Is(err, host.ErrNoDefender) { // who scans nothing needs no exclusions
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
		e.failure, e.notBefore = err, time.Now().Add(exclusionsAgain)
	}
	return err
}

// errNotAsWanted is the class of errors for which a change of exclusions can help.
var errNotAsWanted = fmt.Errorf("%w: they are not as wanted", errExclusions)

// check says why exclusions are not as wanted. It changes nothing.
func (e exclusions) check(ctx context.Context) error {
	ours, err := e.ours()
	if err != nil {
		return err
	}
	if surplus := ours.Without(e.wanted); !surplus.IsEmpty() {
		return fmt.Errorf("%w: surplus are %s", errNotAsWanted, strings.Join(surplus.List(), ", "))
	}
	if e.wanted.IsEmpty() {
		return nil
	}
	is, err := e.Defender.Exclusions(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errExclusions, err)
	}
	if missing := e.wanted.Beyond(is); !missing.IsEmpty() {
		return fmt.Errorf("%w: missing are %s", errNotAsWanted, strings.Join(missing.List(), ", "))
	}
	return nil
}

// judge takes notice of what a look has shown. A problem is reported when the next look shows one, too: Defender and WMI may be starting.
func (e *Exclusions) judge(problem error) {
	wasProblem := e.lastProblem != nil
	e.lastProblem = problem
	e.mu.Lock()
	defer e.mu.Unlock()
	isReported := e.reported.Reason != ""
	switch {
	case problem == nil:
		e.reported = nodestatus.Problem{}
	case wasProblem && !isReported:
		e.Log.Warn("Microsoft Defender does not have the wanted exclusions", "error", problem.Error())
		e.reported = nodestatus.Problem{
			Service: "defender", Reason: api.EventDefenderExclusions, Message: shorten.Text(e.message(problem), shorten.Note), Since: time.Now(),
		}
		e.wake.Send()
	}
}

func (e *Exclusions) message(problem error) string {
	advice := "remove what is left where Defender is managed"
	if wanted := e.Wanted.Exclusions; !wanted.IsEmpty() {
		advice = fmt.Sprintf("pods run, and may start slowly; exclude %s where Defender is managed, for example in its group policy, "+
			"or set spec.runtime.defenderExclusions of WindowsConfig to None to do without", strings.Join(wanted.List(), ", "))
	}
	return fmt.Sprintf("%v; %s", problem, advice)
}

// ReportTo tells the node by an event that exclusions cannot be kept.
func (e *Exclusions) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	e.mu.Lock()
	problem := e.reported
	e.mu.Unlock()
	if problem.Reason == "" {
		return nil
	}
	return w.CreateEvents(ctx, node, []nodestatus.Problem{problem})
}
