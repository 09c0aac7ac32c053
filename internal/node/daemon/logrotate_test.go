package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestANodeKeepsItsLogsWithinTheirLimits publishes limits: larger logs are reduced, including WICD's own, and no process restarts for that.
func TestANodeKeepsItsLogsWithinTheirLimits(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	disk := m.windows.Disk()
	const log, old = desired.Logs + `\containerd\containerd.log`, desired.Logs + `\kubelet\kubelet-20060102-150405.log`
	mustWrite(t, disk, log, strings.Repeat("much\n", 100))
	mustWrite(t, disk, old, "old")
	mustWrite(t, disk, desired.Logs+`\kubelet\kubelet-20060102-150406.log`, "newer")
	before := m.pids()
	node := m.request.Desired
	node.Logs = desired.LogLimits{Size: 100, Age: metav1.Duration{Duration: time.Hour}, Count: 1}
	node.Services = slices.Clone(node.Services)
	node.Services[0].Log = desired.Log{Path: log}
	node.Services[1].Log = desired.Log{Path: desired.Logs + `\kubelet\kubelet.log`, Rotates: true}
	m.publish(t, node)
	m.awaitSettings(t, node)
	m.await(t, "the full log is put aside", func() bool {
		info, err := disk.Stat(log)
		return err == nil && info.Size() == 0
	})
	names, err := disk.List(desired.Logs + `\containerd`)
	if err != nil || len(names) != 2 || !strings.HasPrefix(names[0], "containerd-20") {
		t.Errorf("containerd's folder has %q, %v", names, err)
	}
	m.await(t, "the surplus log is removed", func() bool { return !disk.Exists(old) })
	if !disk.Exists(desired.Logs + `\kubelet\kubelet.log`) {
		t.Error("the log in use was removed")
	}
	for service, pid := range m.pids() {
		if pid != before[service] {
			t.Errorf("%s was restarted", service)
		}
	}
}
