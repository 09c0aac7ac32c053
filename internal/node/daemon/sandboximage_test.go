package daemon_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

const (
	firstImage, secondImage = "mcr.test/pause:1", "mcr.test/pause:2"
	containerdFile          = `C:\k\containerd\containerd_conf.toml`
)

// absent is containerd's error for an image that its registry does not have.
func absent() *cri.Error {
	return &cri.Error{Code: cri.NotFound, Message: "failed to resolve image: not found"}
}

// withImage returns a declaration whose pods start from an image.
func withImage(n desired.Node, image string) desired.Node {
	n.SandboxImage = image
	n.Files = slices.Clone(n.Files)
	i := slices.IndexFunc(n.Files, func(f desired.File) bool { return f.Path == containerdFile })
	n.Files[i].Content = "sandbox = '${SANDBOX_IMAGE}'"
	return n
}

// newPodHost joins a host whose pods start from firstImage, which registries refuse with refusal, if not nil.
func newPodHost(t *testing.T, refusal *cri.Error) *member {
	t.Helper()
	return newPodHostWith(t, func(w *sim.Windows) { w.RefuseImage(firstImage, refusal) })
}

// newPodHostWith does the same with another preparation.
func newPodHostWith(t *testing.T, prepare func(*sim.Windows)) *member {
	t.Helper()
	cluster, err := servers.NewIsolatedCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c := newCargo("1")
	m := &member{cluster: cluster, request: newMemberRequest(cluster, c), stop: func() {}}
	m.request.Desired = withImage(m.request.Desired, firstImage)
	m.windows = newWindows(t, sim.WindowsOptions{
		Dial: cluster.Dial, RestartDelay: 100 * time.Millisecond,
		Programs: map[string]sim.Program{"kubelet": sim.KubeletOptions{Heartbeat: time.Minute}.Program()},
	})
	prepare(m.windows)
	mustSend(t, m.windows, c)
	mustJoin(t, m.windows, m.request)
	t.Cleanup(func() { m.stop() })
	m.start(t)
	m.giveRange(t)
	return m
}

func (m *member) imageCondition() corev1.NodeCondition {
	node := m.node()
	if c := nodestate.Condition(&node, api.ConditionSandboxImage); c != nil {
		return *c
	}
	return corev1.NodeCondition{}
}

func (m *member) awaitImageCondition(t *testing.T, reason string) {
	t.Helper()
	m.await(t, "condition SandboxImage has reason "+reason, func() bool { return m.imageCondition().Reason == reason })
}

func TestNodeWaitsForSandboxImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.awaitVersion(t)
		m.awaitImageCondition(t, api.ReasonSandboxImagePresent)
		if got := m.windows.Images(); !maps.Equal(got, map[string]bool{firstImage: true}) {
			t.Errorf("images, and whether they are pinned: %v", got)
		}
		time.Sleep(time.Hour)
		if pulls := m.windows.Pulls(); len(pulls) != 1 {
			t.Errorf("it was pulled %d times", len(pulls))
		}
	})
}

func TestANodeWaitsForASandboxImageThatCannotBePulled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, absent())
		m.awaitImageCondition(t, api.ReasonSandboxImageNotFound)
		time.Sleep(time.Hour)
		node, pulls := m.node(), len(m.windows.Pulls())
		if nodestate.IsReady(&node) || m.windows.Disk().Exists(cniConfig) {
			t.Error("the node is Ready without its sandbox image")
		}
		if c := m.imageCondition(); c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "not Ready until it is pulled") {
			t.Errorf("the condition is %+v", c)
		}
		if pulls < 20 || pulls > 60 {
			t.Errorf("%d pulls in an hour, want pauses that grow to two minutes", pulls)
		}
		if n := m.cluster.Count("PATCH", "/nodes/win-1/status"); n > 90 { // the kubelet makes one a minute
			t.Errorf("the status was patched %d times", n)
		}
		m.windows.RefuseImage(firstImage, nil)
		time.Sleep(5 * time.Minute)
		m.awaitImageCondition(t, api.ReasonSandboxImagePresent)
		m.awaitVersion(t)
	})
}

func TestSandboxImageChangesAfterPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.awaitVersion(t)
		before := m.pids()
		m.windows.RefuseImage(secondImage, &cri.Error{Code: cri.NotFound, Message: "no match for platform in manifest: not found"})
		wanted := withImage(m.request.Desired, secondImage)
		m.publish(t, wanted)
		m.awaitImageCondition(t, api.ReasonSandboxImageUnsuitable)
		m.awaitSettings(t, wanted)
		expectContent(t, m.windows.Disk(), containerdFile, "sandbox = '"+firstImage+"'")
		node := m.node()
		if !nodestate.IsReady(&node) || !maps.Equal(before, m.pids()) || !strings.Contains(m.imageCondition().Message, "pods start from "+firstImage) {
			t.Errorf("ready: %v, processes %v, then %v, condition %+v", nodestate.IsReady(&node), before, m.pids(), m.imageCondition())
		}
		m.stop() // a restart does not forget which image is in use
		m.start(t)
		m.windows.RefuseImage(secondImage, nil)
		m.awaitImageCondition(t, api.ReasonSandboxImagePresent)
		expectContent(t, m.windows.Disk(), containerdFile, "sandbox = '"+secondImage+"'")
		after := m.pids()
		if after["containerd"] == before["containerd"] || after["kubelet"] == before["kubelet"] {
			t.Errorf("containerd and kubelet still are %v", after)
		}
		m.await(t, "the image is pinned", func() bool { return m.windows.Images()[secondImage] })
		m.awaitSettings(t, wanted)
		time.Sleep(time.Hour)
		if !maps.Equal(after, m.pids()) {
			t.Errorf("services restarted later: %v, then %v", after, m.pids())
		}
	})
}

// A join, for example a repair, keeps the host's current image.
func TestAJoinKeepsTheSandboxImageInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.awaitVersion(t)
		m.windows.RefuseImage(secondImage, absent())
		m.request.Desired = withImage(m.request.Desired, secondImage)
		for range 2 {
			mustJoin(t, m.windows, m.request)
			expectContent(t, m.windows.Disk(), containerdFile, "sandbox = '"+firstImage+"'")
		}
		m.windows.RefuseImage(secondImage, nil)
		m.await(t, "the other image is in use", func() bool {
			b, err := m.windows.Disk().Read(containerdFile)
			return err == nil && string(b) == "sandbox = '"+secondImage+"'"
		})
	})
}

// A mistyped first image is corrected by another setting: there is no former one to keep.
func TestAMistypedFirstImageIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, absent())
		m.awaitImageCondition(t, api.ReasonSandboxImageNotFound)
		m.publish(t, withImage(m.request.Desired, secondImage))
		m.awaitImageCondition(t, api.ReasonSandboxImagePresent)
		m.awaitVersion(t)
		expectContent(t, m.windows.Disk(), containerdFile, "sandbox = '"+secondImage+"'")
	})
}

func TestLostSandboxImageIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.awaitVersion(t)
		m.windows.RefuseImage(firstImage, absent())
		m.windows.RemoveImage(firstImage)
		time.Sleep(5 * time.Minute)
		m.await(t, "the loss is told", func() bool { return strings.Contains(m.imageCondition().Message, "was removed from the host") })
		node := m.node()
		if !nodestate.IsReady(&node) {
			t.Error("the node went out of service, with pods that run")
		}
		m.windows.RefuseImage(firstImage, nil)
		time.Sleep(5 * time.Minute)
		m.awaitImageCondition(t, api.ReasonSandboxImagePresent)
	})
}

func TestAHostThatRestartsHasItsSandboxImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.awaitVersion(t)
		m.stop()
		m.windows.Restart()
		m.windows.RefuseImage(firstImage, absent())
		m.start(t)
		time.Sleep(10 * time.Minute)
		if c := m.imageCondition(); c.Status != corev1.ConditionTrue || len(m.windows.Pulls()) != 1 {
			t.Errorf("pulls %q, condition %+v", m.windows.Pulls(), c)
		}
	})
}

// A registry that does not answer must be reported on the Node.
func TestSlowPullIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHostWith(t, func(w *sim.Windows) { w.SlowPulls(40 * time.Minute) })
		time.Sleep(2 * time.Minute)
		m.awaitImageCondition(t, api.ReasonSandboxImagePulling)
		time.Sleep(29 * time.Minute)
		m.awaitImageCondition(t, api.ReasonSandboxImagePullFailed)
		if c := m.imageCondition(); !strings.Contains(c.Message, "longer than 30m0s") {
			t.Errorf("the condition says %q", c.Message)
		}
		m.windows.SlowPulls(0)
		time.Sleep(40 * time.Minute)
		m.awaitImageCondition(t, api.ReasonSandboxImagePresent)
		m.awaitVersion(t)
	})
}

// If a service creates the pod network, everything is created except for the file that makes the node Ready.
func TestAnOverlayWaitsForTheSandboxImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlaidWith(t, 1, func(o *overlaid) {
			o.request.Desired = withImage(o.request.Desired, firstImage)
			o.windows.RefuseImage(firstImage, absent())
		})
		o.awaitImageCondition(t, api.ReasonSandboxImageNotFound)
		time.Sleep(10 * time.Minute)
		disk, node := o.windows.Disk(), o.node()
		if disk.Exists(cniConfig) || !disk.Exists(proxyConfig) || nodestate.IsReady(&node) {
			t.Errorf("%s is there: %v, %s: %v, the node is Ready: %v", cniConfig, disk.Exists(cniConfig), proxyConfig, disk.Exists(proxyConfig), nodestate.IsReady(&node))
		}
		o.windows.RefuseImage(firstImage, nil)
		time.Sleep(5 * time.Minute)
		o.awaitVersion(t)
	})
}
