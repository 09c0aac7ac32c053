package nodestatus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
)

const (
	// problemsEvery is how often it is looked for problems of Windows, answerWithin how long Windows may take to answer.
	problemsEvery = time.Minute
	answerWithin  = 30 * time.Second
	// Of the memory that Windows can commit, so many percent are too much, and so many still are while it is told.
	commitNear, commitStillNear = 90, 85
	// maxSkew is how much clocks may differ: certificates of one look invalid to the other soon after.
	maxSkew = time.Minute
)

// Problems looks for problems of Windows itself, and has the node told of those that last.
type Problems struct {
	state.Session
	wake    state.Signal
	metrics *Metrics
	// clock compares the clock of the API server with ours: by how much it is ahead, once for each comparison.
	clock interface {
		Ahead() (ahead time.Duration, isNew bool)
	}

	mu  sync.Mutex
	all []*watched
}

// watched is one kind of problem.
type watched struct {
	Condition
	// reason is that of the problem.
	reason string
	// look says what is wrong, for people; nothing when nothing is. wasBad is true while the problem is told. isKnown is false when a
	// look shows neither.
	look func(ctx context.Context, wasBad bool) (wrong string, isKnown bool)
	// concerns tells whether a Node suffers from it; nil: each does. What does not concern all is no metric.
	concerns func(*corev1.Node) bool
	// The rest is protected by Problems.mu.
	steady
	told Problem
}

// NewProblems makes the part, which sends wake when there is something to tell.
func NewProblems(s state.Session, wake state.Signal, m *Metrics, clock interface{ Ahead() (time.Duration, bool) }) *Problems {
	p := &Problems{Session: s, wake: wake, metrics: m, clock: clock}
	p.all = []*watched{
		{
			Condition: Condition{api.ConditionHostComputeUnavailable, api.ReasonHCSWorks, "the Host Compute Service answers"},
			reason:    api.EventHCSUnavailable, look: p.hostCompute,
		},
		{
			Condition: Condition{api.ConditionCommitPressure, api.ReasonCommitAvailable, "Windows can commit more memory"},
			reason:    api.EventCommitLimitNear, look: p.commit,
		},
		{
			Condition: Condition{api.ConditionClockSkewed, api.ReasonClockInSync, "the clock agrees with that of the API server"},
			reason:    api.EventClockOutOfSync, look: p.skew,
		},
		{
			Condition: Condition{api.ConditionWindowsUpdateNeeded, api.ReasonWindowsUpToDate, "this revision of Windows has no fault that is known"},
			reason:    api.EventWindowsUpdateNeeded, look: p.revision,
		},
		{
			Condition: Condition{api.ConditionAddressesHidden, api.ReasonAddressesReported, "VMware Tools tell vSphere of the address of the node"},
			reason:    api.EventVMwareToolsHideVirtualAdapters, look: p.hiddenAdapters, concerns: onVSphere,
		},
	}
	return p
}

// Run looks until ctx is done.
func (p *Problems) Run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, w := range p.all {
			p.see(ctx, w)
		}
		_ = backoff.Sleep(ctx, problemsEvery)
	}
}

func (p *Problems) see(ctx context.Context, w *watched) {
	wrong, isKnown := w.look(ctx, w.isBad)
	if ctx.Err() != nil || !isKnown {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	changed := w.see(now, wrong != "")
	if w.concerns == nil {
		p.metrics.SetProblem(string(w.Type), w.isBad)
	}
	if !changed {
		return
	}
	w.told = Problem{}
	if w.isBad {
		w.told = Problem{Service: "windows-" + w.reason, Reason: w.reason, Message: wrong, Since: now}
		p.Log.Warn("Windows has a problem", "condition", w.Type, "reason", w.reason, "message", wrong)
	}
	p.wake.Send()
}

// ReportTo reports to the node what lasts.
func (p *Problems) ReportTo(ctx context.Context, w *Writer, node *corev1.Node) error {
	for _, is := range p.known() {
		if is.concerns != nil && !is.concerns(node) {
			is.told = Problem{}
		}
		if err := w.ReportProblem(ctx, node, is.Condition, is.told); err != nil {
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

// hostCompute asks for containers, which starts the service where it waits to be asked.
func (p *Problems) hostCompute(ctx context.Context, _ bool) (wrong string, isKnown bool) {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := p.Host.Containers.List(within); err != nil {
		return fmt.Sprintf("the Host Compute Service does not list containers: %v; %s; containers cannot be started or stopped", err, p.service(ctx, "vmcompute")), true
	}
	return "", true
}

func (p *Problems) commit(ctx context.Context, wasBad bool) (wrong string, isKnown bool) {
	c, err := p.Host.Memory.Commit(ctx)
	if err != nil || c.Limit == 0 {
		return "", false
	}
	limit := uint64(commitNear)
	if wasBad {
		limit = commitStillNear
	}
	if c.Used/100 < c.Limit/10_000*limit {
		return "", true
	}
	return fmt.Sprintf("%d MiB of memory are committed, and Windows can commit %d MiB: programs, also those of the node, will fail to get memory",
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

// service says how a service of Windows is.
func (p *Problems) service(ctx context.Context, name string) string {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	list, err := p.Host.Services.List(within, []string{name})
	if err != nil {
		return fmt.Sprintf("the state of service %s is not known: %v", name, err)
	}
	for _, s := range list {
		if strings.EqualFold(s.Name, name) {
			return fmt.Sprintf("service %s is %s", name, s.State)
		}
	}
	return "there is no service " + name
}
