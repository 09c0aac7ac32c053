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

// TestFailureCausesAreReported induces failures of hosts, and checks that kubectl windows reports cause and remedy until the failure is fixed. TestPlugin
// covers a rejected SSH key.
func TestFailureCausesAreReported(t *testing.T) {
	reported := newPluginTest(newHarness(t, testenv.Options{}))
	for _, cause := range []struct {
		name string
		run  func(pluginTest)
	}{
		{"HostKeyChanged", otherHostKey},
		{"UnsupportedBuild", oldBuild},
		{"DrainBlockedByBudget", blockingBudget},
		{"KubeletCrashLoop", crashingKubelet},
		{"MissingGroupAccount", missingAccount},
		{"FailedCanary", failedCanary},
	} {
		t.Run(cause.name, func(t *testing.T) { cause.run(reported.withT(t)) })
	}
}

// TestMissingCloudProviderIsReported checks a node that no cloud initializes, which is reported as a failure after five minutes.
func TestMissingCloudProviderIsReported(t *testing.T) {
	p := newPluginTest(newHarness(t, testenv.Options{}))
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.CloudProvider = v1alpha1.CloudProviderExternal })
	p.expectCloudProvider(v1alpha1.CloudProviderExternal)
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "cloud"}})
	name := p.announce(h, nil)
	p.expectWaitsForCloud(name, "cloud")
	time.Sleep(join.CloudTimeout)
	p.expectReported(h.Address, "CloudNotInitialized", api.TaintUninitialized, "See the log of the cloud-controller-manager")
	p.startCloud().Set("cloud", testenv.CloudMachine("lab:///lab-a/i-1", h.Address))
	p.expectReady(name)
	p.expectNotReported("CloudNotInitialized")
}

// pluginTest is a harness with kubectl windows.
type pluginTest struct {
	harness
	plugin testenv.Plugin
}

func newPluginTest(p harness) pluginTest {
	p.t.Helper()
	plugin, err := p.Plugin(p.t.Context())
	must(p.t, err)
	return pluginTest{p, plugin}
}

func (p pluginTest) withT(t *testing.T) pluginTest {
	p.harness = p.harness.withT(t)
	return p
}

// run runs kubectl windows, and checks its exit code and parts of its output.
func (p pluginTest) run(code int, args []string, parts ...string) testenv.PluginResult {
	p.t.Helper()
	r, err := p.plugin.Run(p.t.Context(), args...)
	must(p.t, err)
	if missing := r.Missing(parts...); r.Code != code || missing != "" {
		p.t.Errorf("kubectl windows %v: exit code %d, want %d; %s", args, r.Code, code, missing)
	}
	return r
}

// expectReported waits until both the status and the description of a host contain all parts.
func (p pluginTest) expectReported(host string, parts ...string) {
	p.t.Helper()
	for _, command := range [][]string{{"status"}, {"describe", host}} {
		p.eventually(fmt.Sprintf("kubectl windows %v reports cause and remedy", command), func(ctx context.Context) string {
			r, err := p.plugin.Run(ctx, command...)
			if err != nil {
				return err.Error()
			}
			return r.Missing(parts...)
		})
	}
}

// expectNotReported waits until status no longer reports a reason.
func (p pluginTest) expectNotReported(reason string) {
	p.t.Helper()
	p.eventually("kubectl windows status no longer reports "+reason, func(ctx context.Context) string {
		r, err := p.plugin.Run(ctx, "status")
		if err == nil && r.Missing(reason) == "" {
			return "got status:\n" + r.All()
		}
		return ""
	})
}

// ready returns a simulated host that has joined.
func (p pluginTest) ready(name string) joiningHost {
	p.t.Helper()
	j := p.addHost(name, nil)
	p.expectReady(j.name)
	return j
}

func otherHostKey(p pluginTest) {
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "host-key", Build: 7601}})
	name := p.announce(h, nil)
	p.expect(name, api.ConditionSupported, api.ReasonBuildUnsupported)
	signer, _, err := sshserver.NewKey()
	must(p.t, err)
	host.SSH().SetFaults(func(int) sshserver.Fault { return sshserver.Fault{HostKey: signer} })
	p.expectReported(h.Address, "HostKeyChanged", ssh.FingerprintSHA256(signer.PublicKey()), "spec.hostKey", "reinstalled")
	host.SSH().SetFaults(nil)
	p.removeHost(name)
}

func oldBuild(p pluginTest) {
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "old", Build: 14393}})
	name := p.announce(h, nil)
	p.expectReported(h.Address, "BuildUnsupported", "14393", "Use Windows Server 2019 (build 17763), 2022 (20348) or 2025 (26100)")
	p.removeHost(name)
}

func blockingBudget(p pluginTest) {
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
	p.expectReported(j.at.Name, "DrainBlocked", "default/shop cannot be evicted: The disruption budget shop", "Add a replica to the workload")
	p.remove(budget)
	p.expectNotReported("DrainBlocked")
	p.expectRestarted(j.at.Name, before)
	p.removeHost(j.name)
}

func crashingKubelet(p pluginTest) {
	j := p.ready("crash")
	stop := p.repeat(300*time.Millisecond, func(context.Context) { j.Windows().Crash("kubelet") })
	p.expectReported(j.at.Name, "ServiceCrashLoop", "kubelet", "the last lines of the service's log")
	stop()
	p.expectNotReported("ServiceCrashLoop")
	p.removeHost(j.name)
}

func failedCanary(p pluginTest) {
	first, second := p.ready("canary-1"), p.ready("canary-2")
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Canary = &v1alpha1.CanarySpec{Count: 1, Soak: "1m"} })
	dir, err := p.AnotherPayload("canary", "kubelet.exe")
	must(p.t, err)
	for _, j := range []joiningHost{first, second} {
		j.Windows().FailNext("put kubelet")
	}
	p.restartWith(dir)
	p.expectReported(first.at.Name, `simulated failure of "put kubelet"`, "kubectl windows retry")
	p.expectReported(second.at.Name, "RolloutStopped", "kubectl windows retry")
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Canary = nil })
	p.removeHost(first.name)
	p.removeHost(second.name)
}

// removeHost removes a host, so that status shows only the next case.
func (p pluginTest) removeHost(name types.NamespacedName) {
	p.t.Helper()
	p.remove(p.instance(name))
	p.expectGone(name, &v1alpha1.WindowsInstance{})
}
