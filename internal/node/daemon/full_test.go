package daemon_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// TestAFullDiskLeavesTheNodeServing fills the disk at each change that a new setting makes. The node continues with what it has, logs the problem,
// and follows once there is room.
func TestAFullDiskLeavesTheNodeServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIsolated(t, func(*servers.Cluster) {})
		w := m.windows
		node := m.changed()
		node.Files[0].Content = `{"maxPods": 64}`
		node.Services = slices.Clone(node.Services)
		node.Services[0].Command += " --log-level debug"
		for room := 0; ; room++ {
			m.publish(t, m.request.Desired)
			m.awaitSettings(t, m.request.Desired)
			w.FillDisk(room)
			m.publish(t, node)
			time.Sleep(time.Minute)
			before := m.pids()
			time.Sleep(5 * time.Minute)
			if now := m.pids(); now["containerd"] != before["containerd"] || now["kubelet"] != before["kubelet"] {
				t.Errorf("room for %d files: services are started again and again: %v, then %v", room, before, now)
			}
			for _, name := range []string{"containerd", "kubelet"} {
				if got := w.Service(name); got.State != hostapi.Running {
					t.Errorf("room for %d files: service %s is %s", room, name, got.State)
				}
				w.Crash(name)
				time.Sleep(restoredWithin)
				if got := w.Service(name); got.State != hostapi.Running {
					t.Errorf("room for %d files: service %s is %s after a crash", room, name, got.State)
				}
			}
			if m.reports(node) {
				t.Logf("room for %d files is enough", room)
				return
			}
			m.mu.Lock()
			if !strings.Contains(m.log.String(), sim.ErrDiskFull.Error()) {
				t.Errorf("room for %d files: the log does not say that the disk is full", room)
			}
			m.log.Reset()
			m.mu.Unlock()
			w.FillDisk(-1)
			m.awaitSettings(t, node)
			expectContent(t, w.Disk(), plainFile, "mirror")
		}
	})
}

// TestCertificateIsRenewedAfterDiskFull fills the disk while WICD's certificate is due for renewal, until it has expired.
func TestCertificateIsRenewedAfterDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIsolated(t, func(*servers.Cluster) {})
		before := m.asked()
		m.windows.FillDisk(0)
		time.Sleep(30 * time.Hour)
		m.windows.Crash("kubelet")
		time.Sleep(restoredWithin)
		expectServices(t, m.windows, m.request)
		if n := m.asked() - before; n > 30*60 {
			t.Errorf("the cluster was asked %d times in 30 hours", n)
		}
		m.windows.FillDisk(-1)
		m.publish(t, m.changed())
		m.awaitSettings(t, m.changed())
	})
}

// TestTheServiceWorksWithoutALog starts the service by its command line on a disk without room for a log.
func TestTheServiceWorksWithoutALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const log = desired.Logs + `\wicd\wicd.log`
		w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never})
		w.FillDisk(0)
		done := make(chan uint32, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			done <- sim.WICD(ctx, sim.Process{Command: `C:\wicd.exe run --windows-service --log-file ` + log, Host: w.Host()})
		}()
		time.Sleep(time.Minute)
		w.Crash("kubelet")
		time.Sleep(restoredWithin)
		expectServices(t, w, r)
		w.FillDisk(-1)
		w.Crash("kubelet")
		time.Sleep(restoredWithin)
		stop()
		if code := <-done; code != 0 {
			t.Errorf("exit code %d", code)
		}
		if text, err := w.Disk().Read(log); err != nil || len(text) == 0 {
			t.Errorf("the log is %q, %v", text, err)
		}
	})
}

// TestAnUpgradeIsPossibleAlthoughTheListOfAnOldVersionIsLost destroys the file that lists a version's contents.
func TestAnUpgradeIsPossibleAlthoughTheListOfAnOldVersionIsLost(t *testing.T) {
	w := newWindows(t, sim.WindowsOptions{})
	for _, version := range []string{"1", "2b", "3cc"} {
		c := newCargo(version)
		mustSend(t, w, c)
		mustJoin(t, w, newRequest(c))
		mustWrite(t, w.Disk(), desired.VersionFolder(c.digest())+`\files.json`, "\x00\x00")
	}
}
