package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
)

// orphan is a Windows Node that no WindowsInstance is for, and from which nobody hears.
func orphan(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	setNodeCondition(node, corev1.NodeReady, corev1.ConditionUnknown, "no heartbeat")
	return node
}

// orphansMetric is what is scraped of the metric.
func (s *story) orphansMetric() float64 {
	s.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.fleet.metrics.orphans)
	families, err := registry.Gather()
	s.must(err)
	return families[0].Metric[0].Gauge.GetValue()
}

// A host that was renamed leaves a Node behind which is never Ready again.
func TestStoryNodeWithoutAnInstanceHoldsNobodyUp(t *testing.T) {
	tell(t, "node-without-an-instance", 2, atMost(1), func(s *story) {
		s.settled(1)
		s.must(s.client.Create(s.ctx, orphan("former-name")))
		s.until("all have the version", time.Hour, func() bool { return s.at(s.version) == 2 })
		s.pass(time.Hour)
		if is := s.rules().Status.Rollout; is.Orphans != 1 || is.Nodes != 2 || is.OutOfService != 0 || !strings.Contains(is.Message, "no WindowsInstance for Node former-name") {
			t.Errorf("the rollout's status is %+v", is)
		}
		if n := s.orphansMetric(); n != 1 {
			t.Errorf("metric %s is %v", api.MetricOrphanNodes, n)
		}
		s.must(s.client.Delete(s.ctx, s.node("former-name")))
		s.pass(time.Minute)
		if n := s.orphansMetric(); n != 0 {
			t.Errorf("without the Node, metric %s is %v", api.MetricOrphanNodes, n)
		}
	})
}

func TestEachNodeWithoutAnInstanceIsToldOfOnceAndNotAllOfMany(t *testing.T) {
	nodes, now := map[string]*corev1.Node{}, time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for n := range 3 {
		name := fmt.Sprint("node-", n)
		nodes[name] = orphan(name)
	}
	var o orphans
	if tell, again := o.look(nodes, now); len(tell) != 0 || again != orphanAfter {
		t.Errorf("at once it tells of %d nodes, and looks again in %s", len(tell), again)
	}
	if tell, again := o.look(nodes, now.Add(orphanAfter)); len(tell) != 3 || again != 0 {
		t.Errorf("after %s it tells of %d nodes, and looks again in %s", orphanAfter, len(tell), again)
	}
	if tell, _ := o.look(nodes, now.Add(2*orphanAfter)); len(tell) != 0 {
		t.Errorf("it tells of %d nodes twice", len(tell))
	}
	for n := range 1000 {
		name := fmt.Sprint("more-", n)
		nodes[name] = orphan(name)
	}
	o.look(nodes, now.Add(2*orphanAfter))
	if tell, _ := o.look(nodes, now.Add(3*orphanAfter)); len(tell) != maxOrphanEvents-3 {
		t.Errorf("of a thousand it tells of %d, want %d", len(tell), maxOrphanEvents-3)
	}
	o.look(nil, now)
	if len(o.since)+len(o.told) != 0 {
		t.Error("nodes that are gone are remembered")
	}
}
