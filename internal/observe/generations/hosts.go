package generations

import (
	"cmp"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Host is a node with a build older than the target.
type Host struct {
	Name  string `json:"name"`
	Build string `json:"build"`
	// Revision is the last number of the version of Windows, such as 2402; 0 if the node does not report it.
	Revision int `json:"revision,omitempty"`
	// Own means that the host was added by ConfigMap or by a user. The others are Machines, or the operator does not manage them.
	Own  bool `json:"own"`
	Turn Turn `json:"turn"`
	// Pods is the number of its pods that run or wait, without those of DaemonSets.
	Pods int `json:"pods"`
	// KeptBy are the workloads with pods on the host that cannot move to the target, or of which this is not known. Those of DaemonSets are not
	// among them: no drain evicts them.
	KeptBy []Blocker `json:"keptBy,omitempty"`
}

// Blocker is a workload that keeps a host.
type Blocker struct {
	Workload string `json:"workload"`
	State    State  `json:"state"`
	// Others is the number of other nodes that the pods may be scheduled to when it is the host's turn, without regard to CPU, memory and volumes.
	Others int `json:"others"`
}

// Turn is when a host can be replaced.
type Turn string

// Turns, in this order.
const (
	// First is for hosts that nothing keeps.
	First Turn = "First"
	// Later is for hosts whose pods may move to nodes that are left when the hosts before them are replaced.
	Later Turn = "Later"
	// Last is for hosts without which some pods have no node.
	Last Turn = "Last"
)

// immovable is a workload that cannot move to the target, or of which this is not known.
type immovable struct {
	workload *Workload
	id       string
	state    State
	// fits are the nodes that its pods may be scheduled to, and left is the number of those that are not replaced yet.
	fits map[string]bool
	left int
	// isDisplaced means that a host with its pods is replaced before: they may now be on any node that fits.
	isDisplaced bool
}

// order returns the nodes with builds older than the target in the order in which they can be replaced: by their turn, then by the number of
// workloads that keep them, then by that of their pods.
func (a *assessor) order(workloads []*Workload, assessed []Assessment) []Host {
	var kept []*immovable
	for i, w := range workloads {
		if assessed[i].State != Movable && w.Kind != "DaemonSet" && len(assessed[i].Nodes) > 0 {
			kept = append(kept, a.immovable(w, assessed[i]))
		}
	}
	hosts := []Host{}
	for i := range a.cluster.Nodes {
		n := &a.cluster.Nodes[i]
		b, revision, err := windowsbuild.ParseRevision(n.Status.NodeInfo.KernelVersion)
		if err != nil || b >= a.target {
			continue
		}
		h := Host{Name: n.Name, Build: b.Label(), Revision: revision, Own: n.Labels[api.LabelBYOH] == "true"}
		for _, w := range workloads {
			if w.Kind != "DaemonSet" {
				h.Pods += podsOn(w, n.Name)
			}
		}
		for _, w := range kept {
			if podsOn(w.workload, n.Name) > 0 {
				h.KeptBy = append(h.KeptBy, Blocker{Workload: w.id, State: w.state})
			}
		}
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(x, y Host) int {
		return cmp.Or(cmp.Compare(len(x.KeptBy), len(y.KeptBy)), cmp.Compare(x.Pods, y.Pods), strings.Compare(x.Name, y.Name))
	})
	for i := range hosts {
		hosts[i].Turn = turnOf(hosts[i].Name, kept)
	}
	turns := []Turn{First, Later, Last}
	slices.SortStableFunc(hosts, func(x, y Host) int { return cmp.Compare(slices.Index(turns, x.Turn), slices.Index(turns, y.Turn)) })
	countOthers(hosts, kept)
	return hosts
}

// turnOf returns the turn of a host. Unless it is Last, the host counts as replaced from then on. That only takes nodes away from others, so hosts
// that are Last stay so.
func turnOf(host string, kept []*immovable) Turn {
	turn := First
	for _, w := range kept {
		hasPods := podsOn(w.workload, host) > 0
		left := w.left
		if w.fits[host] {
			left--
		}
		switch {
		case !hasPods && (!w.isDisplaced || !w.fits[host]):
		case left == 0:
			return Last
		case hasPods:
			turn = Later
		}
	}
	for _, w := range kept {
		if w.fits[host] {
			w.left--
		}
		w.isDisplaced = w.isDisplaced || podsOn(w.workload, host) > 0
	}
	return turn
}

// countOthers counts for each workload that keeps a host the nodes that are left for its pods when it is the host's turn.
func countOthers(hosts []Host, kept []*immovable) {
	for i := range hosts {
		for j, b := range hosts[i].KeptBy {
			w := kept[slices.IndexFunc(kept, func(w *immovable) bool { return w.id == b.Workload })]
			left := len(w.fits)
			for k := range hosts {
				isReplaced := k < i && hosts[k].Turn != Last
				if w.fits[hosts[k].Name] && (isReplaced || k == i) {
					left--
				}
			}
			hosts[i].KeptBy[j].Others = left
		}
	}
}

func podsOn(w *Workload, node string) (n int) {
	for _, p := range w.Pods {
		if p.Spec.NodeName == node {
			n++
		}
	}
	return n
}

// immovable returns the nodes that the pods of a workload may be scheduled to: those with a build that runs the images, or with the build of a node
// that has some of the pods.
func (a *assessor) immovable(w *Workload, found Assessment) *immovable {
	k := &immovable{workload: w, id: found.ID(), state: found.State, fits: map[string]bool{}}
	d := demandsOf(w, a.cluster.Classes)
	if w.Kind == "Pod" || w.Template.NodeName != "" || d.unknown != "" {
		return k
	}
	matches := matcher(d.selector, d.affinity)
	own := map[windowsbuild.Build]bool{}
	for _, name := range found.Nodes {
		own[a.buildOf(name)] = true
	}
	for i := range a.cluster.Nodes {
		n := &a.cluster.Nodes[i]
		b := nodestate.WindowsBuild(n)
		isRunning := b != 0 && (own[b] || found.Builds[b.Label()] == Runs)
		if isRunning && !n.Spec.Unschedulable && matches(n) && d.notTolerated(n) == nil {
			k.fits[n.Name] = true
		}
	}
	k.left = len(k.fits)
	return k
}
