//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestOperatorPod runs the operator as users do: as the pod of the unmodified deploy/, with the image that make image builds, pulled
// from a registry by a real Linux node. A Wine host joins through it.
func TestOperatorPod(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes())
	p := newHarness(t, testenv.Options{WineHosts: 1, Pod: true, Components: []string{"windows_exporter"}, Before: testenv.ServeMetrics})
	t.Run("PodIsRestricted", func(t *testing.T) { p.withT(t).checkPodRights() })
	p.joinAll()
	t.Run("PrometheusScrapesAllTargets", func(t *testing.T) {
		needs(t, lab.CanRunPrometheus())
		p.withT(t).expectScraped()
	})
	if testing.Short() {
		return // make e2e runs the rest
	}
	t.Run("OperatorRecoversFromKill", func(t *testing.T) { p.withT(t).killPod() })
	t.Run("OperatorRecoversFromRebootOfItsNode", func(t *testing.T) { p.withT(t).restartLinuxNode() })
}

// checkPodRights compares the privileges and limits of the operator's process, as the kernel reports them.
func (p harness) checkPodRights() {
	c := p.container()
	const none = "0000000000000000"
	for field, want := range map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "NoNewPrivs": "1",
		"Seccomp": "2", // a filter: RuntimeDefault
		"CapPrm":  none, "CapEff": none, "CapBnd": none, "CapInh": none, "CapAmb": none,
	} {
		if got, err := c.Status(field); err != nil || got != want {
			p.t.Errorf("%s of the operator's process: got %q (%v), want %q", field, got, err, want)
		}
	}
	if limit, err := c.Memory("memory.limit_in_bytes"); err != nil || limit != 1<<30 {
		p.t.Errorf("memory limit: got %d (%v), want 1 GiB", limit, err)
	}
	options := c.MountOptions("/")
	if _, isReadOnly := options["ro"]; !isReadOnly {
		p.t.Errorf("mount options of the root file system: got %q, want ro", options)
	}
}

// container returns the operator's container.
func (p harness) container() lab.Container {
	p.t.Helper()
	c, err := p.Pod.Container(p.t.Context())
	must(p.t, err)
	return c
}

// expectSettingsApplied changes the settings, and waits until the node of the Wine host has applied them.
func (p harness) expectSettingsApplied() {
	p.t.Helper()
	before := p.node("win-1").Annotations[api.AnnotationSettings]
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Logs.Count++ })
	p.eventually("the node has the changed settings", func(context.Context) string {
		if got := p.node("win-1").Annotations[api.AnnotationSettings]; got == before {
			return "got the former settings, " + got
		}
		return ""
	})
}

// readyPod waits until the operator's pod is Ready.
func (p harness) readyPod() *corev1.Pod {
	p.t.Helper()
	pod, err := p.Pod.WaitUntilReady(p.t.Context())
	must(p.t, err)
	return pod
}

func (p harness) killPod() {
	before := p.container()
	must(p.t, syscall.Kill(before.PID, syscall.SIGKILL))
	p.eventually("the kubelet has restarted the operator", func(ctx context.Context) string {
		pod, err := p.Pod.Running(ctx)
		if err != nil {
			return err.Error()
		}
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 1 {
			return fmt.Sprintf("got %d restarts, want 1", n)
		}
		return ""
	})
	p.expectSettingsApplied()
}

func (p harness) restartLinuxNode() {
	p.Pod.Node.PowerOff()
	must(p.t, p.Pod.Node.Boot(p.t.Context()))
	p.readyPod()
	p.expectSettingsApplied()
}

// TestOperatorUpgrade upgrades the operator's Deployment to another version, and rolls it back. The nodes must follow one at a time, without a lost
// request to their pods.
func TestOperatorUpgrade(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes())
	p := newHarness(t, testenv.Options{WineHosts: 2, Network: testenv.NetworkLab, Pod: true})
	p.joinAll()
	p.startWeb()
	p.expectServing(appWeb, 3)
	first := p.reported("win-1")
	dir, err := p.AnotherPayload("another", "kubelet.exe")
	must(t, err)
	must(t, p.Pod.Push(t.Context(), dir, "v0.2.0"))
	planned := p.expectPlanned("v0.2.0")
	watch := p.watchBudget(1)
	p.rollImage("v0.2.0", func(got string) bool { return got != first })
	if got := p.reported("win-1"); got != planned {
		t.Errorf("version of the nodes: got %s, want %s as planned", got, planned)
	}
	for _, host := range p.Lab.Hosts() {
		p.expectGuardGone(host) // otherwise the drained node would wait for it; real updates are further apart
	}
	p.rollImage("v0.1.0", func(got string) bool { return got == first })
	for _, problem := range watch.problems() {
		t.Error(problem)
	}
}

