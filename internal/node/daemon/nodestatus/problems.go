package nodestatus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
)

const (
	// problemsInterval is how often Windows is checked for problems, answerTimeout the timeout of each query.
	problemsInterval = time.Minute
	answerTimeout    = 30 * time.Second
	// The problem begins when commitHigh percent of Windows' commit limit are used, and ends below commitLow percent.
	commitHigh, commitLow = 90, 85
	// maxSkew is how far the clocks may differ: beyond that, certificates of one side soon look invalid to the other.
	maxSkew = time.Minute
)

// Problems checks for problems of Windows itself, and reports those that last to the Node.
type Problems struct {
	state.Session
	wake    state.Signal
	metrics *Metrics
	// clock compares the API server's clock with the host's; isNew is true once for each comparison.
	clock interface {
		Ahead() (ahead time.Duration, isNew bool)
	}

	mu  sync.Mutex
	all []*watched
}

// watched is one kind of problem.
type watched struct {
	Condition
	// reason is the reason of the problem.
	reason string
	// check returns a message about what is wrong; empty if nothing is. wasFailing is true while the problem is reported. isKnown is false
	// if the check is inconclusive.
	check func(ctx context.Context, wasFailing bool) (wrong string, isKnown bool)
	// appliesTo reports whether a Node is affected; nil if all are. A problem that does not affect all Nodes has no metric.
	appliesTo func(*corev1.Node) bool
	// Protected by Problems.mu.
	steady
	reported Problem
}

// NewProblems returns a Problems, which sends wake when there is something to report.
func NewProblems(s state.Session, wake state.Signal, m *Metrics, clock interface{ Ahead() (time.Duration, bool) }) *Problems {
	p := &Problems{Session: s, wake: wake, metrics: m, clock: clock}
	p.all = []*watched{
		{
			Condition: Condition{api.ConditionHostComputeUnavailable, api.ReasonHCSWorks, "the Host Compute Service answers"},
			reason:    api.EventHCSUnavailable, check: p.hostCompute,
		},
		{
			Condition: Condition{api.ConditionCommitPressure, api.ReasonCommitAvailable, "committed memory is below the limit"},
			reason:    api.EventCommitLimitNear, check: p.commit,
		},
		{
			Condition: Condition{api.ConditionClockSkewed, api.ReasonClockInSync, "the clock is in sync with that of the API server"},
			reason:    api.EventClockOutOfSync, check: p.skew,
		},
		{
			Condition: Condition{api.ConditionWindowsUpdateNeeded, api.ReasonWindowsUpToDate, "this revision of Windows has no known fault"},
			reason:    api.EventWindowsUpdateNeeded, check: p.revision,
		},
		{
			Condition: Condition{api.ConditionAddressesHidden, api.ReasonAddressesReported, "VMware Tools report the node's address to vSphere"},
			reason:    api.EventVMwareToolsHideVirtualAdapters, check: p.hiddenAdapters, appliesTo: onVSphere,
		},
	}
	return p
}

// Run checks until ctx is done.
func (p *Problems) Run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, w := range p.all {
			p.observe(ctx, w)
		}
		_ = backoff.Sleep(ctx, problemsInterval)
	}
}

func (p *Problems) observe(ctx context.Context, w *watched) {
	wrong, isKnown := w.check(ctx, w.isFailing)
	if ctx.Err() != nil || !isKnown {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	changed := w.observe(now, wrong != "")
	if w.appliesTo == nil {
		p.metrics.SetProblem(string(w.Type), w.isFailing)
	}
	if !changed {
		return
	}
	w.reported = Problem{}
	if w.isFailing {
		w.reported = Problem{Service: "windows-" + w.reason, Reason: w.reason, Message: wrong, Since: now}
		p.Log.Warn("Windows health problem", "condition", w.Type, "reason", w.reason, "message", wrong)
	}
	p.wake.Send()
}

// ReportTo reports persistent problems to the Node.
func (p *Problems) ReportTo(ctx context.Context, w *Writer, node *corev1.Node) error {
	for _, current := range p.known() {
		if current.appliesTo != nil && !current.appliesTo(node) {
			current.reported = Problem{}
		}
		if err := w.ReportProblem(ctx, node, current.Condition, current.reported); err != nil {
			return err
		}
	}
	return nil
}

func (p *Problems) known() (all []watched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.all {
		if w.isKnown {
			all = append(all, *w)
		}
	}
	return all
}

// hostCompute lists containers, which also starts the service if it starts on demand.
func (p *Problems) hostCompute(ctx context.Context, _ bool) (wrong string, isKnown bool) {
	within, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if _, err := p.Host.Containers.List(within); err != nil {
		return fmt.Sprintf("the Host Compute Service does not list containers: %v; %s; containers cannot be started or stopped", err, p.service(ctx, "vmcompute")), true
	}
	return "", true
}

func (p *Problems) commit(ctx context.Context, wasFailing bool) (wrong string, isKnown bool) {
	c, err := p.Host.Inventory.Commit(ctx)
	if err != nil || c.Limit == 0 {
		return "", false
	}
	limit := uint64(commitHigh)
	if wasFailing {
		limit = commitLow
	}
	if c.Used/100 < c.Limit/10_000*limit {
		return "", true
	}
	return fmt.Sprintf("%d MiB of memory are committed, of a limit of %d MiB: programs, including those of the node, will fail to allocate memory",
		c.Used>>20, c.Limit>>20), true
}

func (p *Problems) skew(ctx context.Context, _ bool) (wrong string, isKnown bool) {
	ahead, isNew := p.clock.Ahead()
	if !isNew || ahead.Abs() < maxSkew {
		return "", isNew
	}
	direction := "behind"
	if ahead < 0 {
		direction = "ahead of"
	}
	return fmt.Sprintf("the clock is %v %s that of the API server; %s", ahead.Abs().Round(time.Second), direction, p.service(ctx, "W32Time")), true
}

// service describes the state of a Windows service.
func (p *Problems) service(ctx context.Context, name string) string {
	within, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list, err := p.Host.Services.List(within, []string{name})
	if err != nil {
		return fmt.Sprintf("the state of service %s is unknown: %v", name, err)
	}
	for _, s := range list {
		if strings.EqualFold(s.Name, name) {
			return fmt.Sprintf("service %s is %s", name, s.State)
		}
	}
	return "service " + name + " does not exist"
}
