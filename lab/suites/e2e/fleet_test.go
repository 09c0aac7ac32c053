//go:build linux

package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
)

// restartWith restarts the operator with another payload.
func (p harness) restartWith(dir string) {
	p.t.Helper()
	must(p.t, p.Operator.Upgrade(dir))
}

func (p harness) reported(node string) string {
	return p.node(node).Annotations[api.AnnotationVersion]
}

// annotateNode works like kubectl annotate.
func (p harness) annotateNode(name, key, value string) {
	p.t.Helper()
	node := p.node(name)
	before := node.DeepCopy()
	node.Annotations[key] = value
	must(p.t, p.Client.Patch(p.t.Context(), node, client.MergeFrom(before)))
}

// restartNode requests a reboot as users do, and waits until the node is back in service.
func (p harness) restartNode(name string) {
	p.t.Helper()
	before := p.node(name).Status.NodeInfo.BootID
	p.annotateNode(name, api.AnnotationReboot, "")
	p.expectRestarted(name, before)
}

// expectRestarted waits until a node whose reboot was requested is back in service with another boot ID.
func (p harness) expectRestarted(name, before string) {
	p.t.Helper()
	p.eventually(name+" has rebooted and is in service", func(context.Context) string {
		node := p.node(name)
		_, requested := node.Annotations[api.AnnotationReboot]
		if node.Status.NodeInfo.BootID == before || node.Spec.Unschedulable || requested {
			return fmt.Sprintf("boot ID %s, cordoned %v, reboot requested %v", node.Status.NodeInfo.BootID, node.Spec.Unschedulable, requested)
		}
		return notReady(node)
	})
}

// expectVersion waits until all nodes report a matching version.
func (p harness) expectVersion(fits func(string) bool) {
	p.t.Helper()
	p.eventually("all nodes report the version", func(context.Context) string {
		for _, h := range p.Hosts() {
			if got := p.reported(h.Name); !fits(got) {
				return fmt.Sprintf("%s reports version %s", h.Name, got)
			}
		}
		return ""
	})
}

// expectInService waits until no node is cordoned.
func (p harness) expectInService() {
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

// budgetWatch counts cordons and violations of the budget.
type budgetWatch struct {
	mu     sync.Mutex
	seen   int
	faults []string
}

// watchBudget counts cordons from now on, and records when more than limit nodes are cordoned.
func (p harness) watchBudget(limit int) *budgetWatch {
	w, cordoned := &budgetWatch{}, map[string]bool{}
	p.repeat(20*time.Millisecond, func(ctx context.Context) { // shorter cordons can be missed
		var nodes corev1.NodeList
		if err := p.Client.List(ctx, &nodes); err == nil {
			w.observe(nodes.Items, cordoned, limit)
		}
	})
	return w
}

func (w *budgetWatch) observe(nodes []corev1.Node, cordoned map[string]bool, limit int) {
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
	if n > limit {
		w.faults = append(w.faults, fmt.Sprintf("%d nodes were cordoned at the same time, want at most %d", n, limit))
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
