package daemon_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/update"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// stuckLeaving returns a node whose leave was interrupted after the host was marked, with WICD's service running.
func stuckLeaving(t *testing.T) *isolated {
	t.Helper()
	m := newIsolated(t, func(*servers.Cluster) {})
	m.windows.FailNext("stop " + api.WICDService)
	if _, err := newWire(m.windows).leave(m.request.Cluster); err == nil {
		t.Fatal("the leave succeeded")
	}
	return m
}

// TestNothingIsRestoredOrPulledOnAHostThatLeaves: the original daemon worked against its own cleanup, and settings were written to hosts that were
// being removed.
func TestNothingIsRestoredOrPulledOnAHostThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := stuckLeaving(t)
		w := m.windows
		m.publish(t, m.changed())
		for _, name := range []string{"kubelet", "containerd"} {
			if err := w.Host().Services.Stop(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		w.DeleteService("kubelet")
		mustWrite(t, w.Disk(), `C:\k\kubelet.conf`, "edited")
		w.SetVariable("HTTP_PROXY", "mine")
		before := stateOf(t, w)
		for range 3 {
			time.Sleep(20 * time.Minute)
			if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
				t.Fatalf("WICD changed a host that leaves (-want +got):\n%s", diff)
			}
			m.stop() // the same after a restart of WICD
			m.start(t)
		}
		mustWrite(t, w.Disk(), desired.State+`\node.json`, "{") // lost in a power failure
		time.Sleep(20 * time.Minute)
		if status := mustStatus(t, w); status.Joined != nil || w.Service("kubelet").Name != "" {
			t.Errorf("the kubelet is %+v, joined: %+v", w.Service("kubelet"), status.Joined)
		}
		mustJoin(t, w, m.request) // this ends the leave
		time.Sleep(20 * time.Minute)
		expectServices(t, w, m.request)
	})
}

func mustStatus(t *testing.T, w *sim.Windows) (s wicdapi.Status) {
	t.Helper()
	if err := wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandStatus, nil, &s, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAnUpdateDoesNotBringBackAHostThatLeaves runs the update service after the host was marked.
func TestAnUpdateDoesNotBringBackAHostThatLeaves(t *testing.T) {
	for name, failure := range map[string]string{"forward": "", "back": "it does not work"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := stuckLeaving(t)
				w := m.windows
				mustWriteJSON(t, w.Disk(), desired.State+`\update.json`, map[string]any{
					"request": m.request, "former": m.request, "within": "10m0s", "steady": "1m0s", "failure": failure,
				})
				if err := w.Host().Services.Stop(t.Context(), "kubelet"); err != nil {
					t.Fatal(err)
				}
				if err := update.Update(context.Background(), w.Host(), slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
				if mustStatus(t, w).Joined != nil || w.Service("kubelet").State != hostapi.Stopped {
					t.Errorf("the kubelet is %s, joined: %+v", w.Service("kubelet").State, mustStatus(t, w).Joined)
				}
				time.Sleep(time.Hour)
				if w.Service(api.WICDUpdateService).Name != "" {
					t.Error("WICD made the guard again")
				}
			})
		})
	}
}

// TestUpdateGuardIsNotRecreatedDuringLeave has WICD check the update service at different times between two checks of its record.
func TestUpdateGuardIsNotRecreatedDuringLeave(t *testing.T) {
	for offset := range 10 {
		synctest.Test(t, func(t *testing.T) {
			m := newIsolated(t, func(*servers.Cluster) {})
			mustWriteJSON(t, m.windows.Disk(), desired.State+`\update.json`, map[string]any{"request": m.request, "former": m.request})
			time.Sleep(time.Duration(offset) * time.Second)
			m.cluster.Patch(nodePath, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationDesiredVersion: "2"}}})
			time.Sleep(time.Second)
			if m.windows.Service(api.WICDUpdateService).Name == "" {
				t.Fatal("there is no guard")
			}
			m.windows.FailNext("delete kubelet")
			if _, err := newWire(m.windows).leave(m.request.Cluster); err == nil {
				t.Fatal("the leave succeeded")
			}
			time.Sleep(time.Minute)
			if m.windows.Service(api.WICDUpdateService).Name != "" {
				t.Errorf("with an offset of %d s, WICD made the guard again", offset)
			}
		})
	}
}
