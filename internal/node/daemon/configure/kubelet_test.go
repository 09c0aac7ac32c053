package configure_test

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
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
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

// newKubeletHost returns a node with the default kubelet configuration.
func newKubeletHost(t *testing.T, o sim.WindowsOptions) *daemontest.Member {
	t.Helper()
	o.NoQuirks = "each restart is expected"
	return daemontest.NewFollower(t, daemontest.Options{Windows: o, Heartbeat: time.Minute, Prepare: func(m *daemontest.Member) {
		m.Request.Desired = withKubelet(t, m.Request.Desired, v1alpha1.KubeletSpec{})
	}})
}

// follow publishes the kubelet configuration for a spec, and waits until the node has followed.
func follow(t *testing.T, m *daemontest.Member, spec v1alpha1.KubeletSpec) {
	t.Helper()
	m.Follow(t, withKubelet(t, m.Request.Desired, spec))
	time.Sleep(time.Minute)
}

// expectKubelet checks the kubelet's configured values, and the node's condition for held settings.
func expectKubelet(t *testing.T, m *daemontest.Member, when string, want map[string]any, reason string, message ...string) {
	t.Helper()
	synctest.Wait()
	content, err := m.Windows.Disk().Read(kubeletConf)
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
	node, c := m.Node(), m.Condition(api.ConditionKubeletSettingsHeld)
	if healthy := m.Condition(api.ConditionServicesHealthy); !nodestate.IsReady(&node) || healthy.Status == corev1.ConditionFalse {
		t.Errorf("%s: the node is Ready: %v, and its services are %+v", when, nodestate.IsReady(&node), healthy)
	}
	if held := reason == api.ReasonKubeletSettingsUnsuitable || reason == api.ReasonKubeletSettingsAwaitRestart; c.Reason != reason || held != (c.Status == corev1.ConditionTrue) {
		t.Errorf("%s: the condition is %+v, want reason %q", when, c, reason)
	}
	daemontest.ExpectContains(t, c.Message, message...)
}

func TestOversizedReservationsAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newKubeletHost(t, sim.WindowsOptions{MemoryBytes: 8 << 30, Processors: 2})
		expectKubelet(t, m, "at first", map[string]any{"kubeReserved": nil, "systemReserved": "2Gi"}, "")
		before := m.PIDs()

		follow(t, m, v1alpha1.KubeletSpec{MaxPods: 9, KubeReserved: map[string]string{"memory": "6Gi"}})
		expectKubelet(t, m, "too much memory", map[string]any{"kubeReserved": nil, "systemReserved": "2Gi", "maxPods": 9.0},
			api.ReasonKubeletSettingsUnsuitable, "8692 MiB", "8192 MiB", `kubeReserved "6Gi"`)
		if m.PIDs()["kubelet"] == before["kubelet"] {
			t.Error("the kubelet lacks the other setting")
		}
		if c := m.Condition(api.ConditionNodeRebootRequired); c.Status == corev1.ConditionTrue {
			t.Errorf("a restart that does not help is reported: %s", c.Message)
		}

		follow(t, m, v1alpha1.KubeletSpec{SystemReserved: map[string]string{"cpu": "2500m", "memory": "1Gi"}})
		expectKubelet(t, m, "too many processors", map[string]any{"systemReserved": "2Gi"}, api.ReasonKubeletSettingsUnsuitable, "2500m", "has 2")
		m.Restart(t)
		expectKubelet(t, m, "after a restart", map[string]any{"systemReserved": "2Gi"}, api.ReasonKubeletSettingsUnsuitable, "2500m", "has 2")

		follow(t, m, v1alpha1.KubeletSpec{KubeReserved: map[string]string{"ephemeral-storage": "10Ti"}})
		expectKubelet(t, m, "too much of the drive", map[string]any{"kubeReserved": nil}, api.ReasonKubeletSettingsUnsuitable, `kubeReserved "10Ti"`, "has 102400 MiB")

		follow(t, m, v1alpha1.KubeletSpec{KubeReserved: map[string]string{"memory": "5Gi"}})
		expectKubelet(t, m, "what the machine has", map[string]any{"kubeReserved": "5Gi"}, api.ReasonKubeletSettingsInForce)
	})
}

