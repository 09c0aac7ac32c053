package podpolicy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// reportAfter is how long rules must differ from the policies before the Node reports it.
	reportAfter = 30 * time.Second
	// named is how many pods or namespaces a message names.
	named = 3
)

// report is what the Node and the metrics report. It is safe for concurrent use.
type report struct {
	wake    state.Signal
	metrics *nodestatus.Metrics
	log     *slog.Logger

	mu sync.Mutex
	// known is true once all endpoints were compared.
	known   bool
	problem nodestatus.Problem
	// since is when rules first differed from the policies; zero if they do not.
	since  time.Time
	counts nodestatus.PolicyCounts
}

// findings are the results of one pass.
type findings struct {
	// problems are why rules are not those of the policies, tooLarge the policies that do not fit.
	problems, tooLarge []string
	endpoints, acls    int
}

// findings returns what to report about a plan.
func (p plan) findings() (f findings) {
	for _, d := range p.decisions {
		if d.required > 0 {
			f.endpoints++
			f.acls += d.required
		}
		if d.problem != "" {
			f.problems = append(f.problems, d.problem)
		}
		if d.tooLarge != "" {
			f.tooLarge = append(f.tooLarge, d.tooLarge)
		}
	}
	return f
}

// measure counts the time until the sets that a pass has begun with were in force.
func (r *Reconciler) measure(began map[string]namespaceSet, s situation, p plan) {
	if !r.enforces() {
		return
	}
	differs := map[string]bool{}
	for _, d := range p.decisions {
		differs[d.pod.Namespace] = differs[d.pod.Namespace] || s.memory[d.endpoint.ID].failure != nil
	}
	for namespace, set := range began {
		if set.arrived.IsZero() || differs[namespace] {
			continue
		}
		if took, ok := r.sets.isInForce(namespace, set.arrived); ok {
			r.report.countEffect(took)
		}
	}
}

// update records the findings of a pass. isComplete is false if endpoints could not be compared.
func (r *report) update(f findings, isComplete bool) {
	slices.Sort(f.problems)
	slices.Sort(f.tooLarge)
	f.problems, f.tooLarge = slices.Compact(f.problems), slices.Compact(f.tooLarge)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(f.problems) == 0 {
		r.since = time.Time{}
	} else if r.since.IsZero() {
		r.since = now
	}
	next := nodestatus.Problem{Service: "networkpolicies"}
	switch {
	case len(f.problems) > 0 && now.Sub(r.since) >= reportAfter:
		next.Reason, next.Message = api.ReasonNetworkPoliciesNotApplied, truncate.List(f.problems, named, "; ")
	case len(f.tooLarge) > 0:
		next.Reason, next.Message = api.ReasonNetworkPolicyTooLarge, truncate.List(f.tooLarge, named, "; ")
	case !isComplete:
		return
	}
	if isComplete {
		r.counts.IsKnown, r.counts.Endpoints, r.counts.ACLs = true, int64(f.endpoints), int64(f.acls)
	}
	next.Message = truncate.Text(next.Message, truncate.Note)
	isNew := !r.known || r.problem.Reason != next.Reason || r.problem.Message != next.Message
	r.known = true
	if !isNew {
		return
	}
	if next.Since = now; next.Reason != "" {
		r.log.Warn("NetworkPolicies are not in force as written", "reason", next.Reason, "message", next.Message)
	}
	r.problem = next
	r.metrics.SetProblem(api.ConditionNetworkPoliciesNotApplied, next.Reason != "")
	r.wake.Send()
}

func (r *report) countFailure() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.Failures++
}

func (r *report) countEffect(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.Effect.Observe(took)
}

// PolicyCounts returns what the metrics report of the rules.
func (r *Reconciler) PolicyCounts() nodestatus.PolicyCounts {
	r.report.mu.Lock()
	defer r.report.mu.Unlock()
	return r.report.counts
}

// ReportTo reports by a condition of the Node whether NetworkPolicies are in force. It clears the report once none are enforced.
func (r *Reconciler) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	r.report.mu.Lock()
	known, problem := r.report.known || r.policies.Mode == "", r.report.problem
	r.report.mu.Unlock()
	if !known {
		return nil
	}
	message := "NetworkPolicies are not enforced"
	switch r.policies.Mode {
	case desired.PolicyEnforce:
		message = "the NetworkPolicies of all pods are in force"
	case desired.PolicyReport:
		message = "NetworkPolicies are not enforced; they could all be"
	}
	return w.ReportProblem(ctx, node, nodestatus.Condition{
		Type: api.ConditionNetworkPoliciesNotApplied, OKReason: api.ReasonNetworkPoliciesApplied, OKMessage: message,
	}, problem)
}
