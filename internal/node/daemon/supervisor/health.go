package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// health is the state of the services, for reports.
type health struct {
	// running is true when all services run.
	running bool
	// problems are in start order.
	problems []nodestatus.Problem
	// stable is when all services count as stable, unless one crashes before then.
	stable time.Time
	// services are the states in start order, nil before the first check; since is when they last changed.
	services []nodestate.Service
	since    time.Time
}

// settleFor is how long states must last before they are written to the Node, so that a service restart costs the cluster no write.
const settleFor = 3 * time.Second

// settled returns when the states have lasted long enough.
func (h health) settled() time.Time { return h.since.Add(settleFor) }

// maxCause limits the text of a message before the log lines, in bytes.
const maxCause = 400

// evaluate decides which problem of a service is reported to the Node. o is what blocks its start, if anything. The problem stays the same
// while it lasts, because each change would be a write in the cluster.
func (h *restartHistory) evaluate(now time.Time, d hostapi.Disk, s desired.Service, o startBlocker) {
	switch {
	case !o.notReady:
		h.blocked = time.Time{}
	case h.blocked.IsZero():
		h.blocked = now
	}
	reason, failing, cause := "", s, ""
	switch {
	case h.isLooping:
		reason = api.ReasonServiceCrashLoop
		cause = fmt.Sprintf("service %s failed %d times within %v, most recently: %s", s.Name, len(h.crashes), loopWithin, h.last)
	case o.notReady && now.Sub(h.blocked) >= readyTimeout:
		reason, failing = api.ReasonServiceNotReady, o.dependency
		cause = fmt.Sprintf("service %s is running but not ready, and service %s is waiting for it: %v", failing.Name, s.Name, o.err)
	}
	switch {
	case reason == "":
		h.problem = nil
	case h.problem == nil || h.problem.Reason != reason:
		h.problem = &nodestatus.Problem{Service: failing.Name, Reason: reason, Message: message(d, cause, failing.Log.Path), Since: now}
	}
}

// message returns a cause with the last lines of a log.
func message(d hostapi.Disk, cause, log string) string {
	cause = truncate.Text(cause, maxCause) + "; the log " + log + " ends with:\n"
	return cause + logrotate.Tail(d, log, int64(truncate.Note-len(cause)))
}

// conditionOf returns the condition of the Node for a session that began at began; current is nil when the Node has none yet. isKnown is false when the
// condition must stay as it is.
func conditionOf(now, began time.Time, h health, current *corev1.NodeCondition) (c corev1.NodeCondition, isKnown bool) {
	c = corev1.NodeCondition{
		Type: api.ConditionServicesHealthy, Status: corev1.ConditionTrue, Reason: api.ReasonServicesRunning, Message: "all services are running",
	}
	if len(h.problems) == 0 {
		isEarly := current != nil && current.Status != corev1.ConditionTrue && now.Before(nodestate.Later(h.stable, began.Add(loopWithin)))
		return c, h.running && !isEarly
	}
	var messages []string
	for _, p := range h.problems {
		messages = append(messages, p.Message)
	}
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, h.problems[0].Reason, strings.Join(messages, "\n\n")
	return c, true
}

// stateOf returns the state of a service after a pass. h has the problems of all services.
func (h health) stateOf(name string, p *pass) nodestate.Service {
	s := nodestate.Service{Name: name, State: api.ServiceStopped}
	if o, isStuck := p.stuck[name]; isStuck {
		s.State, s.WaitsFor = api.ServiceWaiting, cmp.Or(o.file, o.dependency.Name)
	}
	if p.found[name].State == hostapi.Running {
		s.State = api.ServiceRunning
	}
	for _, problem := range h.problems {
		switch {
		case problem.Service != name:
		case problem.Reason == api.ReasonServiceCrashLoop:
			s.State, s.WaitsFor = api.ServiceCrashLoop, ""
		case problem.Reason == api.ReasonServiceNotReady:
			s.State, s.WaitsFor = api.ServiceNotReady, ""
		}
	}
	return s
}

// ReportTo reports the state of the services to the Node: the overall health by a condition, each new problem by an event, and each service's state
// by an annotation.
func (s *Supervisor) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	s.mu.Lock()
	h := s.health
	s.mu.Unlock()
	if c, isKnown := conditionOf(time.Now(), s.began, h, nodestate.Condition(node, api.ConditionServicesHealthy)); isKnown {
		if err := w.SetCondition(ctx, node, c); err != nil {
			return err
		}
	}
	if err := w.CreateEvents(ctx, node, h.problems); err != nil {
		return err
	}
	states := nodestate.FormatServices(h.services)
	if h.services == nil || time.Now().Before(h.settled()) || node.Annotations[api.AnnotationServices] == states {
		return nil
	}
	return w.Annotate(ctx, node, api.AnnotationServices, states)
}
