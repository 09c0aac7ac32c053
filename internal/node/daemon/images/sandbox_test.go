package images_test

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
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
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
func newPodHost(t *testing.T, refusal *cri.Error) *daemontest.Member {
	t.Helper()
	return newPodHostWith(t, func(w *sim.Windows) { w.RefuseImage(firstImage, refusal) })
}

// newPodHostWith does the same with another preparation.
func newPodHostWith(t *testing.T, prepare func(*sim.Windows)) *daemontest.Member {
	t.Helper()
	m := daemontest.NewMember(t, daemontest.Options{Heartbeat: time.Minute, Prepare: func(m *daemontest.Member) {
		m.Request.Desired = withImage(m.Request.Desired, firstImage)
		prepare(m.Windows)
	}})
	m.AssignPodCIDR(t)
	return m
}

func imageCondition(m *daemontest.Member) corev1.NodeCondition {
	return m.Condition(api.ConditionSandboxImage)
}

func awaitImageCondition(t *testing.T, m *daemontest.Member, reason string) {
	t.Helper()
	daemontest.Await(t, "condition SandboxImage has reason "+reason, func() bool { return imageCondition(m).Reason == reason })
}

func TestNodeWaitsForSandboxImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.AwaitVersion(t)
		awaitImageCondition(t, m, api.ReasonSandboxImagePresent)
		if got := m.Windows.Images(); !maps.Equal(got, map[string]bool{firstImage: true}) {
			t.Errorf("images, by whether they are pinned: %v", got)
		}
		time.Sleep(time.Hour)
		if pulls := m.Windows.Pulls(); len(pulls) != 1 {
			t.Errorf("it was pulled %d times", len(pulls))
		}
	})
}

func TestFailedSandboxImagePullIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, absent())
		awaitImageCondition(t, m, api.ReasonSandboxImageNotFound)
		time.Sleep(time.Hour)
		node, pulls := m.Node(), len(m.Windows.Pulls())
		if nodestate.IsReady(&node) || m.Windows.Disk().Exists(daemontest.CNIConfig) {
			t.Error("the node is Ready without its sandbox image")
		}
		if c := imageCondition(m); c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "not Ready until it is pulled") {
			t.Errorf("the condition is %+v", c)
		}
		if pulls < 20 || pulls > 60 {
			t.Errorf("%d pulls in an hour, want pauses that grow to two minutes", pulls)
		}
		if n := m.Cluster.Count("PATCH", "/nodes/win-1/status"); n > 90 { // the kubelet makes one a minute
			t.Errorf("the status was patched %d times", n)
		}
		m.Windows.RefuseImage(firstImage, nil)
		time.Sleep(5 * time.Minute)
		awaitImageCondition(t, m, api.ReasonSandboxImagePresent)
		m.AwaitVersion(t)
	})
}

func TestSandboxImageChangesAfterPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.AwaitVersion(t)
		before := m.PIDs()
		m.Windows.RefuseImage(secondImage, &cri.Error{Code: cri.NotFound, Message: "no match for platform in manifest: not found"})
		wanted := withImage(m.Request.Desired, secondImage)
		m.Publish(t, wanted)
		awaitImageCondition(t, m, api.ReasonSandboxImageUnsuitable)
		m.AwaitSettings(t, wanted)
		daemontest.ExpectContent(t, m.Windows.Disk(), containerdFile, "sandbox = '"+firstImage+"'")
		node := m.Node()
		if !nodestate.IsReady(&node) || !maps.Equal(before, m.PIDs()) || !strings.Contains(imageCondition(m).Message, "pods start from "+firstImage) {
			t.Errorf("ready: %v, processes %v, then %v, condition %+v", nodestate.IsReady(&node), before, m.PIDs(), imageCondition(m))
		}
		m.Stop() // a restart does not forget which image is in use
		m.Start(t)
		m.Windows.RefuseImage(secondImage, nil)
		awaitImageCondition(t, m, api.ReasonSandboxImagePresent)
		daemontest.ExpectContent(t, m.Windows.Disk(), containerdFile, "sandbox = '"+secondImage+"'")
		after := m.PIDs()
		if after["containerd"] == before["containerd"] || after["kubelet"] == before["kubelet"] {
			t.Errorf("containerd and kubelet are still %v", after)
		}
		daemontest.Await(t, "the image is pinned", func() bool { return m.Windows.Images()[secondImage] })
		m.AwaitSettings(t, wanted)
		time.Sleep(time.Hour)
		if !maps.Equal(after, m.PIDs()) {
			t.Errorf("services restarted later: %v, then %v", after, m.PIDs())
		}
	})
}

