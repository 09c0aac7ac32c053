package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

const eventsPath = "/apis/events.k8s.io/v1/namespaces/default/events"

// mortal is a kubelet that crashes on command, and logs why.
type mortal struct {
	dies   atomic.Bool
	deaths atomic.Int64
}

func (m *mortal) program(ctx context.Context, p sim.Process) uint32 {
	if !m.dies.Load() {
		return sim.KubeletOptions{}.Program()(ctx, p)
	}
	if f, _, err := p.Host.Disk.Append(`C:\var\log\kubelet\kubelet.log`); err == nil {
		_, _ = f.WriteString("E1121 it cannot go on\n")
		_ = f.Close()
	}
	m.deaths.Add(1)
	return 255
}

func (m *member) condition() corev1.NodeCondition {
	return m.conditionOf(api.ConditionServicesHealthy)
}

func (m *member) conditionOf(kind corev1.NodeConditionType) (c corev1.NodeCondition) {
	for _, c := range m.node().Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return c
}

// stateOf returns the state of a service according to the Node.
func (m *member) stateOf(t *testing.T, service string) string {
	t.Helper()
	node := m.node()
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

func (m *member) events() (events []eventsv1.Event) {
	for _, path := range m.cluster.Paths() {
		var e eventsv1.Event
		if strings.HasPrefix(path, eventsPath) && m.cluster.Get(path, &e) {
			events = append(events, e)
		}
	}
	return events
}

func TestCrashLoopIsReportedOnNodeOnce(t *testing.T) {
	t.Parallel()
	kubelet := &mortal{}
	m := newMemberWith(t, func(*servers.Cluster) {}, kubelet.program)
	m.giveRange(t)
	m.awaitVersion(t)
	m.await(t, "the node says that its services run", func() bool { return m.condition().Status == corev1.ConditionTrue })
	m.await(t, "the node has their states", func() bool {
		return m.stateOf(t, "containerd") == api.ServiceRunning && m.stateOf(t, "kubelet") == api.ServiceRunning
	})
	kubelet.dies.Store(true)
	m.windows.Crash("kubelet")
	m.await(t, "the node says that one keeps dying", func() bool { return m.condition().Status == corev1.ConditionFalse })
	m.await(t, "the node has the state of each", func() bool {
		return m.stateOf(t, "containerd") == api.ServiceRunning && m.stateOf(t, "kubelet") == api.ServiceCrashLoop
	})
	m.await(t, "there is an event", func() bool { return len(m.events()) > 0 })
	if c := m.condition(); c.Reason != api.ReasonServiceCrashLoop || !strings.Contains(c.Message, "it cannot go on") {
		t.Errorf("the condition is %+v", c)
	}
	if n := len(m.node().Status.Conditions); n < 5 {
		t.Errorf("the node has %d conditions: those of the kubelet are gone", n)
	}
	patches, annotated := m.cluster.Count(http.MethodPatch, nodePath+"/status"), m.cluster.Count(http.MethodPatch, nodePath)
	deaths := kubelet.deaths.Load()
	m.await(t, "it died again, and again", func() bool { return kubelet.deaths.Load() > deaths+2 })
	events := m.events()
	if now := m.cluster.Count(http.MethodPatch, nodePath+"/status"); len(events) != 1 || now != patches {
		t.Errorf("there are %d events, and the status was patched %d times more", len(events), now-patches)
	}
	if now := m.cluster.Count(http.MethodPatch, nodePath); now != annotated {
		t.Errorf("the node was patched %d times more", now-annotated)
	}
	e := events[0]
	if e.Regarding.Kind != "Node" || e.Regarding.Name != "win-1" || e.Reason != api.EventServiceCrashLoop || e.Type != "Warning" ||
		e.ReportingController != api.WICDService || len(e.Note) > 1024 || !strings.Contains(e.Note, "it cannot go on") {
		t.Errorf("the event is %+v", e)
	}
}

// Roles may be older than the daemon: a report that they do not allow must not stop its work.
func TestVersionIsReportedWithoutHealth(t *testing.T) {
	t.Parallel()
	m := newMember(t, func(c *servers.Cluster) { c.Forbid(api.WICDUserPrefix, http.MethodPatch, nodePath+"/status") })
	m.giveRange(t)
	m.awaitVersion(t)
	if m.condition().Type != "" {
		t.Error("the refused condition is there")
	}
}

// TestAKubeProxyThatEndsForItsNodeIsNoCrash: kube-proxy of Kubernetes 1.37 exits with an error whenever its Node's addresses change.
func TestAKubeProxyThatEndsForItsNodeIsNoCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlaidWith(t, 1, func(o *overlaid) { o.follows = true })
		o.awaitVersion(t)
		time.Sleep(5 * time.Minute)
		for i := range int64(4) { // three crashes within five minutes are a loop
			o.cluster.Patch(nodePath, map[string]any{"status": map[string]any{"addresses": []any{
				map[string]any{"type": "InternalIP", "address": fmt.Sprintf("192.0.2.%d", 20+i)},
			}}})
			time.Sleep(time.Minute)
			if got := o.ends.Load(); got != i+1 {
				t.Fatalf("after change %d of the addresses, kube-proxy has ended %d times", i+1, got)
			}
			if s := o.stateOf(t, "kube-proxy"); s != api.ServiceRunning {
				t.Errorf("after change %d, kube-proxy is %s", i+1, s)
			}
			if c := o.member.condition(); c.Status != corev1.ConditionTrue {
				t.Errorf("after change %d, the condition is %+v", i+1, c)
			}
		}
		for _, e := range o.events() {
			if e.Reason == api.EventServiceCrashLoop {
				t.Errorf("there is the event %s", e.Note)
			}
		}
	})
}
