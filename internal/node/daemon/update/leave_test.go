package update_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/daemon/update"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// mustWriteUpdate writes the file of an update that has begun.
func mustWriteUpdate(t *testing.T, w *sim.Windows, value map[string]any) {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	daemontest.MustWrite(t, w.Disk(), desired.State+`\update.json`, string(b))
}

// TestUpdateDoesNotRejoinLeavingHost runs the update service after the host was marked.
func TestUpdateDoesNotRejoinLeavingHost(t *testing.T) {
	for name, failure := range map[string]string{"forward": "", "back": "it does not work"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := daemontest.NewIsolated(t, "")
				w := m.Windows
				w.FailNext("stop " + api.WICDService)
				if _, err := daemontest.NewWire(w).Leave(m.Request.Cluster); err == nil {
					t.Fatal("the leave succeeded")
				}
				mustWriteUpdate(t, w, map[string]any{
					"request": m.Request, "former": m.Request, "within": "10m0s", "steady": "1m0s", "failure": failure,
				})
				daemontest.MustStop(t, w, "kubelet")
				if err := update.Update(context.Background(), w.Host(), slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
				if daemontest.Status(t, w).Joined != nil || w.Service("kubelet").State != hostapi.Stopped {
					t.Errorf("the kubelet is %s, joined: %+v", w.Service("kubelet").State, daemontest.Status(t, w).Joined)
				}
				time.Sleep(time.Hour)
				if w.Service(api.WICDUpdateService).Name != "" {
					t.Error("WICD re-created the guard")
				}
			})
		})
	}
}

// TestUpdateGuardIsNotRecreatedDuringLeave has WICD check the update service at different times between two checks of its record.
func TestUpdateGuardIsNotRecreatedDuringLeave(t *testing.T) {
	for offset := range 10 {
		synctest.Test(t, func(t *testing.T) {
			m := daemontest.NewIsolated(t, "")
			mustWriteUpdate(t, m.Windows, map[string]any{"request": m.Request, "former": m.Request})
			time.Sleep(time.Duration(offset) * time.Second)
			m.Annotate(map[string]any{api.AnnotationDesiredVersion: "2"})
			time.Sleep(time.Second)
			if m.Windows.Service(api.WICDUpdateService).Name == "" {
				t.Fatal("the guard does not exist")
			}
			m.Windows.FailNext("delete kubelet")
			if _, err := daemontest.NewWire(m.Windows).Leave(m.Request.Cluster); err == nil {
				t.Fatal("the leave succeeded")
			}
			time.Sleep(time.Minute)
			if m.Windows.Service(api.WICDUpdateService).Name != "" {
				t.Errorf("with an offset of %d s, WICD re-created the guard", offset)
			}
		})
	}
}
