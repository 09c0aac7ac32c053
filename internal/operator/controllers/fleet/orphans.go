package fleet

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

const (
	// orphanAfter is how long a Windows node may have no WindowsInstance before an event reports it: its host may be about to be announced or to
	// report its name.
	orphanAfter = 10 * time.Minute
	// maxOrphanEvents limits the nodes reported in events while the operator runs. Further ones are only counted.
	maxOrphanEvents = 20
)

// orphans are Windows nodes without a WindowsInstance: their hosts were never announced, came back after their removal, or were renamed. They are not
// managed.
type orphans struct {
	since    map[types.UID]time.Time
	reported map[types.UID]bool
	total    int
}

// due returns the nodes to report now, and when to check again; zero if nothing is due before the next change.
func (o *orphans) due(nodes map[string]*corev1.Node, now time.Time) (due []*corev1.Node, requeueAfter time.Duration) {
	since, reported := map[types.UID]time.Time{}, map[types.UID]bool{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[name]
		first, known := o.since[node.UID]
		if !known {
			first = now
		}
		since[node.UID], reported[node.UID] = first, o.reported[node.UID]
		remaining := orphanAfter - now.Sub(first)
		switch {
		case reported[node.UID]:
		case remaining > 0:
			requeueAfter = kube.Soonest(requeueAfter, remaining)
		case o.total < maxOrphanEvents:
			due, o.total, reported[node.UID] = append(due, node), o.total+1, true
		}
	}
	o.since, o.reported = since, reported
	return due, requeueAfter
}

// reportOrphans counts the nodes without an instance and reports each once.
func (f *Controller) reportOrphans(nodes map[string]*corev1.Node) (requeueAfter time.Duration) {
	f.orphanNodes.Set(float64(len(nodes)))
	due, requeueAfter := f.orphans.due(nodes, time.Now())
	for _, node := range due {
		f.Events.Emit(kube.Event{Object: node, Type: corev1.EventTypeWarning, Reason: api.EventNodeOrphaned, Action: "Plan"},
			"this node has no WindowsInstance, so it is neither upgraded nor repaired; add its host, or delete the Node if the host is gone")
	}
	return requeueAfter
}
