package fleetstatus

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// Rollout is the progress of all hosts towards the desired version.
type Rollout struct {
	// Version is the desired version of nodes; empty if the operator does not report it.
	Version string `json:"version,omitempty"`
	// Nodes is the number of Windows nodes with a WindowsInstance; AtVersion is how many of them have the version.
	Nodes     int `json:"nodes"`
	AtVersion int `json:"atVersion"`
	// MaxUnavailable is how many nodes may be out of service; OutOfService lists those that are cordoned or not Ready.
	MaxUnavailable int      `json:"maxUnavailable,omitempty"`
	OutOfService   []string `json:"outOfService,omitempty"`
	// Paused means that WindowsConfig pauses all hosts.
	Paused bool `json:"paused,omitempty"`
	// StoppedBy lists the hosts on which the version failed; they stop the rollout to other hosts.
	StoppedBy []string `json:"stoppedBy,omitempty"`
	// StartedAt is when the first node began to upgrade; EstimatedEnd is when all nodes will have the version at the pace so far.
	StartedAt    time.Time `json:"startedAt,omitzero"`
	EstimatedEnd time.Time `json:"estimatedEnd,omitzero"`
	// Message is the operator's summary.
	Message string `json:"message,omitempty"`
	// Running are the actions in progress; Waiting those that wait.
	Running []Group `json:"running,omitempty"`
	Waiting []Group `json:"waiting,omitempty"`
}

// Group is a set of hosts with the same action in the same step, or with the same reason for waiting.
type Group struct {
	// Action is the action; Step is its step while it is in progress.
	Action string `json:"action"`
	Step   string `json:"step,omitempty"`
	// Reason is why the action waits; Message is what the first of the hosts reports; Remedy is what to do.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	Docs    string `json:"docs,omitempty"`
	// Hosts are the names of the WindowsInstances.
	Hosts []string `json:"hosts"`
}

func (r *reader) rollout(hosts []Host) Rollout {
	sum := Rollout{}
	if r.Config != nil {
		sum.Paused = r.Config.Spec.Rollout.Paused
		if s := r.Config.Status.Rollout; s != nil {
			sum.Version, sum.MaxUnavailable, sum.Message = label(s.Version), int(s.MaxUnavailable), text(s.Message)
			sum.StartedAt, sum.EstimatedEnd = timeOf(s.StartedAt), timeOf(s.EstimatedEnd)
		}
	}
	running, waits := map[string]*Group{}, map[string]*Group{}
	for _, h := range hosts {
		if node := r.nodes[h.Node]; node != nil {
			sum.Nodes++
			if h.Versions.Node == sum.Version && sum.Version != "" {
				sum.AtVersion++
			}
			if isOut(node) {
				sum.OutOfService = append(sum.OutOfService, h.Name)
			}
		}
		if f := h.Failure; f != nil && !h.Paused && f.Action == string(v1alpha1.ActionUpgrade) && f.Version == sum.Version && f.Step != string(v1alpha1.MaintenanceDrain) {
			sum.StoppedBy = append(sum.StoppedBy, h.Name)
		}
		r.sort(h, running, waits)
	}
	sum.Running, sum.Waiting = list(running), list(waits)
	return sum
}

func (r *reader) sort(h Host, running, waits map[string]*Group) {
	switch {
	case h.Maintenance != nil:
		m := h.Maintenance
		join(running, m.Action+" "+m.Step, h.Name, Group{Action: m.Action, Step: m.Step, Message: m.Message})
	case h.Plan == nil:
	case h.Plan.WaitsFor == "":
		join(running, h.Plan.Action, h.Name, Group{Action: h.Plan.Action, Message: h.Plan.Message})
	default:
		a := r.advice.For(h.Plan.WaitsFor)
		join(waits, h.Plan.Action+" "+h.Plan.WaitsFor, h.Name,
			Group{Action: h.Plan.Action, Reason: h.Plan.WaitsFor, Message: h.Plan.Message, Remedy: a.Remedy, Docs: a.URL()})
	}
}

// join adds a host to a group. The first host creates the group.
func join(groups map[string]*Group, key, host string, first Group) {
	if groups[key] == nil {
		groups[key] = &first
	}
	groups[key].Hosts = append(groups[key].Hosts, host)
}

// list sorts groups, largest first.
func list(groups map[string]*Group) (all []Group) {
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, *groups[key])
	}
	slices.SortStableFunc(all, func(a, b Group) int { return cmp.Compare(len(b.Hosts), len(a.Hosts)) })
	return all
}

// isOut reports whether a node takes no pods.
func isOut(node *corev1.Node) bool {
	return node.Spec.Unschedulable || !nodestate.IsReady(node) || nodestate.WaitsForCloud(node)
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