func TestJoinRejectsOversizedReservations(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{MemoryBytes: 8 << 30})
	r.Desired = withKubelet(t, r.Desired, v1alpha1.KubeletSpec{KubeReserved: map[string]string{"memory": "64Gi"}})
	if _, err := daemontest.NewWire(w).Join(r); err == nil || !strings.Contains(err.Error(), `kubeReserved "64Gi"`) || !strings.Contains(err.Error(), "has 8192 MiB") {
		t.Errorf("join() = %v", err)
	}
	if w.Disk().Exists(kubeletConf) {
		t.Error("the join changed the host before it failed")
	}
}

func TestKubeletManagersTakeEffectAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newKubeletHost(t, sim.WindowsOptions{})
		static := v1alpha1.KubeletSpec{CPUManagerPolicy: v1alpha1.CPUManagerStatic}
		both := v1alpha1.KubeletSpec{
			CPUManagerPolicy: v1alpha1.CPUManagerStatic, MemoryManagerPolicy: v1alpha1.MemoryManagerBestEffort, KubeReserved: map[string]string{"memory": "1Gi"},
		}
		const waits = api.ReasonKubeletSettingsAwaitRestart

		follow(t, m, static)
		expectKubelet(t, m, "policy", map[string]any{"cpuManagerPolicy": nil}, waits, "kubectl windows reboot")
		time.Sleep(11 * time.Minute) // pending restarts are checked every ten
		if c := m.Condition(api.ConditionNodeRebootRequired); c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "spec.kubelet") {
			t.Errorf("the node has a pending restart, but its condition is %+v", c)
		}
		m.Stop() // a restart of WICD alone does not apply it either
		m.Start(t)
		time.Sleep(time.Minute)
		expectKubelet(t, m, "WICD starts again", map[string]any{"cpuManagerPolicy": nil}, waits)
		m.Restart(t)
		expectKubelet(t, m, "policy, after a restart", map[string]any{"cpuManagerPolicy": "static"}, api.ReasonKubeletSettingsInForce)
		if c := m.Condition(api.ConditionNodeRebootRequired); c.Status == corev1.ConditionTrue {
			t.Errorf("the node still has a pending restart: %+v", c)
		}

		follow(t, m, both)
		expectKubelet(t, m, "another policy", map[string]any{"memoryManagerPolicy": nil, "kubeReserved": nil}, waits)
		m.Restart(t)
		expectKubelet(t, m, "another policy, after a restart", map[string]any{"memoryManagerPolicy": "BestEffort", "kubeReserved": "1Gi"}, api.ReasonKubeletSettingsInForce)

		more := both
		more.KubeReserved = map[string]string{"memory": "2Gi"}
		follow(t, m, more)
		expectKubelet(t, m, "another reservation", map[string]any{"kubeReserved": "1Gi"}, waits)
		m.Restart(t)
		expectKubelet(t, m, "another reservation, after a restart", map[string]any{"kubeReserved": "2Gi"}, api.ReasonKubeletSettingsInForce)

		if b, err := m.Windows.Disk().Read(memoryState); err != nil || !strings.Contains(string(b), "4819255296") { // 4Gi and 500Mi
			t.Errorf("the kubelet's state of memory is %s, %v", b, err)
		}
		daemontest.MustWrite(t, m.Windows.Disk(), cpuState, "of no use")
		follow(t, m, v1alpha1.KubeletSpec{})
		expectKubelet(t, m, "turned off", map[string]any{"cpuManagerPolicy": nil, "memoryManagerPolicy": nil, "kubeReserved": nil}, api.ReasonKubeletSettingsInForce)
		follow(t, m, both)
		m.Restart(t)
		expectKubelet(t, m, "turned on again", map[string]any{"cpuManagerPolicy": "static"}, api.ReasonKubeletSettingsInForce)
		daemontest.ExpectContent(t, m.Windows.Disk(), cpuState, `{"policyName":"static","reserved":"500m"}`)
	})
}

// TestKubeletManagersWaitForCertainRestart has a Windows that does not report its boot ID.
func TestKubeletManagersWaitForCertainRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unread := sim.Quirks{Servicing: sim.ServicingQuirks{Unread: []string{wicdapi.FactBootID}}}
		m := newKubeletHost(t, sim.WindowsOptions{Quirks: unread})
		follow(t, m, v1alpha1.KubeletSpec{CPUManagerPolicy: v1alpha1.CPUManagerStatic})
		m.Restart(t)
		expectKubelet(t, m, "after a restart", map[string]any{"cpuManagerPolicy": nil}, api.ReasonKubeletSettingsAwaitRestart)
	})
}
