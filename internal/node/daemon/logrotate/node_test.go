package logrotate_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestNodeLogsStayWithinLimits publishes limits: larger logs are reduced, including WICD's own, and no process restarts for that.
func TestNodeLogsStayWithinLimits(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	disk := m.Windows.Disk()
	const log, old = desired.Logs + `\containerd\containerd.log`, desired.Logs + `\kubelet\kubelet-20060102-150405.log`
	daemontest.MustWrite(t, disk, log, strings.Repeat("much\n", 100))
	daemontest.MustWrite(t, disk, old, "old")
	daemontest.MustWrite(t, disk, desired.Logs+`\kubelet\kubelet-20060102-150406.log`, "newer")
	before := m.PIDs()
	node := m.Request.Desired
	node.Logs = desired.LogLimits{Size: 100, Age: metav1.Duration{Duration: time.Hour}, Count: 1}
	node.Services = slices.Clone(node.Services)
	node.Services[0].Log = desired.Log{Path: log}
	node.Services[1].Log = desired.Log{Path: desired.Logs + `\kubelet\kubelet.log`, Rotates: true}
	m.Follow(t, node)
	daemontest.Await(t, "the full log is put aside", func() bool {
		info, err := disk.Stat(log)
		return err == nil && info.Size() == 0
	})
	names, err := disk.List(desired.Logs + `\containerd`)
	if err != nil || len(names) != 2 || !strings.HasPrefix(names[0], "containerd-20") {
		t.Errorf("containerd's folder has %q, %v", names, err)
	}
	daemontest.Await(t, "the surplus log is removed", func() bool { return !disk.Exists(old) })
	if !disk.Exists(desired.Logs + `\kubelet\kubelet.log`) {
		t.Error("the log in use was removed")
	}
	if after := m.PIDs(); !maps.Equal(after, before) {
		t.Errorf("services were restarted: %v, then %v", before, after)
	}
}
