//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/nodestate"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestClusterMoves joins two hosts to a cluster of Kubernetes 1.33, upgrades the control plane to 1.34, and expects that the nodes follow
// one after the other, without a lost request. The kubelets are real ones of both versions; the control plane is one of 1.36 that has the
// version, APIs and feature gates of the older ones.
func TestClusterMoves(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newPlace(t, testenv.Options{WineHosts: 2, Network: testenv.NetworkLab, Kubernetes: "v1.33.13", Minors: []string{"1.33", "1.34"}})
	one := intstr.FromInt32(1)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.MaxUnavailable = &one })
	p.joinAll()
	p.expectKubeletVersion("v1.33.13")
	if is := p.reported("win-1"); !strings.Contains(is, "-k1.33-") {
		t.Errorf("the node's version is %q, and must name the minor version", is)
	}

	_, err := p.WinWebserver(t.Context(), appWeb, 2, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec = testenv.WebserverPod("GRACE_SECONDS=2")
	})
	if err != nil {
		t.Fatal(err)
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: appWeb}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": appWeb}}}
	p.create(budget)
	p.expectServing(appWeb, 2)

	if err := p.Lab.ControlPlane.Upgrade(t.Context(), "v1.34.4"); err != nil {
		t.Fatal(err)
	}
	watch := p.watchBudget(1)
	traffic := p.StartTraffic(t.Context(), appWeb, 50*time.Millisecond)
	p.expectKubeletVersion("v1.34.4") // two minutes after the upgrade, at the earliest
	p.expectRolledOut()
	p.expectNoFailures(traffic)
	for _, problem := range watch.problems() {
		t.Error(problem)
	}
	p.expectServing(appWeb, 2)
}

// expectKubeletVersion waits until all nodes are Ready with a version of the kubelet.
func (p place) expectKubeletVersion(want string) {
	p.t.Helper()
	p.eventually("all nodes have kubelet "+want, func(context.Context) string {
		for _, host := range p.Hosts() {
			node := p.node(host.Name)
			if is := node.Status.NodeInfo.KubeletVersion; is != want || !nodestate.IsReady(node) {
				return fmt.Sprintf("node %s has kubelet %q, Ready %v", host.Name, is, nodestate.IsReady(node))
			}
		}
		return ""
	})
}
