package fleet

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

func TestOrphanNodesAreReportedOnceAndLimited(t *testing.T) {
	nodes, now := map[string]*corev1.Node{}, time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for n := range 3 {
		name := fmt.Sprint("node-", n)
		nodes[name] = controllertest.OrphanNode(name)
	}
	var o orphans
	if due, requeueAfter := o.due(nodes, now); len(due) != 0 || requeueAfter != orphanAfter {
		t.Errorf("at first: %d nodes reported, next check in %s", len(due), requeueAfter)
	}
	if due, requeueAfter := o.due(nodes, now.Add(orphanAfter)); len(due) != 3 || requeueAfter != 0 {
		t.Errorf("after %s: %d nodes reported, next check in %s", orphanAfter, len(due), requeueAfter)
	}
	if due, _ := o.due(nodes, now.Add(2*orphanAfter)); len(due) != 0 {
		t.Errorf("%d nodes are reported twice", len(due))
	}
	for n := range 1000 {
		name := fmt.Sprint("more-", n)
		nodes[name] = controllertest.OrphanNode(name)
	}
	o.due(nodes, now.Add(2*orphanAfter))
	if due, _ := o.due(nodes, now.Add(3*orphanAfter)); len(due) != maxOrphanEvents-3 {
		t.Errorf("%d of a thousand nodes are reported, want %d", len(due), maxOrphanEvents-3)
	}
	o.due(nil, now)
	if len(o.since)+len(o.reported) != 0 {
		t.Error("deleted nodes are still recorded")
	}
}
