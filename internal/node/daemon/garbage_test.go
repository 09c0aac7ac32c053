package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestServiceRecoversFromDamagedFiles starts WICD with files that a disk that reports incomplete writes as complete has damaged. It keeps the
// services running, and follows the cluster again on its own.
func TestServiceRecoversFromDamagedFiles(t *testing.T) {
	t.Parallel()
	damages := map[string]func(whole string) string{
		"nothing":   func(string) string { return "" },
		"half":      func(whole string) string { return whole[:len(whole)/2] },
		"zeros":     func(whole string) string { return strings.Repeat("\x00", len(whole)) },
		"null":      func(string) string { return "null" },
		"an object": func(string) string { return "{}" },
		"a list":    func(string) string { return `[{"a": [1]}, "b", 3]` },
		"others'":   func(string) string { return "\xff\xfe<html>" },
	}
	files := []string{
		desired.State + `\node.json`, desired.State + `\certificates.json`, desired.State + `\launches.json`,
		desired.State + `\journal.jsonl`, daemontest.WICDFile, daemontest.PendingFile, desired.BootstrapKubeconfig, daemontest.MetricsFile,
		desired.State + `\command.lock`, desired.State + `\services.lock`, `C:\k\kubelet.conf`,
	}
	for _, file := range files {
		t.Run(file[strings.LastIndexByte(file, '\\')+1:], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := daemontest.NewIsolated(t, daemontest.TimingMeasured)
				m.Request.Desired.Certificates = daemontest.OtherAuthority(t)
				for name, content := range damages {
					m.Follow(t, m.Request.Desired)
					m.Windows.PowerCut()
					m.Stop()
					damageFile(t, m.Windows, file, content)
					m.Windows.PowerOn()
					m.Start(t)
					time.Sleep(15 * time.Minute)
					if m.Windows.Crash("containerd"); m.Windows.Service("containerd").Name == "" {
						t.Fatal("containerd does not exist")
					}
					time.Sleep(daemontest.RestoredWithin)
					daemontest.ExpectServices(t, m.Windows, m.Request)
					for _, f := range m.Request.Desired.Files {
						daemontest.ExpectContent(t, m.Windows.Disk(), f.Path, f.Content)
					}
					m.Publish(t, m.Changed())
					time.Sleep(5 * time.Minute)
					if !m.Reports(t, m.Changed()) {
						t.Fatalf("%s remains: the node did not apply the change", name)
					}
				}
			})
		})
	}
}

// damageFile replaces the content of a file.
func damageFile(t *testing.T, w *sim.Windows, file string, content func(string) string) {
	t.Helper()
	local := w.Disk().Local(file)
	whole, err := os.ReadFile(local)
	if err != nil {
		whole = []byte("usually, this file does not exist")
	}
	if err := os.MkdirAll(filepath.Dir(local), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(local, []byte(content(string(whole))), 0o600); err != nil {
		t.Fatal(err)
	}
}
