package supervisor_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// serviceState returns the state of a service according to the Node.
func serviceState(t *testing.T, m *daemontest.Member, service string) string {
	t.Helper()
	node := m.Node()
	all, err := nodestate.Services(&node)
	if err != nil {
		t.Error(err)
	}
	for _, s := range all {
		if s.Name == service {
			return s.State
		}
	}
	return ""
}

func TestCrashLoopIsReportedOnNodeOnce(t *testing.T) {
	t.Parallel()
	var dies atomic.Bool
	var exits atomic.Int64
	kubelet := func(ctx context.Context, p sim.Process) uint32 {
		if !dies.Load() {
			return sim.KubeletOptions{}.Program()(ctx, p)
		}
		if f, _, err := p.Host.Disk.Append(`C:\var\log\kubelet\kubelet.log`); err == nil {
			_, _ = f.WriteString("E1121 it cannot go on\n")
			_ = f.Close()
		}
		exits.Add(1)
		return 255
	}
	m := daemontest.NewFollower(t, daemontest.Options{Windows: sim.WindowsOptions{Programs: map[string]sim.Program{"kubelet": kubelet}}})
	daemontest.Await(t, "the node reports that its services run", func() bool { return m.Condition(api.ConditionServicesHealthy).Status == corev1.ConditionTrue })
	daemontest.Await(t, "the node has their states", func() bool {
		return serviceState(t, m, "containerd") == api.ServiceRunning && serviceState(t, m, "kubelet") == api.ServiceRunning
	})
	dies.Store(true)
	m.Windows.Crash("kubelet")
	daemontest.Await(t, "the node reports that one keeps crashing", func() bool { return m.Condition(api.ConditionServicesHealthy).Status == corev1.ConditionFalse })
	daemontest.Await(t, "the node has the state of each", func() bool {
		return serviceState(t, m, "containerd") == api.ServiceRunning && serviceState(t, m, "kubelet") == api.ServiceCrashLoop
	})
	daemontest.Await(t, "there is an event", func() bool { return len(m.Events()) > 0 })
	if c := m.Condition(api.ConditionServicesHealthy); c.Reason != api.ReasonServiceCrashLoop || !strings.Contains(c.Message, "it cannot go on") {
		t.Errorf("the condition is %+v", c)
	}
	if n := len(m.Node().Status.Conditions); n < 5 {
		t.Errorf("the node has %d conditions: those of the kubelet were removed", n)
	}
	patches, annotated := m.Cluster.Count(http.MethodPatch, daemontest.NodePath+"/status"), m.Cluster.Count(http.MethodPatch, daemontest.NodePath)
	before := exits.Load()
	daemontest.Await(t, "it died again, and again", func() bool { return exits.Load() > before+2 })
	events := m.Events()
	if now := m.Cluster.Count(http.MethodPatch, daemontest.NodePath+"/status"); len(events) != 1 || now != patches {
		t.Errorf("there are %d events, and the status was patched %d times more", len(events), now-patches)
	}
	if now := m.Cluster.Count(http.MethodPatch, daemontest.NodePath); now != annotated {
		t.Errorf("the node was patched %d more times", now-annotated)
	}
	e := events[0]
	if e.Regarding.Kind != "Node" || e.Regarding.Name != "win-1" || e.Reason != api.EventServiceCrashLoop || e.Type != "Warning" ||
		e.ReportingController != api.WICDService || len(e.Note) > 1024 || !strings.Contains(e.Note, "it cannot go on") {
		t.Errorf("the event is %+v", e)
	}
}

// TestKubeProxyExitForNodeChangeIsNoCrash: kube-proxy of Kubernetes 1.37 exits with an error whenever its Node's addresses change.
func TestKubeProxyExitForNodeChangeIsNoCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *daemontest.Member
		var ends atomic.Int64
		proxy := func(ctx context.Context, _ sim.Process) uint32 {
			time.Sleep(10 * time.Second)
			for addresses := m.Node().Status.Addresses; ctx.Err() == nil; time.Sleep(time.Second) {
				if !slices.Equal(m.Node().Status.Addresses, addresses) {
					ends.Add(1)
					return 1
				}
			}
			return 0
		}
		o := sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never, Programs: map[string]sim.Program{"kube-proxy": proxy}}
		daemontest.NewFollower(t, daemontest.Options{Windows: o, Heartbeat: 5 * time.Minute, Prepare: func(joining *daemontest.Member) {
			m = joining
			node := &m.Request.Desired
			node.Services = append(node.Services, daemontest.Service("kube-proxy", desired.VersionFolder(node.Digest)+`\kubelet.exe --v=4`, "kubelet"))
		}})
		time.Sleep(5 * time.Minute)
		for i := range int64(4) { // three crashes within five minutes are a loop
			m.Cluster.Patch(daemontest.NodePath, map[string]any{"status": map[string]any{"addresses": []any{
				map[string]any{"type": "InternalIP", "address": fmt.Sprintf("192.0.2.%d", 20+i)},
			}}})
			time.Sleep(time.Minute)
			if got := ends.Load(); got != i+1 {
				t.Fatalf("after change %d of the addresses, kube-proxy has ended %d times", i+1, got)
			}
			if s := serviceState(t, m, "kube-proxy"); s != api.ServiceRunning {
				t.Errorf("after change %d, kube-proxy is %s", i+1, s)
			}
			if c := m.Condition(api.ConditionServicesHealthy); c.Status != corev1.ConditionTrue {
				t.Errorf("after change %d, the condition is %+v", i+1, c)
			}
		}
		if notes := m.Notes(api.EventServiceCrashLoop); len(notes) > 0 {
			t.Errorf("events: %q", notes)
		}
	})
}
