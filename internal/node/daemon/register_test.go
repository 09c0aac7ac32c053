package daemon_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestMissingNodeRestartsOnlyKubelet(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	mustJoin(t, w, r)
	kubelet, containerd := w.Service("kubelet").PID, w.Service("containerd").PID
	r.Register = true
	mustJoin(t, w, r)
	if w.Service("kubelet").PID == kubelet {
		t.Error("the kubelet goes on without a Node")
	}
	if w.Service("containerd").PID != containerd {
		t.Error("containerd was started again")
	}
	r.Register = false
	if result := mustJoin(t, w, r); len(result.Changed) != 0 {
		t.Errorf("the next join changed %v", result.Changed)
	}
}

// TestHostWorksWithoutItsNode: the original daemon panicked on a host that had its services and files but no Node. WICD works without one,
// and the join that follows finds everything in place.
func TestHostWorksWithoutItsNode(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	m.cluster.Delete(nodePath)
	m.publish(t, m.changed())
	m.await(t, "the settings arrive without a Node", func() bool {
		b, err := m.windows.Disk().Read(plainFile)
		return err == nil && string(b) == "mirror"
	})
	m.windows.Crash("containerd")
	m.await(t, "containerd works again", func() bool { return m.windows.Service("containerd").State == hostapi.Running })
	m.stop() // the service also starts without a Node
	m.start(t)
	if m.node().Name != "" {
		t.Fatal("the Node is there, and was to be gone")
	}
	m.request.Desired, m.request.Register = m.changed(), true
	mustJoin(t, m.windows, m.request)
	m.giveRange(t)
	m.awaitSettings(t, m.request.Desired)
	m.awaitVersion(t)
}