// expectPlanned checks kubectl windows plan for an upgrade to a tag of the operator's image that is not installed yet, and returns the target version.
func (p harness) expectPlanned(tag string) (version string) {
	p.t.Helper()
	plugin, err := p.Plugin(p.t.Context())
	must(p.t, err)
	_, repository, _ := strings.Cut(testenv.OperatorRepository, "/")
	image := p.Pod.Registry().Address + "/" + repository + ":" + tag
	r, err := plugin.Run(p.t.Context(), "plan", "--upgrade", "--image", image, "--insecure-registries", "-o", "json")
	must(p.t, err)
	var plan struct {
		Version string
		Steps   []struct{ Action, Disruption string }
	}
	if err := json.Unmarshal([]byte(r.Out), &plan); err != nil {
		p.t.Fatalf("%v: %s", err, r.All())
	}
	drains := 0
	for _, s := range plan.Steps {
		if s.Action == string(v1alpha1.ActionUpgrade) && s.Disruption == string(v1alpha1.DisruptionDrain) { // another kubelet
			drains++
		}
	}
	if drains != len(p.Lab.Hosts()) {
		p.t.Errorf("the plan has %d upgrades with a drain, want %d: %s", drains, len(p.Lab.Hosts()), r.Out)
	}
	return plan.Version
}

// rollImage installs a tag of the operator's image, and waits until the nodes have its version.
func (p harness) rollImage(tag string, fits func(version string) bool) {
	p.t.Helper()
	before := p.readyPod()
	traffic := p.StartTraffic(p.t.Context(), appWeb, 50*time.Millisecond)
	must(p.t, p.Pod.Upgrade(p.t.Context(), tag))
	p.expectVersion(fits)
	p.expectRolledOut()
	p.expectNoFailures(traffic)
	after := p.readyPod()
	if after.UID == before.UID || !strings.HasSuffix(after.Spec.Containers[0].Image, ":"+tag) {
		p.t.Errorf("got pod %s with image %s, want another pod with tag %s", after.UID, after.Spec.Containers[0].Image, tag)
	}
}

// TestFIPS joins a Wine host through an operator that is built with Go's certified cryptographic module, and refuses any cryptography that
// FIPS 140-3 does not approve: SSH to the host, and TLS to the API server.
func TestFIPS(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes())
	p := newHarness(t, testenv.Options{WineHosts: 1, Pod: true, FIPS: true})
	if got, err := p.container().Environment("GODEBUG"); err != nil || got != "fips140=only" {
		t.Fatalf("GODEBUG of the operator's process: got %s (%v), want fips140=only", got, err)
	}
	p.joinAll()
	p.expectSettingsApplied()
}

// TestThousandInstances joins a thousand hosts through the operator's pod, with the memory limit of deploy/.
func TestThousandInstances(t *testing.T) {
	needs(t, lab.CanRunLinuxNodes())
	const hosts = 1000
	p := newHarness(t, testenv.Options{SimulatedHosts: hosts, Pod: true})
	for _, h := range p.Hosts() {
		p.announce(h, nil)
	}
	waiting := p.instances()
	testenv.Eventually(t, 4*waitTimeout, "all instances are Ready", func(ctx context.Context) string {
		for ; len(waiting) > 0; waiting = waiting[1:] {
			var i v1alpha1.WindowsInstance
			err := p.Client.Get(ctx, client.ObjectKeyFromObject(&waiting[0]), &i)
			if err != nil || !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady) {
				return fmt.Sprintf("at most %d instances are not Ready, for example %s (%v)", len(waiting), waiting[0].Name, err)
			}
		}
		return ""
	})
	// On a busy machine, the operator can lose its Lease and be restarted. The reason must never be memory.
	if last := p.readyPod().Status.ContainerStatuses[0].LastTerminationState.Terminated; last != nil && last.Reason == "OOMKilled" {
		t.Errorf("the operator ran out of memory: %+v", last)
	}
	peak, err := p.container().Memory("memory.max_usage_in_bytes")
	must(t, err)
	t.Logf("peak memory of the pod: %d MB, including its page cache", peak/1e6)
}
