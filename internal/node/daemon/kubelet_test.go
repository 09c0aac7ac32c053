package daemon_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
	"github.com/windows-machine-config/wmco/payload"
)

const (
	kubeletConf = `C:\k\kubelet.conf`
	cpuState    = `C:\var\lib\kubelet\cpu_manager_state`
	memoryState = `C:\var\lib\kubelet\memory_manager_state`
)

// withKubelet returns a declaration with the kubelet configuration for a spec.
func withKubelet(t *testing.T, n desired.Node, spec v1alpha1.KubeletSpec) desired.Node {
	t.Helper()
	rendered, err := desired.Render(desired.Inputs{
		Version: n.Version, Payload: payload.Manifest{Digest: n.Digest}, Cluster: desired.Cluster{
			Server: "https://api.example:6443", ServiceCIDRs: []string{"10.96.0.0/16"}, DNSServers: []string{"10.96.0.10"}, Domain: "cluster.local",
		},
		Config: v1alpha1.WindowsConfigSpec{Kubelet: spec, Network: v1alpha1.NetworkSpec{
			Provider: v1alpha1.NetworkCustom, Custom: &v1alpha1.CustomNetwork{CNIConfig: `{"name":"n","type":"t"}`},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Files = slices.Clone(n.Files)
	isConf := func(f desired.File) bool { return f.Path == kubeletConf }
	n.Files[slices.IndexFunc(n.Files, isConf)] = rendered.Node.Files[slices.IndexFunc(rendered.Node.Files, isConf)]
	return n
}

// newKubeletHost returns a node with the kubelet configuration for a spec.
func newKubeletHost(t *testing.T, o sim.WindowsOptions, spec v1alpha1.KubeletSpec) *member {
	t.Helper()
	cluster, err := servers.NewIsolatedCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c := newCargo("1")
	m := &member{cluster: cluster, request: newMemberRequest(cluster, c), stop: func() {}}
	m.request.Desired = withKubelet(t, m.request.Desired, spec)
	o.Kind, o.Dial, o.RestartDelay = "each restart is expected", cluster.Dial, 100*time.Millisecond
	o.Programs = map[string]sim.Program{"kubelet": sim.KubeletOptions{Heartbeat: time.Minute}.Program()}
	m.windows = newWindows(t, o)
	mustSend(t, m.windows, c)
	mustJoin(t, m.windows, m.request)
	t.Cleanup(func() { m.stop() })
	m.start(t)
	m.giveRange(t)
	m.awaitVersion(t)
	return m
}

// settle publishes the kubelet configuration for a spec, and waits until the node has followed.
func (m *member) settle(t *testing.T, spec v1alpha1.KubeletSpec) {
	t.Helper()
	node := withKubelet(t, m.request.Desired, spec)
	m.publish(t, node)
	m.awaitSettings(t, node)
	time.Sleep(time.Minute)
}

// expectKubelet checks the kubelet's configured values, and the node's condition for held settings.
func (m *member) expectKubelet(t *testing.T, when string, want map[string]any, reason string, says ...string) {
	t.Helper()
	synctest.Wait()
	content, err := m.windows.Disk().Read(kubeletConf)
	if err != nil {
		t.Fatal(err)
	}
	var current map[string]any
	if err := json.Unmarshal(content, &current); err != nil {
		t.Fatal(err)
	}
	for field, value := range want {
		got := current[field]
		if inner, isMap := got.(map[string]any); isMap {
			got = inner["memory"]
		}
		if got != value {
			t.Errorf("%s: field %s of the kubelet is %v, want %v", when, field, got, value)
		}
	}
	node, c := m.node(), m.conditionOf(api.ConditionKubeletSettingsHeld)
	if healthy := m.condition(); !nodestate.IsReady(&node) || healthy.Status == corev1.ConditionFalse {
		t.Errorf("%s: the node is Ready: %v, and its services are %+v", when, nodestate.IsReady(&node), healthy)
	}
	if held := reason == api.ReasonKubeletSettingsUnsuitable || reason == api.ReasonKubeletSettingsAwaitRestart; c.Reason != reason || held != (c.Status == corev1.ConditionTrue) {
		t.Errorf("%s: the condition is %+v, want reason %q", when, c, reason)
	}
	for _, text := range says {
		if !strings.Contains(c.Message, text) {
			t.Errorf("%s: the condition says %q, want %s", when, c.Message, text)
		}
	}
}

func TestReservationsAboveTheMachineAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newKubeletHost(t, sim.WindowsOptions{MemoryBytes: 8 << 30, Processors: 2}, v1alpha1.KubeletSpec{})
		m.expectKubelet(t, "at first", map[string]any{"kubeReserved": nil, "systemReserved": "2Gi"}, "")
		before := m.pids()

		m.settle(t, v1alpha1.KubeletSpec{MaxPods: 9, KubeReserved: map[string]string{"memory": "6Gi"}})
		m.expectKubelet(t, "too much memory", map[string]any{"kubeReserved": nil, "systemReserved": "2Gi", "maxPods": 9.0},
			api.ReasonKubeletSettingsUnsuitable, "8692 MiB", "8192 MiB", `kubeReserved "6Gi"`)
		if m.pids()["kubelet"] == before["kubelet"] {
			t.Error("the kubelet did not get the other setting")
		}
		if c := m.conditionOf(api.ConditionNodeRebootRequired); c.Status == corev1.ConditionTrue {
			t.Errorf("a restart is asked for, which does not help: %s", c.Message)
		}

		m.settle(t, v1alpha1.KubeletSpec{SystemReserved: map[string]string{"cpu": "2500m", "memory": "1Gi"}})
		m.expectKubelet(t, "too many processors", map[string]any{"systemReserved": "2Gi"}, api.ReasonKubeletSettingsUnsuitable, "2500m", "has 2")
		m.restart(t)
		m.expectKubelet(t, "after a restart", map[string]any{"systemReserved": "2Gi"}, api.ReasonKubeletSettingsUnsuitable, "2500m", "has 2")

		m.settle(t, v1alpha1.KubeletSpec{KubeReserved: map[string]string{"memory": "5Gi"}})
		m.expectKubelet(t, "what the machine has", map[string]any{"kubeReserved": "5Gi"}, api.ReasonKubeletSettingsInForce)
	})
}

func TestNoHostJoinsWithReservationsAboveIt(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{MemoryBytes: 8 << 30}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired = withKubelet(t, r.Desired, v1alpha1.KubeletSpec{KubeReserved: map[string]string{"memory": "64Gi"}})
	if _, err := newWire(w).join(r); err == nil || !strings.Contains(err.Error(), `kubeReserved "64Gi"`) || !strings.Contains(err.Error(), "has 8192 MiB") {
		t.Errorf("join() = %v", err)
	}
	if w.Disk().Exists(kubeletConf) {
		t.Error("the join changed the host before it failed")
	}
}

func TestManagersOfTheKubeletTakeEffectWithARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newKubeletHost(t, sim.WindowsOptions{}, v1alpha1.KubeletSpec{})
		static := v1alpha1.KubeletSpec{CPUManagerPolicy: v1alpha1.CPUManagerStatic}
		both := v1alpha1.KubeletSpec{
			CPUManagerPolicy: v1alpha1.CPUManagerStatic, MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, KubeReserved: map[string]string{"memory": "1Gi"},
		}
		const waits = api.ReasonKubeletSettingsAwaitRestart

		m.settle(t, static)
		m.expectKubelet(t, "policy", map[string]any{"cpuManagerPolicy": nil}, waits, "kubectl windows reboot")
		time.Sleep(restartLook + time.Second)
		if c := m.conditionOf(api.ConditionNodeRebootRequired); c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "spec.kubelet") {
			t.Errorf("the node waits for a restart, and its condition is %+v", c)
		}
		m.stop() // a restart of WICD alone does not apply it either
		m.start(t)
		time.Sleep(time.Minute)
		m.expectKubelet(t, "WICD starts again", map[string]any{"cpuManagerPolicy": nil}, waits)
		m.restart(t)
		m.expectKubelet(t, "policy, after a restart", map[string]any{"cpuManagerPolicy": "static"}, api.ReasonKubeletSettingsInForce)
		if c := m.conditionOf(api.ConditionNodeRebootRequired); c.Status == corev1.ConditionTrue {
			t.Errorf("the node still waits for a restart: %+v", c)
		}

		m.settle(t, both)
		m.expectKubelet(t, "another policy", map[string]any{"memoryManagerPolicy": nil, "kubeReserved": nil}, waits)
		m.restart(t)
		m.expectKubelet(t, "another policy, after a restart", map[string]any{"memoryManagerPolicy": "BestEffort", "kubeReserved": "1Gi"}, api.ReasonKubeletSettingsInForce)

		more := both
		more.KubeReserved = map[string]string{"memory": "2Gi"}
		m.settle(t, more)
		m.expectKubelet(t, "another reservation", map[string]any{"kubeReserved": "1Gi"}, waits)
		m.restart(t)
		m.expectKubelet(t, "another reservation, after a restart", map[string]any{"kubeReserved": "2Gi"}, api.ReasonKubeletSettingsInForce)

		if b, err := m.windows.Disk().Read(memoryState); err != nil || !strings.Contains(string(b), "4819255296") { // 4Gi and 500Mi
			t.Errorf("the kubelet's state of memory is %s, %v", b, err)
		}
		mustWrite(t, m.windows.Disk(), cpuState, "of no use")
		m.settle(t, v1alpha1.KubeletSpec{})
		m.expectKubelet(t, "turned off", map[string]any{"cpuManagerPolicy": nil, "memoryManagerPolicy": nil, "kubeReserved": nil}, api.ReasonKubeletSettingsInForce)
		m.settle(t, both)
		m.restart(t)
		m.expectKubelet(t, "turned on again", map[string]any{"cpuManagerPolicy": "static"}, api.ReasonKubeletSettingsInForce)
		expectContent(t, m.windows.Disk(), cpuState, `{"policyName":"static","reserved":"500m"}`)
	})
}

// TestManagersAwaitAStartThatIsSure has a Windows that does not report its boot ID.
func TestManagersAwaitAStartThatIsSure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unread := sim.Quirks{Servicing: sim.ServicingQuirks{Unread: []string{wicdapi.FactBootID}}}
		m := newKubeletHost(t, sim.WindowsOptions{Quirks: unread}, v1alpha1.KubeletSpec{})
		m.settle(t, v1alpha1.KubeletSpec{CPUManagerPolicy: v1alpha1.CPUManagerStatic})
		m.restart(t)
		m.expectKubelet(t, "after a restart", map[string]any{"cpuManagerPolicy": nil}, api.ReasonKubeletSettingsAwaitRestart)
	})
}
