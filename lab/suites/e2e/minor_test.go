//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

// releaseOf returns the release of the kubelet in the payload for a minor version.
func releaseOf(t *testing.T, minor string) string {
	t.Helper()
	return payloadtest.Version(t, "../../..", "kubelet-"+minor)
}

// TestEachKubernetes joins a host to a cluster of each minor version of Kubernetes in the payload, with kubelet and control plane of that version. It
// runs only if WMCO_KUBERNETES is "all": the other tests cover the oldest and the newest version.
func TestEachKubernetes(t *testing.T) {
	if os.Getenv("WMCO_KUBERNETES") != "all" {
		t.Skip("SKIPPED: WMCO_KUBERNETES is not \"all\"")
	}
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	for _, minor := range build.Minors() {
		t.Run(minor, func(t *testing.T) {
			want := releaseOf(t, minor)
			p := newHarness(t, testenv.Options{WineHosts: 1, OpenShift: "None", Kubernetes: want, Minors: []string{minor}})
			p.joinAll()
			p.expectKubeletVersion(want)
		})
	}
}

// TestClusterUpgrade joins two hosts to a cluster of the oldest Kubernetes, upgrades the control plane to the next version, and expects the nodes to
// follow one at a time, without a lost request. The kubelets of both versions are real.
func TestClusterUpgrade(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, upgradeOptions(t, ""))
	p.joinAll()
	p.upgradeCluster(func() {})
}

// TestOpenShiftUpgrade does the same on OpenShift, on a platform with a cloud-controller-manager, which initializes the nodes of both versions.
func TestOpenShiftUpgrade(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, upgradeOptions(t, "VSphere"))
	p.expectCloudProvider(v1alpha1.CloudProviderExternal)
	cloud := p.startCloud()
	for _, h := range p.Hosts() {
		cloud.Set(h.Name, testenv.CloudMachine("vsphere://"+h.Name, h.Address))
	}
	p.joinAll()
	p.upgradeCluster(p.restartOperator)
	for _, h := range p.Hosts() {
		p.expectInitialized(h.Name, "vsphere://"+h.Name)
	}
}

// upgradeOptions returns options for a cluster of the oldest Kubernetes, with programs for the next version.
func upgradeOptions(t *testing.T, platform string) testenv.Options {
	t.Helper()
	minors := build.Minors()[:2]
	return testenv.Options{
		WineHosts: 2, Network: testenv.NetworkLab, OpenShift: platform, Kubernetes: releaseOf(t, minors[0]), Minors: minors,
	}
}

// upgradeCluster upgrades a cluster with two nodes from the oldest version to the next one. The operator caches the API server's version for ten
// minutes, unless upgraded restarts it.
func (p harness) upgradeCluster(upgraded func()) {
	p.t.Helper()
	minors := build.Minors()
	oldest, next := releaseOf(p.t, minors[0]), releaseOf(p.t, minors[1])
	one := intstr.FromInt32(1)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.MaxUnavailable = &one })
	p.expectKubeletVersion(oldest)
	if got := p.reported("win-1"); !strings.Contains(got, "-k"+minors[0]+"-") {
		p.t.Errorf("version of the node: got %q, want minor version %s in it", got, minors[0])
	}

	p.webserver(appWeb, 2, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec = testenv.WebserverPod("GRACE_SECONDS=2")
	})
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: appWeb}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": appWeb}}}
	p.create(budget)
	p.expectServing(appWeb, 2)

	must(p.t, p.Lab.ControlPlane.Upgrade(p.t.Context(), next))
	upgraded()
	watch, outages := p.watchBudget(1), p.watchOutages()
	traffic := p.StartTraffic(p.t.Context(), appWeb, 50*time.Millisecond)
	p.expectKubeletVersionWithin(10*time.Minute+waitTimeout, next)
	p.expectRolledOut()
	p.expectNoFailures(traffic)
	p.logOutages(outages)
	for _, problem := range watch.problems() {
		p.t.Error(problem)
	}
	p.expectServing(appWeb, 2)
}

// expectKubeletVersion waits until all nodes are Ready with a version of the kubelet.
func (p harness) expectKubeletVersion(want string) {
	p.t.Helper()
	p.expectKubeletVersionWithin(waitTimeout, want)
}

func (p harness) expectKubeletVersionWithin(timeout time.Duration, want string) {
	p.t.Helper()
	testenv.Eventually(p.t, timeout, "all nodes have kubelet "+want, func(context.Context) string {
		for _, host := range p.Hosts() {
			node := p.node(host.Name)
			if got := node.Status.NodeInfo.KubeletVersion; got != want || !nodestate.IsReady(node) {
				return fmt.Sprintf("node %s: got kubelet %q, Ready %v", host.Name, got, nodestate.IsReady(node))
			}
		}
		return ""
	})
}
