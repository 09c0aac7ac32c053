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

// TestOperatorPod runs the operator as users do: the image that make image builds, pulled from a registry by a real Linux node, as the
// pod of the unmodified deploy/. A Wine host joins through it.
func TestOperatorPod(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes())
	p := newPlace(t, testenv.Options{WineHosts: 1, Pod: true, Components: []string{"windows_exporter"}, Before: testenv.ServeMetrics})
	t.Run("ItHasOnlyTheRightsItNeeds", func(t *testing.T) { p.in(t).checkPodRights() })
	p.joinAll()
	t.Run("PrometheusScrapesEverything", func(t *testing.T) {
		needs(t, lab.CanRunPrometheus())
		p.in(t).expectScraped()
	})
	if testing.Short() {
		return // the rest is for make e2e
	}
	t.Run("ItWorksAgainAfterAKill", func(t *testing.T) { p.in(t).killPod() })
	t.Run("ItWorksAgainAfterItsNodeRestarted", func(t *testing.T) { p.in(t).restartLinuxNode() })
}

// checkPodRights reads the permissions of the operator's process from the kernel.
func (p place) checkPodRights() {
	c := p.container()
	const none = "0000000000000000"
	for field, want := range map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "NoNewPrivs": "1",
		"Seccomp": "2", // a filter: RuntimeDefault
		"CapPrm":  none, "CapEff": none, "CapBnd": none, "CapInh": none, "CapAmb": none,
	} {
		if got, err := c.Status(field); err != nil || got != want {
			p.t.Errorf("%s of the operator's process is %q (%v), want %q", field, got, err, want)
		}
	}
	if limit, err := c.Memory("memory.limit_in_bytes"); err != nil || limit != 1<<30 {
		p.t.Errorf("the memory limit is %d (%v), want 1 GiB", limit, err)
	}
	options := c.MountOptions("/")
	if _, isReadOnly := options["ro"]; !isReadOnly {
		p.t.Errorf("the root file system is mounted %q, want it read-only", options)
	}
}

// container returns the operator's container.
func (p place) container() lab.Container {
	p.t.Helper()
	c, err := p.Pod.Container(p.t.Context())
	must(p.t, err)
	return c
}

// expectFollowed changes the settings, and waits until the node of the Wine host has them.
func (p place) expectFollowed() {
	p.t.Helper()
	before := p.node("win-1").Annotations[api.AnnotationSettings]
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Logs.Count++ })
	p.eventually("the node has the changed settings", func(context.Context) string {
		if got := p.node("win-1").Annotations[api.AnnotationSettings]; got == before {
			return "they are still " + got
		}
		return ""
	})
}

// readyPod waits until the operator's pod is Ready.
func (p place) readyPod() *corev1.Pod {
	p.t.Helper()
	pod, err := p.Pod.WaitUntilReady(p.t.Context())
	must(p.t, err)
	return pod
}

func (p place) killPod() {
	before := p.container()
	must(p.t, syscall.Kill(before.PID, syscall.SIGKILL))
	p.eventually("the kubelet has restarted the operator", func(ctx context.Context) string {
		pod, err := p.Pod.Running(ctx)
		if err != nil {
			return err.Error()
		}
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 1 {
			return fmt.Sprintf("it was restarted %d times", n)
		}
		return ""
	})
	p.expectFollowed()
}

func (p place) restartLinuxNode() {
	p.Pod.Node.PowerOff()
	must(p.t, p.Pod.Node.Boot(p.t.Context()))
	p.readyPod()
	p.expectFollowed()
}

// TestOperatorUpgrade replaces the operator by another version, as its Deployment does, and goes back to the first. The nodes follow one at
// a time, and no request to their pods is lost.
func TestOperatorUpgrade(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes())
	p := newPlace(t, testenv.Options{WineHosts: 2, Network: testenv.NetworkLab, Pod: true})
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
		t.Errorf("the nodes have version %s; the plan said %s", got, planned)
	}
	for _, host := range p.Lab.Hosts() {
		p.expectGuardGone(host) // otherwise the node waits for it while drained: real updates are further apart
	}
	p.rollImage("v0.1.0", func(got string) bool { return got == first })
	for _, problem := range watch.problems() {
		t.Error(problem)
	}
}

// expectPlanned has kubectl windows plan the upgrade of two nodes to a tag of the operator's image that is not installed yet, and returns the target
// version.
func (p place) expectPlanned(tag string) (version string) {
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
		p.t.Errorf("the plan has %d upgrades with a drain: %s", drains, r.Out)
	}
	return plan.Version
}

// rollImage installs a tag of the operator's image, and waits until the nodes have its version.
func (p place) rollImage(tag string, fits func(version string) bool) {
	p.t.Helper()
	before := p.readyPod()
	traffic := p.StartTraffic(p.t.Context(), appWeb, 50*time.Millisecond)
	must(p.t, p.Pod.Upgrade(p.t.Context(), tag))
	p.expectVersion(fits)
	p.expectRolledOut()
	p.expectNoFailures(traffic)
	after := p.readyPod()
	if after.UID == before.UID || !strings.HasSuffix(after.Spec.Containers[0].Image, ":"+tag) {
		p.t.Errorf("the pod is %s with image %s", after.UID, after.Spec.Containers[0].Image)
	}
}

// TestFIPS joins a Wine host through an operator that is built with Go's certified cryptographic module, and refuses any cryptography that
// FIPS 140-3 does not approve: SSH to the host, and TLS to the API server.
func TestFIPS(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes())
	p := newPlace(t, testenv.Options{WineHosts: 1, Pod: true, FIPS: true})
	if got, err := p.container().Environment("GODEBUG"); err != nil || got != "fips140=only" {
		t.Fatalf("the operator's process has GODEBUG=%s (%v)", got, err)
	}
	p.joinAll()
	p.expectFollowed()
}

// TestThousandInstances joins a thousand hosts through the operator's pod, with the memory limit of deploy/.
func TestThousandInstances(t *testing.T) {
	needs(t, lab.CanRunLinuxNodes())
	const hosts = 1000
	p := newPlace(t, testenv.Options{SimulatedHosts: hosts, Pod: true})
	for _, h := range p.Hosts() {
		p.announce(h, nil)
	}
	waiting := p.instances()
	testenv.Eventually(t, 4*patience, "all instances are Ready", func(ctx context.Context) string {
		for ; len(waiting) > 0; waiting = waiting[1:] {
			var i v1alpha1.WindowsInstance
			err := p.Client.Get(ctx, client.ObjectKeyFromObject(&waiting[0]), &i)
			if err != nil || !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady) {
				return fmt.Sprintf("at most %d are not, %s among them (%v)", len(waiting), waiting[0].Name, err)
			}
		}
		return ""
	})
	// On a machine that is busy for long, the operator can lose its Lease, and is restarted. The reason must never be memory.
	if last := p.readyPod().Status.ContainerStatuses[0].LastTerminationState.Terminated; last != nil && last.Reason == "OOMKilled" {
		t.Errorf("the operator had not enough memory: %+v", last)
	}
	peak, err := p.container().Memory("memory.max_usage_in_bytes")
	must(t, err)
	t.Logf("the pod had at most %d MB of memory, which includes files that it read", peak/1e6)
}
