package fleetstatus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
)

// problems returns the problems of a host, except those of its pods: what its instance reports, what WICD and the kubelet report on the Node,
// and what only events report.
func (r *reader) problems(i *v1alpha1.WindowsInstance, node *corev1.Node, h Host) []Problem {
	var found []Problem
	add := func(p Problem) {
		known := slices.ContainsFunc(found, func(o Problem) bool { return o.Reason == p.Reason && o.Object == p.Object })
		if !known && p.Severity != advice.OK {
			p.Hosts, p.Remedy = []string{h.Name}, withHost(p.Remedy, h.Name)
			found = append(found, p)
		}
	}
	instance := "WindowsInstance " + h.Name
	for _, c := range instanceConditions(i) {
		add(r.problem(c.Reason, instance, c.Message, c.LastTransitionTime.Time))
	}
	if p, ok := r.failed(i, instance); ok {
		add(p)
	}
	if node != nil {
		for _, c := range node.Status.Conditions {
			if isBadOnNode(c) {
				add(r.problem(nodeReason(c), "Node "+h.Node, c.Message, c.LastTransitionTime.Time))
			}
		}
	}
	for _, e := range h.Events {
		if e.Type == corev1.EventTypeWarning && onlyInEvents(e.Reason) && r.Now.Sub(e.Last) < eventLifetime {
			add(r.problem(e.Reason, e.Object, e.Message, e.Last))
		}
	}
	return found
}

// eventLifetime is how long an event counts as a problem. The API server also keeps events for an hour.
const eventLifetime = time.Hour

// onlyInEvents reports whether a problem is reported by events only, not by a condition.
func onlyInEvents(reason string) bool {
	return slices.Contains([]string{
		api.EventRegistryUnavailable, api.EventDefenderExclusions, api.EventSettingsRefused, api.EventVersionRefused, api.EventAddressDisputed, api.EventHostKeyShared,
		api.EventInstanceInvalid, api.EventProviderIDDiffers, api.EventCertificateRefused, api.EventHostReleased,
	}, reason)
}

// instanceConditions returns the conditions of an instance that are not good, starting with Ready.
func instanceConditions(i *v1alpha1.WindowsInstance) (bad []metav1.Condition) {
	var ready []metav1.Condition
	for _, c := range i.Status.Conditions {
		switch {
		case c.Status == metav1.ConditionUnknown && c.Type != api.ConditionReady, isGood(c.Type, string(c.Status), badInstance()):
		case c.Type == api.ConditionReady:
			ready = append(ready, c)
		default:
			bad = append(bad, c)
		}
	}
	return append(ready, bad...)
}

// failed returns the problem of the last failed action. If the operator will retry it, the problem is a warning.
func (r *reader) failed(i *v1alpha1.WindowsInstance, object string) (Problem, bool) {
	f := i.Status.Failure
	if f == nil {
		return Problem{}, false
	}
	message := fmt.Sprintf("%s failed", f.Action)
	if f.Version != "" {
		message = fmt.Sprintf("%s to version %s failed", f.Action, f.Version)
	}
	if f.Step != "" {
		message += fmt.Sprintf(" in step %s", f.Step)
	}
	p := r.problem(api.ReasonFailed, object, message+": "+f.Message, f.At.Time)
	if plan := i.Status.Plan; plan == nil || plan.WaitsFor != api.ReasonFailed {
		p.Severity = advice.Warning
	}
	return p, true
}

// isBadOnNode reports whether a condition of a Node reports a problem. Condition types of other programs are ignored.
func isBadOnNode(c corev1.NodeCondition) bool {
	known := append(badNode(), string(corev1.NodeReady), api.ConditionServicesHealthy, api.ConditionUpdated, api.ConditionSandboxImage, api.ConditionGMSACapable,
		api.ConditionHyperVCapable)
	return slices.Contains(known, string(c.Type)) && !isGood(string(c.Type), string(c.Status), badNode()) &&
		(c.Status != corev1.ConditionUnknown || c.Type == corev1.NodeReady)
}

// nodeReason returns the reason of a Node's condition. The node controller sets the same reason in all conditions of an unresponsive node.
func nodeReason(c corev1.NodeCondition) string {
	return cmp.Or(c.Reason, string(c.Type))
}

// Event is an event of a host, its Node, or another object in the operator's namespace.
type Event struct {
	// Object is the object of the event, as in "Node win-1".
	Object string `json:"object"`
	// Type is Normal or Warning.
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Last is when it last happened; Count is how often.
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
}

const maxEvents = 50

func (r *reader) eventsOf(of ...object) (all []Event) {
	for _, o := range of {
		if o.name == "" {
			continue
		}
		for _, e := range r.events[o] {
			all = append(all, eventOf(e))
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return b.Last.Compare(a.Last) })
	return all[:min(len(all), maxEvents)]
}

// eventOf converts an event of either API.
func eventOf(e *corev1.Event) Event {
	current := Event{
		Object: label(e.InvolvedObject.Kind + " " + e.InvolvedObject.Name), Type: label(e.Type), Reason: label(e.Reason), Message: text(e.Message),
		Last: e.LastTimestamp.Time, Count: int(max(e.Count, 1)),
	}
	if current.Last.IsZero() {
		current.Last = e.EventTime.Time
	}
	if e.Series != nil {
		current.Last, current.Count = e.Series.LastObservedTime.Time, int(e.Series.Count)
	}
	if current.Last.IsZero() {
		current.Last = e.CreationTimestamp.Time
	}
	return current
}

// otherEvents returns problems that only events of other objects report: entries that get no instance, settings that are ignored, requests that
// break a rule.
func (r *reader) otherEvents() (found []Problem) {
	byObject := func(a, b object) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) }
	for _, o := range slices.SortedFunc(maps.Keys(r.events), byObject) {
		if o.kind == "WindowsInstance" || o.kind == "Node" || o.kind == "Pod" {
			continue
		}
		reported := map[string]bool{}
		for _, e := range r.eventsOf(o) {
			if key := e.Reason + e.Message; e.Type == corev1.EventTypeWarning && onlyInEvents(e.Reason) && r.Now.Sub(e.Last) < eventLifetime && !reported[key] {
				reported[key] = true
				found = append(found, r.problem(e.Reason, e.Object, e.Message, e.Last))
			}
		}
	}
	return found
}

// orphans returns Windows nodes without an instance. The operator reports nodes that another program manages only after a while, by an event;
// this function counts them at once.
func (r *reader) orphans() (names []string, found []Problem) {
	known := map[string]bool{}
	for i := range r.Instances {
		if node := r.nodeOf(&r.Instances[i]); node != nil {
			known[node.Name] = true
		}
	}
	for name := range r.nodes {
		if !known[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		p := r.problem(api.EventNodeOrphaned, "Node "+names[0], fmt.Sprintf("no WindowsInstance for %d Windows nodes: %s",
			len(names), strings.Join(names[:min(len(names), 10)], ", ")), time.Time{})
		found = append(found, p)
	}
	return names, found
}
