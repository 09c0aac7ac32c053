package daemon_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestNodeKeepsServingOnFullDisk fills the disk at each change that a new setting makes. The node continues with what it has, logs the problem,
// and follows once there is room.
func TestNodeKeepsServingOnFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, daemontest.TimingMeasured)
		w := m.Windows
		node := m.Changed()
		node.Files[0].Content = `{"maxPods": 64}`
		node.Services = slices.Clone(node.Services)
		node.Services[0].Command += " --log-level debug"
		for room := 0; ; room++ {
			m.Follow(t, m.Request.Desired)
			w.FillDisk(room)
			m.Publish(t, node)
			time.Sleep(time.Minute)
			before := m.PIDs()
			time.Sleep(5 * time.Minute)
			if now := m.PIDs(); !maps.Equal(now, before) {
				t.Errorf("room for %d files: services restart repeatedly: %v, then %v", room, before, now)
			}
			for _, name := range []string{"containerd", "kubelet"} {
				if got := w.Service(name); got.State != hostapi.Running {
					t.Errorf("room for %d files: service %s is %s", room, name, got.State)
				}
				w.Crash(name)
				time.Sleep(daemontest.RestoredWithin)
				if got := w.Service(name); got.State != hostapi.Running {
					t.Errorf("room for %d files: service %s is %s after a crash", room, name, got.State)
				}
			}
			if m.Reports(t, node) {
				t.Logf("room for %d files is enough", room)
				return
			}
			if !strings.Contains(m.Log(), sim.ErrDiskFull.Error()) {
				t.Errorf("room for %d files: the log does not report the full disk", room)
			}
			m.ClearLog()
			w.FillDisk(-1)
			m.AwaitSettings(t, node)
			daemontest.ExpectContent(t, w.Disk(), daemontest.PlainFile, "mirror")
		}
	})
}

// TestCertificateIsRenewedAfterDiskFull fills the disk while WICD's certificate is due for renewal, until it has expired.
func TestCertificateIsRenewedAfterDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, daemontest.TimingMeasured)
		before := apiRequests(m)
		m.Windows.FillDisk(0)
		time.Sleep(30 * time.Hour)
		m.Windows.Crash("kubelet")
		time.Sleep(daemontest.RestoredWithin)
		daemontest.ExpectServices(t, m.Windows, m.Request)
		if n := apiRequests(m) - before; n > 30*60 {
			t.Errorf("the API server was queried %d times in 30 hours", n)
		}
		m.Windows.FillDisk(-1)
		m.Follow(t, m.Changed())
	})
}

// TestServiceRunsWithoutLog starts the service by its command line on a disk without room for a log.
func TestServiceRunsWithoutLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const log = desired.Logs + `\wicd\wicd.log`
		w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never})
		w.FillDisk(0)
		done := make(chan uint32, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			done <- sim.WICD(ctx, sim.Process{Command: `C:\wicd.exe run --windows-service --log-file ` + log, Host: w.Host()})
		}()
		time.Sleep(time.Minute)
		w.Crash("kubelet")
		time.Sleep(daemontest.RestoredWithin)
		daemontest.ExpectServices(t, w, r)
		w.FillDisk(-1)
		w.Crash("kubelet")
		time.Sleep(daemontest.RestoredWithin)
		stop()
		if code := <-done; code != 0 {
			t.Errorf("exit code %d", code)
		}
		if text, err := w.Disk().Read(log); err != nil || len(text) == 0 {
			t.Errorf("the log is %q, %v", text, err)
		}
	})
}
