//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/internal/testing/sim/updateregistry"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// earlyNode and lateNode are the nodes of TestWindowsUpdates, one in each ring.
const earlyNode, lateNode = "win-1", "win-2"

// TestWindowsUpdates has Windows install updates in two rings, while its pods serve. The Windows Update Agent is the lab's (windows/shims/wuapi.c).
func TestWindowsUpdates(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 2, Network: testenv.NetworkLab})
	one := intstr.FromInt32(1)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Rollout.MaxUnavailable = &one
		s.Rollout.Canary = &v1alpha1.CanarySpec{Count: 1, Soak: "20s"}
		s.WindowsUpdates.Policy = v1alpha1.UpdatesInstall
		for _, ring := range []string{"early", "late"} {
			s.WindowsUpdates.Rings = append(s.WindowsUpdates.Rings, v1alpha1.UpdateRing{
				Name: ring, NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"updates": ring}},
			})
		}
	})
	p.joinAll()
	for name, ring := range map[string]string{earlyNode: "early", lateNode: "late"} {
		node := p.node(name)
		before := node.DeepCopy()
		node.Labels["updates"] = ring
		must(t, p.Client.Patch(t.Context(), node, client.MergeFrom(before)))
	}
	p.webserver(appWeb, 2, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec = testenv.WebserverPod("GRACE_SECONDS=2") // as startWeb
	})
	p.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: appWeb},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: labelsOf(appWeb)},
	})
	p.expectServing(appWeb, 2)
	watch, outages := p.watchBudget(1), p.watchOutages()

	_ = t.Run("an update goes through the rings", func(t *testing.T) { p.withT(t).installInRings(outages) }) &&
		t.Run("an update that Windows takes back stops in the first ring", func(t *testing.T) { p.withT(t).stopInFirstRing() }) &&
		t.Run("the next update is installed", func(t *testing.T) { p.withT(t).installNext() })
	for _, problem := range watch.problems() {
		t.Error(problem)
	}
}

// monthly returns the cumulative update of a month, with the revision of Windows that it brings.
func monthly(month int, revision uint32) updateregistry.Update {
	return updateregistry.Update{
		Update: windowsupdate.Update{
			ID: fmt.Sprintf("5a1c7c1e-0000-4000-8000-%012d", month), Revision: 1, KBs: []string{kbOf(month)}, Class: windowsupdate.Security, Severity: "Critical",
			Title:   fmt.Sprintf("2026-%02d Cumulative Update for Windows Server 2022 (%s)", month, kbOf(month)),
			Restart: windowsupdate.RestartAlways, Published: time.Now().AddDate(0, 0, -1),
		},
		Takes: 2 * time.Second, WindowsRevision: revision,
	}
}

func kbOf(month int) string { return fmt.Sprintf("KB50700%02d", month) }

// publish serves an update to both hosts, as the given number, and has Windows search for it.
func (p harness) publish(number int, u updateregistry.Update) {
	p.t.Helper()
	for _, host := range p.Lab.Hosts() {
		must(p.t, host.ServeUpdate(p.t.Context(), number, u))
		p.annotateNode(host.Name(), api.AnnotationSearchUpdates, time.Now().Format(time.RFC3339Nano))
	}
}

// boots returns the boot IDs of the hosts.
func (p harness) boots() (ids []uint32) {
	p.t.Helper()
	for _, host := range p.Lab.Hosts() {
		id, err := host.BootID(p.t.Context())
		must(p.t, err)
		ids = append(ids, id)
	}
	return ids
}

// expectInstalled waits until a node is in service with an update.
func (p harness) expectInstalled(name, kb string, revision uint32) {
	p.t.Helper()
	p.eventually(name+" works with "+kb, func(ctx context.Context) string {
		node, instance := p.node(name), p.instanceOf(name)
		if got, want := node.Status.NodeInfo.KernelVersion, fmt.Sprintf("10.0.%d.%d", lab.Build, revision); got != want {
			return fmt.Sprintf("its Windows is %s, want %s; the plan is %+v, the maintenance %+v", got, want, instance.Status.Plan, instance.Status.Maintenance)
		}
		if !slices.ContainsFunc(instance.Status.InstalledUpdates, func(u v1alpha1.InstalledUpdate) bool { return u.Article == kb }) {
			return fmt.Sprintf("its instance has %+v", instance.Status)
		}
		if node.Spec.Unschedulable || instance.Status.Maintenance != nil {
			return fmt.Sprintf("cordoned %v, maintenance %+v", node.Spec.Unschedulable, instance.Status.Maintenance)
		}
		return notReady(node)
	})
}

