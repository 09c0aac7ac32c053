package generations

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
	// Others is the number of other nodes that the pods may be scheduled to, without regard to CPU, memory and volumes.
	Others int `json:"others"`
}

// Turn is when a host can be replaced.
type Turn string

// Turns, in this order.
const (
	// First is for hosts that nothing keeps.
	First Turn = "First"
	// Later is for hosts whose pods may move to other nodes than those with the target build, while there are such nodes.
	Later Turn = "Later"
	// Last is for hosts that are the only ones for some pods.
	Last Turn = "Last"
)

// order returns the nodes with builds older than the target: by their turn, then by the number of workloads that keep them, then by that of their pods.
func (a *assessing) order(workloads []*Workload, assessed []Assessment) []Host {
	hosts := []Host{}
	for i := range a.cluster.Nodes {
		n := &a.cluster.Nodes[i]
		b, revision, err := windowsbuild.ParseRevision(n.Status.NodeInfo.KernelVersion)
		if err != nil || b >= a.target {
			continue
		}
		h := Host{Name: n.Name, Build: b.Label(), Revision: revision, Own: n.Labels[api.LabelBYOH] == "true", Turn: First}
		for j, w := range workloads {
			pods := podsOn(w, n.Name)
			if pods == 0 || w.Kind == "DaemonSet" {
				continue
			}
			h.Pods += pods
			if assessed[j].State == Movable {
				continue
			}
			others := a.others(w, n, assessed[j])
			h.KeptBy = append(h.KeptBy, Blocker{assessed[j].ID(), assessed[j].State, others})
			if others == 0 {
				h.Turn = Last
			} else if h.Turn == First {
				h.Turn = Later
			}
		}
		hosts = append(hosts, h)
	}
	turns := []Turn{First, Later, Last}
	slices.SortFunc(hosts, func(x, y Host) int {
		return cmp.Or(cmp.Compare(slices.Index(turns, x.Turn), slices.Index(turns, y.Turn)), cmp.Compare(len(x.KeptBy), len(y.KeptBy)),
			cmp.Compare(x.Pods, y.Pods), strings.Compare(x.Name, y.Name))
	})
	return hosts
}

func podsOn(w *Workload, node string) (n int) {
	for _, p := range w.Pods {
		if p.Spec.NodeName == node {
			n++
		}
	}
	return n
}

// others counts the nodes that the pods of a workload on a host may be scheduled to when the host is gone: those with a build that runs the images,
// or with the same build.
func (a *assessing) others(w *Workload, host *corev1.Node, found Assessment) (count int) {
	d := demandsOf(w, a.cluster.Classes)
	if w.Kind == "Pod" || w.Template.NodeName != "" || d.unknown != "" {
		return 0
	}
	fits := matcher(d.selector, d.affinity)
	own := nodestate.WindowsBuild(host)
	for i := range a.cluster.Nodes {
		n := &a.cluster.Nodes[i]
		b := nodestate.WindowsBuild(n)
		if n.Name == host.Name || n.Spec.Unschedulable || b == 0 || b != own && found.Builds[b.Label()] != Runs {
			continue
		}
		if fits(n) && d.notTolerated(n) == nil {
			count++
		}
	}
	return count
}
