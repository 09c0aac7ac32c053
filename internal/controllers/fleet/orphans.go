package fleet

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/kube"
)

const (
	// orphanAfter is how long a Windows node may have no WindowsInstance before somebody is told: its host may be about to be announced, or to
	// say its name.
	orphanAfter = 10 * time.Minute
	// maxOrphanEvents is how many nodes are told of one by one, as long as the operator runs. The others are counted.
	maxOrphanEvents = 20
)

// orphans are Windows nodes without a WindowsInstance: their hosts were never announced, were let go and came back, or have another name
// now. Nobody manages them.
type orphans struct {
	since map[types.UID]time.Time
	told  map[types.UID]bool
	total int
}

// look returns the nodes to tell of now, and in how long to look again; zero for not before something changes.
func (o *orphans) look(nodes map[string]*corev1.Node, now time.Time) (tell []*corev1.Node, again time.Duration) {
	since, told := map[types.UID]time.Time{}, map[types.UID]bool{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[name]
		first, known := o.since[node.UID]
		if !known {
			first = now
		}
		since[node.UID], told[node.UID] = first, o.told[node.UID]
		left := orphanAfter - now.Sub(first)
		switch {
		case told[node.UID]:
		case left > 0:
			again = kube.Sooner(again, left)
		case o.total < maxOrphanEvents:
			tell, o.total, told[node.UID] = append(tell, node), o.total+1, true
		}
	}
	o.since, o.told = since, told
	return tell, again
}

// lookAtOrphans counts the nodes without an instance, and tells of each once.
func (f *Controller) lookAtOrphans(nodes map[string]*corev1.Node) (again time.Duration) {
	f.orphanNodes.Set(float64(len(nodes)))
	tell, again := f.orphans.look(nodes, time.Now())
	for _, node := range tell {
		f.Events.Emit(kube.Event{Object: node, Type: corev1.EventTypeWarning, Reason: api.EventNodeOrphaned, Action: "Plan"},
			"no WindowsInstance is for this node: it gets no upgrade and no repair; announce its host, or delete the Node when the host is gone")
	}
	return again
}