// A join, for example a repair, keeps the host's current image.
func TestJoinKeepsSandboxImageInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.AwaitVersion(t)
		m.Windows.RefuseImage(secondImage, absent())
		m.Request.Desired = withImage(m.Request.Desired, secondImage)
		for range 2 {
			daemontest.MustJoin(t, m.Windows, m.Request)
			daemontest.ExpectContent(t, m.Windows.Disk(), containerdFile, "sandbox = '"+firstImage+"'")
		}
		m.Windows.RefuseImage(secondImage, nil)
		daemontest.Await(t, "the other image is in use", func() bool {
			b, err := m.Windows.Disk().Read(containerdFile)
			return err == nil && string(b) == "sandbox = '"+secondImage+"'"
		})
	})
}

// A mistyped first image is corrected by another setting: there is no former one to keep.
func TestMistypedFirstImageCanBeCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, absent())
		awaitImageCondition(t, m, api.ReasonSandboxImageNotFound)
		m.Publish(t, withImage(m.Request.Desired, secondImage))
		awaitImageCondition(t, m, api.ReasonSandboxImagePresent)
		m.AwaitVersion(t)
		daemontest.ExpectContent(t, m.Windows.Disk(), containerdFile, "sandbox = '"+secondImage+"'")
	})
}

func TestLostSandboxImageIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.AwaitVersion(t)
		m.Windows.RefuseImage(firstImage, absent())
		m.Windows.RemoveImage(firstImage)
		time.Sleep(5 * time.Minute)
		daemontest.Await(t, "the loss is reported", func() bool { return strings.Contains(imageCondition(m).Message, "was removed from the host") })
		node := m.Node()
		if !nodestate.IsReady(&node) {
			t.Error("a node with running pods was taken out of service")
		}
		m.Windows.RefuseImage(firstImage, nil)
		time.Sleep(5 * time.Minute)
		awaitImageCondition(t, m, api.ReasonSandboxImagePresent)
	})
}

func TestRestartedHostHasSandboxImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.AwaitVersion(t)
		m.Stop()
		m.Windows.Restart()
		m.Windows.RefuseImage(firstImage, absent())
		m.Start(t)
		time.Sleep(10 * time.Minute)
		if c := imageCondition(m); c.Status != corev1.ConditionTrue || len(m.Windows.Pulls()) != 1 {
			t.Errorf("pulls %q, condition %+v", m.Windows.Pulls(), c)
		}
	})
}

// A registry that does not answer must be reported on the Node.
func TestSlowPullIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHostWith(t, func(w *sim.Windows) { w.SlowPulls(40 * time.Minute) })
		time.Sleep(2 * time.Minute)
		awaitImageCondition(t, m, api.ReasonSandboxImagePulling)
		time.Sleep(29 * time.Minute)
		awaitImageCondition(t, m, api.ReasonSandboxImagePullFailed)
		if c := imageCondition(m); !strings.Contains(c.Message, "longer than 30m0s") {
			t.Errorf("the condition is %q", c.Message)
		}
		m.Windows.SlowPulls(0)
		time.Sleep(40 * time.Minute)
		awaitImageCondition(t, m, api.ReasonSandboxImagePresent)
		m.AwaitVersion(t)
	})
}
