//go:build linux

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestFailureCausesAreReported makes hosts fail, for one cause after another, and expects kubectl windows to report cause and remedy, and neither once it is
// fixed. TestPlugin has a wrong key.
func TestFailureCausesAreReported(t *testing.T) {
	reported := newTeller(newPlace(t, testenv.Options{}))
	for _, cause := range []struct {
		name  string
		fails func(teller)
	}{
		{"TheHostKeyChanged", otherHostKey},
		{"TheBuildIsTooOld", oldBuild},
		{"APodDisruptionBudgetBlocks", blockingBudget},
		{"TheKubeletCrashes", crashingKubelet},
		{"AnAccountOfAPodIsMissing", missingAccount},
		{"TheCanaryFailed", failedCanary},
	} {
		t.Run(cause.name, func(t *testing.T) { cause.fails(reported.in(t)) })
	}
}

// TestMissingCloudProviderIsReported expects the cause of a node that no cloud initializes, which counts as a failure after five minutes.
func TestMissingCloudProviderIsReported(t *testing.T) {
	p := newTeller(newPlace(t, testenv.Options{}))
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.CloudProvider = v1alpha1.CloudProviderExternal })
	p.expectCloudProvider(v1alpha1.CloudProviderExternal)
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "cloud"}})
	name := p.announce(h, nil)
	p.expectWaitsForCloud(name, "cloud")
	time.Sleep(join.CloudTimeout)
	p.expectTold(h.Address, "CloudNotInitialized", api.TaintUninitialized, "See the log of the cloud-controller-manager")
	p.startCloud().Set("cloud", testenv.CloudMachine("lab:///lab-a/i-1", h.Address))
	p.expectReady(name)
	p.expectNotTold("CloudNotInitialized")
}

// teller is a place with kubectl windows.
type teller struct {
	place
	plugin testenv.Plugin
}

func newTeller(p place) teller {
	p.t.Helper()
	plugin, err := p.Plugin(p.t.Context())
	must(p.t, err)
	return teller{p, plugin}
}

func (p teller) in(t *testing.T) teller {
	p.place = p.place.in(t)
	return p
}

// run runs kubectl windows, and expects an exit code and the parts of its output.
func (p teller) run(code int, args []string, says ...string) testenv.PluginResult {
	p.t.Helper()
	r, err := p.plugin.Run(p.t.Context(), args...)
	must(p.t, err)
	if missing := r.Says(says...); r.Code != code || missing != "" {
		p.t.Errorf("kubectl windows %v: exit code %d, want %d; %s", args, r.Code, code, missing)
	}
	return r
}

// expectTold waits until both the status and the description of a host contain all parts.
func (p teller) expectTold(host string, parts ...string) {
	p.t.Helper()
	for _, command := range [][]string{{"status"}, {"describe", host}} {
		p.eventually(fmt.Sprintf("kubectl windows %v tells cause and remedy", command), func(ctx context.Context) string {
			r, err := p.plugin.Run(ctx, command...)
			if err != nil {
				return err.Error()
			}
			return r.Says(parts...)
		})
	}
}

// expectNotTold waits until status no longer reports a reason.
func (p teller) expectNotTold(reason string) {
	p.t.Helper()
	p.eventually("kubectl windows does not tell "+reason, func(ctx context.Context) string {
		r, err := p.plugin.Run(ctx, "status")
		if err == nil && r.Says(reason) == "" {
			return "status tells it:\n" + r.All()
		}
		return ""
	})
}

// ready is a simulated host that has joined.
func (p teller) ready(name string) joiner {
	p.t.Helper()
	j := p.joiner(name, nil)
	p.expectReady(j.name)
	return j
}

func otherHostKey(p teller) {
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "host-key", Build: 7601}})
	name := p.announce(h, nil)
	p.expect(name, api.ConditionSupported, api.ReasonBuildUnsupported)
	signer, _, err := sshserver.NewKey()
	must(p.t, err)
	host.SSH().SetFaults(func(int) sshserver.Fault { return sshserver.Fault{HostKey: signer} })
	p.expectTold(h.Address, "HostKeyChanged", ssh.FingerprintSHA256(signer.PublicKey()), "spec.hostKey", "reinstalled")
	host.SSH().SetFaults(nil)
	p.leaves(name)
}

func oldBuild(p teller) {
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "old", Build: 14393}})
	name := p.announce(h, nil)
	p.expectTold(h.Address, "BuildUnsupported", "14393", "Use Windows Server 2019 (build 17763), 2022 (20348) or 2025 (26100)")
	p.leaves(name)
}

func blockingBudget(p teller) {
	j := p.ready("budget")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "shop", Labels: map[string]string{"app": "shop"}},
		Spec: corev1.PodSpec{
			NodeName: j.at.Name, TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "shop", Image: "shop"}},
		},
	}
	p.create(pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	must(p.t, p.Client.Status().Update(p.t.Context(), pod))
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "shop"}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}}
	p.create(budget)
	before := p.node(j.at.Name).Status.NodeInfo.BootID
	p.annotateNode(j.at.Name, api.AnnotationReboot, "")
	p.expectTold(j.at.Name, "DrainBlocked", "default/shop cannot be evicted: The disruption budget shop", "Add a replica to the workload")
	p.remove(budget)
	p.expectNotTold("DrainBlocked")
	p.expectRestarted(j.at.Name, before)
	p.leaves(j.name)
}

func crashingKubelet(p teller) {
	j := p.ready("crash")
	stop := p.repeat(300*time.Millisecond, func(context.Context) { j.Windows().Crash("kubelet") })
	p.expectTold(j.at.Name, "ServiceCrashLoop", "kubelet", "the last lines of the service's log")
	stop()
	p.expectNotTold("ServiceCrashLoop")
	p.leaves(j.name)
}

func failedCanary(p teller) {
	first, second := p.ready("canary-1"), p.ready("canary-2")
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Canary = &v1alpha1.CanarySpec{Count: 1, Soak: "1m"} })
	dir, err := p.AnotherPayload("canary", "kubelet.exe")
	must(p.t, err)
	for _, j := range []joiner{first, second} {
		j.Windows().FailNext("put kubelet")
	}
	p.restartWith(dir)
	p.expectTold(first.at.Name, `simulated failure of "put kubelet"`, "kubectl windows retry")
	p.expectTold(second.at.Name, "RolloutStopped", "kubectl windows retry")
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Canary = nil })
	p.leaves(first.name)
	p.leaves(second.name)
}

// leaves removes a host, so that status shows only the next case.
func (p teller) leaves(name types.NamespacedName) {
	p.t.Helper()
	p.remove(p.instance(name))
	p.expectGone(name, &v1alpha1.WindowsInstance{})
}
