//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// The apps of TestWindowsFleet.
const (
	appWeb   = "web"   // three pods with a PodDisruptionBudget and continuous requests
	appAgent = "agent" // a pod on each node
	appSlow  = "slow"  // a pod that uses its grace period
)

// slowGrace returns how many seconds the slow pod runs after its stop signal: longer than pods' default of 30 s, but not with -short.
func slowGrace() int {
	if testing.Short() {
		return 5
	}
	return 40
}

// TestWindowsFleet changes the kubelet of Windows hosts that run pods and changes it back, replaces the SSH key, reboots a node on
// request, removes a host, and adds it again as a Machine. It has three hosts, or two with -short.
func TestWindowsFleet(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	hosts := 3
	if testing.Short() {
		hosts = 2
	}
	p := newHarness(t, testenv.Options{WineHosts: hosts, Network: testenv.NetworkLab})
	one := intstr.FromInt32(1)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.MaxUnavailable = &one })
	fresh := takeSnapshot(t, p.lastHost())
	p.joinAll()
	p.startApps()
	p.expectApps()
	watch, outages := p.watchBudget(1), p.watchOutages()

	const mark = "second"
	isMarked := func(program []byte) bool { return bytes.HasSuffix(program, []byte(mark)) }
	passed := t.Run("nodes are upgraded to another kubelet", func(t *testing.T) {
		p := p.withT(t)
		dir, err := p.AnotherPayload(mark, "kubelet.exe")
		must(t, err)
		p.roll(dir, watch, outages)
		p.expectKubelets(isMarked)
	}) &&
		t.Run("the SSH key is replaced", func(t *testing.T) { p.withT(t).replaceKey(watch) }) &&
		t.Run("nodes are rolled back to the first kubelet", func(t *testing.T) {
			p := p.withT(t)
			for _, host := range p.Lab.Hosts() {
				p.expectGuardGone(host) // otherwise the drained node would wait for it; real updates are further apart
			}
			p.roll(p.Payload, watch, outages)
			p.expectKubelets(func(program []byte) bool { return !isMarked(program) })
		}) &&
		t.Run("a node reboots on request", func(t *testing.T) { p.withT(t).restartOnDemand() }) &&
		t.Run("a removed host is restored", func(t *testing.T) { p.withT(t).removeLastHost(fresh) }) &&
		t.Run("the removed host rejoins as a Machine", func(t *testing.T) { p.withT(t).rejoinAsMachine() })
	for _, problem := range watch.problems() {
		t.Error(problem)
	}
	if !passed {
		t.Log("the steps after the failed one were skipped")
	}
}

// startWeb starts appWeb with its disruption budget.
func (p harness) startWeb() {
	p.t.Helper()
	p.webserver(appWeb, 3, func(d *appsv1.Deployment) {
		// Clients learn that a pod terminates only after its program does, so it must serve for a moment longer to lose no request.
		d.Spec.Template.Spec = testenv.WebserverPod("GRACE_SECONDS=2")
	})
	two := intstr.FromInt32(2)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: appWeb}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: labelsOf(appWeb)}
	p.create(budget)
}

func labelsOf(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// startApps starts the pods.
func (p harness) startApps() {
	p.t.Helper()
	p.startWeb()
	p.webserver(appSlow, 1, func(d *appsv1.Deployment) {
		grace := int64(60)
		d.Spec.Template.Spec = testenv.WebserverPod(fmt.Sprintf("GRACE_SECONDS=%d", slowGrace()))
		d.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
		d.Spec.Template.Spec.NodeSelector[corev1.LabelHostname] = "win-2" // so that each rollout stops it only once
	})
	daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: appAgent}}
	daemons.Spec.Selector = labelsOf(appAgent)
	daemons.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(appAgent).MatchLabels}, Spec: testenv.WebserverPod()}
	p.create(daemons)
}

// expectApps waits until all pods serve.
func (p harness) expectApps() {
	p.t.Helper()
	for app, count := range map[string]int{appWeb: 3, appSlow: 1, appAgent: len(p.Hosts())} {
		p.expectServing(app, count)
	}
}

// expectServing waits until an app has count pods and all of them serve, and returns them.
func (p harness) expectServing(app string, count int) []corev1.Pod {
	p.t.Helper()
	return p.ExpectServing(p.t, waitTimeout, app, count)
}

