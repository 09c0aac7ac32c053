//go:build linux

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestFleet upgrades simulated hosts to another version and back, restarts one on request, and removes all, with a real API server and the operator's
// own permissions.
func TestFleet(t *testing.T) {
	const hosts = 4
	p := newPlace(t, testenv.Options{SimulatedHosts: hosts})
	two := intstr.FromInt32(2)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.MaxUnavailable = &two })
	for _, h := range p.Hosts() {
		p.announce(h, nil)
	}
	p.expectAllReady()
	first := p.reported("win-1")
	watch := p.watchBudget(2)

	t.Run("another version", func(t *testing.T) {
		p := p.in(t)
		dir, err := p.AnotherPayload("second", "kubelet.exe")
		if err != nil {
			t.Fatal(err)
		}
		p.restartWith(dir)
		p.expectVersion(func(got string) bool { return got != first })
		if watch.cordons() < hosts {
			t.Errorf("%d cordons were seen, want one for each of %d nodes, because the kubelet changed", watch.cordons(), hosts)
		}
		p.expectInService()
	})
	t.Run("and back", func(t *testing.T) {
		p := p.in(t)
		p.restartWith(p.Payload)
		p.expectVersion(func(got string) bool { return got == first })
		p.expectInService()
	})
	t.Run("a change that needs no drain causes none", func(t *testing.T) {
		p := p.in(t)
		dir, err := p.AnotherPayload("third", "windows_exporter.exe")
		if err != nil {
			t.Fatal(err)
		}
		before := watch.cordons()
		p.restartWith(dir)
		p.expectVersion(func(got string) bool { return got != first })
		if n := watch.cordons() - before; n != 0 {
			t.Errorf("%d nodes were cordoned for another exporter", n)
		}
	})
	t.Run("a restart on request", func(t *testing.T) { p.in(t).restartNode("win-2") })
	t.Run("leaving", func(t *testing.T) {
		p := p.in(t)
		for _, i := range p.instances() {
			p.remove(&i)
		}
		p.eventually("all hosts have left", func(ctx context.Context) string {
			var instances v1alpha1.WindowsInstanceList
			var nodes corev1.NodeList
			if err := p.Client.List(ctx, &instances); err != nil {
				return err.Error()
			}
			if err := p.Client.List(ctx, &nodes); err != nil {
				return err.Error()
			}
			if len(instances.Items)+len(nodes.Items) > 0 {
				return fmt.Sprintf("%d instances and %d nodes are there", len(instances.Items), len(nodes.Items))
			}
			return ""
		})
		for _, h := range p.Simulated() {
			for _, name := range []string{"containerd", "kubelet", api.WICDService} {
				if s := h.Windows().Service(name); s.Name != "" {
					t.Errorf("service %s stayed on a host: %+v", name, s)
				}
			}
		}
	})
	for _, problem := range watch.problems() {
		t.Error(problem)
	}
}

// restartWith restarts the operator with another payload.
func (p place) restartWith(dir string) {
	p.t.Helper()
	if err := p.Operator.Upgrade(dir); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) reported(node string) string {
	return p.node(node).Annotations[api.AnnotationVersion]
}

// annotateNode works like kubectl annotate.
func (p place) annotateNode(name, key, value string) {
	p.t.Helper()
	node := p.node(name)
	before := node.DeepCopy()
	node.Annotations[key] = value
	if err := p.Client.Patch(p.t.Context(), node, client.MergeFrom(before)); err != nil {
		p.t.Fatal(err)
	}
}

// restartNode requests a restart as users do, and waits until the node is back.
func (p place) restartNode(name string) {
	p.t.Helper()
	before := p.node(name).Status.NodeInfo.BootID
	p.annotateNode(name, api.AnnotationReboot, "")
	p.expectRestarted(name, before)
}

// expectRestarted waits until a node whose restart was requested is back with another boot ID.
func (p place) expectRestarted(name, before string) {
	p.t.Helper()
	p.eventually(name+" has restarted and is back", func(context.Context) string {
		node := p.node(name)
		_, requested := node.Annotations[api.AnnotationReboot]
		if node.Status.NodeInfo.BootID == before || node.Spec.Unschedulable || requested {
			return fmt.Sprintf("boot ID %s, cordoned %v, asked %v", node.Status.NodeInfo.BootID, node.Spec.Unschedulable, requested)
		}
		return notReady(node)
	})
}

// expectVersion waits until all nodes report a matching version.
func (p place) expectVersion(fits func(string) bool) {
	p.t.Helper()
	p.eventually("all nodes have the version", func(context.Context) string {
		for _, h := range p.Hosts() {
			if got := p.reported(h.Name); !fits(got) {
				return fmt.Sprintf("%s has version %s", h.Name, got)
			}
		}
		return ""
	})
}

// expectInService waits until no node is cordoned.
func (p place) expectInService() {
	p.t.Helper()
	p.eventually("all nodes are in service", func(context.Context) string {
		for _, h := range p.Hosts() {
			if p.node(h.Name).Spec.Unschedulable {
				return h.Name + " is cordoned"
			}
		}
		return ""
	})
}

// budgetWatch reads the nodes continuously.
type budgetWatch struct {
	mu     sync.Mutex
	seen   int
	faults []string
}

// watchBudget counts cordons from now on, and records when more nodes are cordoned than most.
func (p place) watchBudget(most int) *budgetWatch {
	w, cordoned := &budgetWatch{}, map[string]bool{}
	p.repeat(20*time.Millisecond, func(ctx context.Context) { // it can only miss cordons that are shorter
		var nodes corev1.NodeList
		if err := p.Client.List(ctx, &nodes); err == nil {
			w.observe(nodes.Items, cordoned, most)
		}
	})
	return w
}

func (w *budgetWatch) observe(nodes []corev1.Node, cordoned map[string]bool, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, node := range nodes {
		if node.Spec.Unschedulable {
			n++
			if !cordoned[node.Name] {
				w.seen++
			}
		}
		cordoned[node.Name] = node.Spec.Unschedulable
	}
	if n > most {
		w.faults = append(w.faults, fmt.Sprintf("%d nodes were cordoned at the same time, %d may be", n, most))
	}
}

func (w *budgetWatch) cordons() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

func (w *budgetWatch) problems() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults
}
