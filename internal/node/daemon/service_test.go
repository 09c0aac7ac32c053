package daemon_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestServiceCompletesNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		disk := m.Windows.Disk()
		daemontest.ExpectContent(t, disk, daemontest.CNIConfig, `{"name":"n","type":"t","cidr":"10.132.7.0/24"}`)
		if disk.Exists(desired.BootstrapKubeconfig) || disk.Exists(daemontest.PendingFile) {
			t.Error("the token or the pending key still exists")
		}
		if m.Cluster.Count("PATCH", "/nodes/win-1") > 4 { // WICD's annotations, the states of services, WICD's condition, the kubelet's status
			t.Errorf("the node was patched %d times", m.Cluster.Count("PATCH", "/nodes/win-1"))
		}
		if facts := daemontest.Facts(t, m.Windows); !facts.Joined.HasCertificate {
			t.Errorf("facts %+v", facts.Joined)
		}
		if status := daemontest.Status(t, m.Windows); len(status.Certificates) != 3 {
			t.Errorf("certificates %v", status.Certificates)
		}
		if log := m.Log(); strings.Contains(log, m.Cluster.Token) || strings.Contains(log, "PRIVATE KEY") {
			t.Error("a secret is in the log")
		}
	})
}

func TestServiceStartedBeforeJoinFollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, sim.WindowsOptions{RestartDelay: 24 * time.Hour})
		stop := daemontest.StartRun(t, w.Host())
		time.Sleep(time.Minute)
		stop() // blocks if a service without a join does not end
		daemontest.StartRun(t, w.Host())
		daemontest.MustJoin(t, w, r)
		time.Sleep(20 * time.Second)
		w.Crash("containerd")
		time.Sleep(daemontest.AfterServiceCheck)
		daemontest.ExpectJoined(t, w, r)
	})
}

// TestHostWorksWithoutNode: the original daemon panicked on a host that had its services and files but no Node. WICD works without one,
// and the join that follows finds everything in place.
func TestHostWorksWithoutNode(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	m.Cluster.Delete(daemontest.NodePath)
	m.Publish(t, m.Changed())
	daemontest.Await(t, "the settings arrive without a Node", func() bool { return m.Windows.Disk().Exists(daemontest.PlainFile) })
	m.Windows.Crash("containerd")
	daemontest.Await(t, "containerd works again", func() bool { return m.Windows.Service("containerd").State == hostapi.Running })
	m.Stop() // the service also starts without a Node
	m.Start(t)
	if m.Node().Name != "" {
		t.Fatal("the Node exists, want none")
	}
	m.Request.Desired, m.Request.Register = m.Changed(), true
	daemontest.MustJoin(t, m.Windows, m.Request)
	m.AssignPodCIDR(t)
	m.AwaitSettings(t, m.Request.Desired)
	m.AwaitVersion(t)
}

func TestStatusIncludesJournal(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{})
	status := daemontest.Status(t, w)
	if len(status.Services) != 3 || !status.Services[0].Ours || status.Joined == nil {
		t.Errorf("status %+v", status)
	}
	last := status.Journal[len(status.Journal)-1]
	if want := "joined as node win-1, version " + r.Desired.Version; last.Change != want || last.Step != "completing" {
		t.Errorf("the journal ends with %+v, want %q", last, want)
	}
}
