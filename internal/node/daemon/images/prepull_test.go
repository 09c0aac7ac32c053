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
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	nano = "mcr.test/nanoserver:ltsc2022"
	core = "mcr.test/servercore:ltsc2022"
)

// prepulled are images of which a host with Windows Server 2022 needs two.
func prepulled() []desired.Image {
	return []desired.Image{
		{Name: core, Builds: []windowsbuild.Build{windowsbuild.Server2022}},
		{Name: "mcr.test/servercore:ltsc2025", Builds: []windowsbuild.Build{windowsbuild.Server2025}},
		{Name: nano},
	}
}

// newImageHost joins a host that registers with the taint of images to pull.
func newImageHost(t *testing.T, images []desired.Image, o sim.WindowsOptions, prepare func(*sim.Windows)) *daemontest.Member {
	t.Helper()
	m := daemontest.NewMember(t, daemontest.Options{Windows: o, Heartbeat: time.Minute, Prepare: func(m *daemontest.Member) {
		m.Request.Desired = withImage(m.Request.Desired, firstImage)
		m.Request.Desired.Images = images
		i := slices.IndexFunc(m.Request.Desired.Files, func(f desired.File) bool { return f.Path == `C:\k\kubelet.conf` })
		m.Request.Desired.Files[i].Content = `{"registerWithTaints":"${NODE_TAINTS}"}`
		m.Request.Taints = []corev1.Taint{{Key: api.TaintImages, Effect: corev1.TaintEffectNoSchedule}}
		if prepare != nil {
			prepare(m.Windows)
		}
	}})
	m.AssignPodCIDR(t)
	m.AwaitVersion(t)
	return m
}

func missing(m *daemontest.Member) corev1.NodeCondition {
	return m.Condition(api.ConditionImagesMissing)
}

func awaitImages(t *testing.T, m *daemontest.Member, status corev1.ConditionStatus) {
	t.Helper()
	daemontest.Await(t, "condition WindowsImagesMissing is "+string(status), func() bool { return missing(m).Status == status })
}

func hasImage(m *daemontest.Member, name string) bool {
	_, found := m.Windows.Images()[name]
	return found
}

func expectPulls(t *testing.T, m *daemontest.Member, want ...string) {
	t.Helper()
	if got := m.Windows.Pulls(); !slices.Equal(got, want) {
		t.Errorf("pulls %q, want %q", got, want)
	}
}

func TestJoinedNodePullsImagesOfItsWindowsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newImageHost(t, prepulled(), sim.WindowsOptions{}, func(w *sim.Windows) { w.SlowPulls(20 * time.Second) })
		node := m.Node()
		if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.TaintImages }) {
			t.Fatalf("the node has taints %v", node.Spec.Taints)
		}
		awaitImages(t, m, corev1.ConditionUnknown)
		if c := missing(m); c.Reason != api.ReasonImagesPulling || !strings.Contains(c.Message, core+" (1 of 2)") {
			t.Errorf("condition %+v", c)
		}
		awaitImages(t, m, corev1.ConditionFalse)
		expectPulls(t, m, firstImage, core, nano)
		before := m.Cluster.Count("PATCH", "/nodes/win-1/status")
		time.Sleep(6 * time.Hour)
		expectPulls(t, m, firstImage, core, nano)
		if n := m.Cluster.Count("PATCH", "/nodes/win-1/status") - before; n > 6*60+2 { // the kubelet makes one a minute
			t.Errorf("the status was patched %d times in six hours", n)
		}
	})
}

func TestImageThatCannotBePulledIsNamedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newImageHost(t, prepulled(), sim.WindowsOptions{}, func(w *sim.Windows) { w.RefuseImage(core, absent()) })
		awaitImages(t, m, corev1.ConditionTrue)
		c := missing(m)
		if c.Reason != api.ReasonImagesNotPulled || !strings.Contains(c.Message, core+" could not be pulled: ") || strings.Contains(c.Message, nano) {
			t.Errorf("condition %+v", c)
		}
		if !hasImage(m, nano) {
			t.Error("the other image was not pulled")
		}
		time.Sleep(3 * time.Hour)
		if n := len(m.Windows.Pulls()); n < 8 || n > 14 {
			t.Errorf("%d pulls in three hours, want pauses that grow to half an hour", n)
		}
		if again := missing(m); again != c {
			t.Errorf("condition %+v, want it unchanged: %+v", again, c)
		}
		m.Windows.RefuseImage(core, nil)
		time.Sleep(time.Hour)
		awaitImages(t, m, corev1.ConditionFalse)
	})
}

func TestNodeInServicePullsWithinMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		m.AwaitVersion(t)
		processes := m.PIDs()
		wanted := withImage(m.Request.Desired, firstImage)
		wanted.Images = prepulled()
		m.Publish(t, wanted)
		m.AwaitSettings(t, wanted)
		time.Sleep(12 * time.Minute)
		awaitImages(t, m, corev1.ConditionFalse)
		expectPulls(t, m, firstImage, core, nano)
		if got := m.PIDs(); !maps.Equal(processes, got) {
			t.Errorf("processes %v, then %v: services restarted", processes, got)
		}
		wanted.Images = nil
		m.Publish(t, wanted)
		m.AwaitSettings(t, wanted)
		time.Sleep(12 * time.Minute)
		if c := missing(m); c.Status != corev1.ConditionFalse || !hasImage(m, core) {
			t.Errorf("without images, the condition is %+v", c)
		}
	})
}

// The kubelet removes unused images when the disk is full: to pull them again at once would fill it again.
func TestRemovedImageIsPulledAgainTheNextDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newImageHost(t, prepulled(), sim.WindowsOptions{}, nil)
		awaitImages(t, m, corev1.ConditionFalse)
		m.Windows.RemoveImage(core)
		time.Sleep(2 * time.Hour)
		if c := missing(m); c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "was removed from the host") {
			t.Errorf("condition %+v", c)
		}
		time.Sleep(20 * time.Hour)
		expectPulls(t, m, firstImage, core, nano)
		time.Sleep(5 * time.Hour)
		awaitImages(t, m, corev1.ConditionFalse)
		expectPulls(t, m, firstImage, core, nano, core)
	})
}

func TestFullDiskGetsNoImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newImageHost(t, prepulled(), sim.WindowsOptions{FreeBytes: 24 << 30}, nil)
		awaitImages(t, m, corev1.ConditionTrue)
		if c := missing(m); !strings.Contains(c.Message, "24 % of drive C: is free, and 25 % is needed") {
			t.Errorf("condition %+v", c)
		}
		expectPulls(t, m, firstImage)
	})
}

func TestPullThatDoesNotEndHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newImageHost(t, prepulled(), sim.WindowsOptions{}, nil)
		awaitImages(t, m, corev1.ConditionFalse)
		m.Windows.SlowPulls(40 * time.Minute)
		wanted := withImage(m.Request.Desired, firstImage)
		wanted.Images = append(prepulled(), desired.Image{Name: "mcr.test/a:1"}, desired.Image{Name: "mcr.test/b:1"})
		m.Publish(t, wanted)
		m.AwaitSettings(t, wanted)
		time.Sleep(75 * time.Minute)
		if c := missing(m); c.Status != corev1.ConditionTrue || strings.Count(c.Message, "could not be pulled") != 2 {
			t.Errorf("condition %+v", c)
		}
	})
}

// An error of the runtime that says nothing about the image is no finding.
func TestStoppedRuntimeIsNoFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newImageHost(t, prepulled(), sim.WindowsOptions{}, func(w *sim.Windows) {
			w.RefuseImage(core, &cri.Error{Code: cri.Unavailable, Message: "stopping"})
		})
		time.Sleep(10 * time.Minute)
		if c := missing(m); c.Status != corev1.ConditionUnknown {
			t.Errorf("condition %+v", c)
		}
		m.Windows.RefuseImage(core, nil)
		awaitImages(t, m, corev1.ConditionFalse)
	})
}