// roll starts an operator with another payload, and waits until all nodes have its kubelet.
func (p harness) roll(dir string, watch *budgetWatch, outages *outageWatch) {
	p.t.Helper()
	before, cordons := p.reported("win-1"), watch.cordons()
	slow := p.expectServing(appSlow, 1)[0]
	log := make(chan string, 1)
	go func() {
		text, err := p.Logs(p.t.Context(), &slow, true)
		log <- fmt.Sprint(text, err)
	}()
	agents := p.expectServing(appAgent, len(p.Hosts()))
	traffic := p.StartTraffic(p.t.Context(), appWeb, 50*time.Millisecond)
	p.restartWith(dir)
	p.expectVersion(func(got string) bool { return got != before })
	p.expectRolledOut()
	p.expectNoFailures(traffic)
	p.logOutages(outages)
	if n := watch.cordons() - cordons; n != len(p.Hosts()) {
		p.t.Errorf("got %d cordons, want one for each of %d nodes", n, len(p.Hosts()))
	}
	if text, want := <-log, fmt.Sprintf("used %d s of its grace period", slowGrace()); !strings.Contains(text, want) {
		p.t.Errorf("log of %s: got %q, want %q in it", slow.Name, text, want)
	}
	took := outages.terminationTime(slow.UID)
	p.t.Logf("pod %s terminated within %s", slow.Name, took.Round(100*time.Millisecond))
	if took < time.Duration(slowGrace())*time.Second {
		p.t.Errorf("pod %s terminated too early: its program needs %d s", slow.Name, slowGrace())
	}
	p.expectSameContainers(agents)
	p.expectApps()
}

// expectRolledOut waits until no maintenance is active and no node is cordoned.
func (p harness) expectRolledOut() {
	p.t.Helper()
	p.eventually("no maintenance is active", func(context.Context) string {
		for _, i := range p.instances() {
			if now := i.Status.Maintenance; now != nil {
				return fmt.Sprintf("action %s of %s is in step %s: %s", now.Action, i.Name, now.Step, now.Message)
			}
		}
		return ""
	})
	p.expectInService()
}

func (p harness) expectNoFailures(traffic *testenv.Traffic) {
	p.t.Helper()
	answered, failures := traffic.Stop()
	p.t.Logf("%d requests were answered, %d failed", answered, len(failures))
	if answered == 0 || len(failures) > 0 {
		p.t.Errorf("%d requests were answered, others failed: %q", answered, failures)
	}
}

// expectSameContainers checks that pods were neither evicted nor restarted.
func (p harness) expectSameContainers(before []corev1.Pod) {
	p.t.Helper()
	for i := range before {
		var now corev1.Pod
		err := p.Client.Get(p.t.Context(), client.ObjectKeyFromObject(&before[i]), &now)
		if err != nil || now.UID != before[i].UID || now.DeletionTimestamp != nil {
			p.t.Errorf("pod %s of a DaemonSet on %s was evicted (%v)", before[i].Name, before[i].Spec.NodeName, err)
			continue
		}
		if got, previous := now.Status.ContainerStatuses[0].ContainerID, before[i].Status.ContainerStatuses[0].ContainerID; got != previous {
			p.t.Errorf("container of pod %s: got %s, want %s as before", now.Name, got, previous)
		}
	}
}

// expectKubelets checks on all hosts that the kubelet's program has the right content and runs.
func (p harness) expectKubelets(fits func(program []byte) bool) {
	p.t.Helper()
	for _, host := range p.Lab.Hosts() {
		_, after, _ := strings.Cut(p.servicesOf(host)["kubelet"].Command, desired.Versions+`\`)
		version, _, _ := strings.Cut(after, `\`)
		program := desired.Versions + `\` + version + `\kubelet.exe`
		if content, err := host.ReadFile(program); err != nil || !fits(content) {
			p.t.Errorf("%s of %s has the wrong content (%v)", program, host.Name(), err)
		}
		running, err := host.Processes()
		if err != nil || !slices.ContainsFunc(running, func(line string) bool { return strings.Contains(line, program) }) {
			p.t.Errorf("%s does not run on %s; processes: %q (%v)", program, host.Name(), running, err)
		}
	}
}

// restartOnDemand requests a restart of a node.
func (p harness) restartOnDemand() {
	const name = "win-1"
	before := p.node(name)
	agents := p.expectServing(appAgent, len(p.Hosts()))
	traffic := p.StartTraffic(p.t.Context(), appWeb, 50*time.Millisecond)
	began := time.Now()
	p.restartNode(name)
	p.t.Logf("%s was back in service %s after the request", name, time.Since(began).Round(100*time.Millisecond))
	p.expectRolledOut()
	p.expectNoFailures(traffic)
	if got := p.node(name); got.UID != before.UID {
		p.t.Error("the node was replaced")
	}
	p.expectServing(appWeb, 3)
	uids := func(pods []corev1.Pod) (list []types.UID) {
		for _, pod := range pods {
			list = append(list, pod.UID)
		}
		slices.Sort(list)
		return list
	}
	if now := p.expectServing(appAgent, len(p.Hosts())); !slices.Equal(uids(now), uids(agents)) {
		p.t.Error("pods of the DaemonSet were replaced by the reboot")
	}
}
