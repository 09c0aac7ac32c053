package storytest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/drain"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// mustBeDrained fails the story if an action affects a Ready node that is not cordoned and drained.
func (s *story) mustBeDrained(h *storyHost, matters bool, what string) {
	s.t.Helper()
	var node corev1.Node
	if !matters || s.client.Get(s.ctx, types.NamespacedName{Name: h.name}, &node) != nil || !nodestate.IsWindows(&node) {
		return
	}
	seen := rollout.NodeOf(&node)
	drained := drain.Node{Name: h.name}
	if m := s.instance(h.name).Status.Maintenance; m != nil && m.YoungestPod != nil {
		drained.Youngest, drained.Began = m.YoungestPod.Time, m.StartedAt.Time
	}
	pods := drain.Classify(s.podsOn(h.name), drained, time.Now())
	if s.rules().Spec.Rollout.Drain.OnTimeout == v1alpha1.DrainForce {
		pods.TakeStuck()
	}
	if seen.Ready && (!pods.Drained() || !seen.Unschedulable) {
		s.t.Errorf("%s %s with %d pods on it, cordoned: %v", h.name, what, len(s.podsOn(h.name)), seen.Unschedulable)
	}
}

// watchNode checks that the operator's change of a node does not exceed the budget.
func (s *story) watchNode(name string) func() {
	before := s.out()
	return func() {
		after := s.out()
		nodes := rollout.Fleet{Policy: rollout.PolicyOf(s.rules().Spec, s.version), Now: time.Now()}
		for _, n := range s.seenNodes() {
			nodes.Hosts = append(nodes.Hosts, rollout.Host{Name: n.Name, Node: &n})
		}
		budget := int(rollout.Decide(nodes).Summary.MaxUnavailable)
		switch {
		case after > before && after > budget:
			s.t.Errorf("%s is the %dth node out of service, %d are allowed\n%s", name, after, budget, strings.Join(s.lines, "\n"))
		case after > before:
			s.record("%s is cordoned", name)
		case after < before:
			s.record("%s is back in service", name)
		}
	}
}

// seenNodes returns the nodes of the story's hosts.
func (s *story) seenNodes() []rollout.Node {
	var seen []rollout.Node
	for _, n := range s.nodes() {
		if slices.ContainsFunc(s.hosts, func(h *storyHost) bool { return h.name == n.Name }) {
			seen = append(seen, *rollout.NodeOf(&n))
		}
	}
	return seen
}

// out counts the nodes that accept no pods.
func (s *story) out() int {
	n := 0
	for _, node := range s.seenNodes() {
		if !node.Ready || node.Unschedulable {
			n++
		}
	}
	return n
}

// mustHold checks the invariants after each tick.
func (s *story) mustHold() {
	s.t.Helper()
	for _, i := range s.allInstances() {
		for _, c := range i.Status.Conditions {
			if !s.reasons[c.Reason] {
				s.t.Errorf("%s: condition %s has reason %q, which is not documented", i.Name, c.Type, c.Reason)
			}
		}
		if p := i.Status.Plan; p != nil && p.WaitsFor != "" && !s.reasons[p.WaitsFor] {
			s.t.Errorf("%s waits for %q, which is not documented", i.Name, p.WaitsFor)
		}
	}
	if s.t.Failed() {
		s.t.Fatalf("the story so far:\n%s\n%s", strings.Join(s.lines, "\n"), s.summary())
	}
}

// mustBeQuiet checks that reconciling without changes writes nothing.
func (s *story) mustBeQuiet() {
	s.t.Helper()
	s.pass(time.Minute)
	before := s.writes
	_, err := s.fleet.Reconcile(s.ctx, reconcile.Request{})
	s.must(err)
	for _, i := range s.allInstances() {
		_, err := s.instances.Reconcile(s.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&i)})
		s.must(err)
	}
	if n := s.writes - before; n > 0 {
		s.t.Errorf("without a change, %d writes\n%s", n, s.summary())
	}
}

// documentedReasons returns the values of the Reason and Event constants of package api.
func documentedReasons(t *testing.T) map[string]bool {
	t.Helper()
	reasons := map[string]bool{}
	for _, name := range []string{"conditions.go", "conditions_node.go", "conditions_plan.go"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "api", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:Reason|Event)\w+\s*=\s*"(\w+)"`).FindAllStringSubmatch(string(text), -1) {
			reasons[m[1]] = true
		}
	}
	return reasons
}