func (p harness) instanceOf(node string) *v1alpha1.WindowsInstance {
	p.t.Helper()
	all := p.instances()
	i := slices.IndexFunc(all, func(i v1alpha1.WindowsInstance) bool { return i.Status.NodeRef != nil && i.Status.NodeRef.Name == node })
	if i < 0 {
		p.t.Fatalf("no instance of node %s", node)
	}
	return &all[i]
}

// inOrder records a fault if the late node is taken out of service before the early one has a revision of Windows.
func (p harness) inOrder(revision uint32) (fault func() string) {
	p.t.Helper()
	var mu sync.Mutex
	var found string
	stop := p.repeat(50*time.Millisecond, func(ctx context.Context) {
		var late, early corev1.Node
		if p.Client.Get(ctx, client.ObjectKey{Name: lateNode}, &late) != nil || p.Client.Get(ctx, client.ObjectKey{Name: earlyNode}, &early) != nil {
			return
		}
		if got := early.Status.NodeInfo.KernelVersion; late.Spec.Unschedulable && !strings.HasSuffix(got, fmt.Sprintf(".%d", revision)) {
			mu.Lock()
			found = "the late node was cordoned while the early one had Windows " + got
			mu.Unlock()
		}
	})
	return func() string {
		stop()
		mu.Lock()
		defer mu.Unlock()
		return found
	}
}

// installInRings installs an update on both nodes with one restart each, the early one first, and loses no request. It compares how long a node is out of
// service with a restart alone.
func (p harness) installInRings(outages *outageWatch) {
	const month, revision = 1, 4405
	boots, fault := p.boots(), p.inOrder(revision)
	traffic := p.StartTraffic(p.t.Context(), appWeb, 50*time.Millisecond)
	began := time.Now()
	p.publish(month, monthly(month, revision))
	p.expectInstalled(earlyNode, kbOf(month), revision)
	p.t.Logf("%s worked with the update %s after its publication", earlyNode, time.Since(began).Round(time.Second))
	p.expectInstalled(lateNode, kbOf(month), revision)
	p.t.Logf("%s worked with the update %s after its publication", lateNode, time.Since(began).Round(time.Second))
	p.expectNoFailures(traffic)
	if found := fault(); found != "" {
		p.t.Error(found)
	}
	for i, now := range p.boots() {
		if now != boots[i]+1 {
			p.t.Errorf("host %d restarted %d times, want once", i+1, now-boots[i])
		}
	}
	p.expectServing(appWeb, 2)
	withUpdate := p.logOutages(outages)
	p.restartNode(earlyNode)
	p.expectRolledOut()
	p.t.Logf("with the update out of service for %.1f s, for a restart alone %.1f s", withUpdate.Seconds(), p.logOutages(outages).Seconds())
	p.expectServing(appWeb, 2)
}

// stopInFirstRing publishes an update that Windows takes back. The early node returns to service without it, and the late one never begins.
func (p harness) stopInFirstRing() {
	const month = 2
	boots := p.boots()
	traffic := p.StartTraffic(p.t.Context(), appWeb, 50*time.Millisecond)
	u := monthly(month, 5000)
	u.TakenBack = true
	p.publish(month, u)
	p.eventually("the update has failed on the early node", func(context.Context) string {
		f := p.instanceOf(earlyNode).Status.Failure
		if f == nil || !slices.Equal(f.Updates, []string{kbOf(month)}) {
			return fmt.Sprintf("the failure is %+v", f)
		}
		return ""
	})
	p.expectRolledOut()
	p.eventually("the update is stopped", func(context.Context) string {
		plan := p.instanceOf(lateNode).Status.Plan
		if plan == nil || plan.Action != v1alpha1.ActionPatch || plan.WaitsFor != api.ReasonRolloutStopped || !strings.Contains(plan.Message, kbOf(month)) {
			return fmt.Sprintf("the plan of the late node is %+v", plan)
		}
		return ""
	})
	p.expectNoFailures(traffic)
	if now := p.boots(); now[0] != boots[0]+1 || now[1] != boots[1] {
		p.t.Errorf("the boots are %v, before %v; want one restart of the early host", now, boots)
	}
}

// installNext installs the update of the next month on both nodes: another one that failed does not keep it back.
func (p harness) installNext() {
	const month, revision = 3, 5100
	p.publish(month, monthly(month, revision))
	p.expectInstalled(earlyNode, kbOf(month), revision)
	p.expectInstalled(lateNode, kbOf(month), revision)
}
