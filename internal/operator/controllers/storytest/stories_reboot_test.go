package storytest

import (
	"slices"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// requestReboot requests a restart as kubectl annotate node does.
func (s *story) requestReboot(names ...string) {
	s.t.Helper()
	for _, name := range names {
		node := s.node(name)
		node.Annotations[api.AnnotationReboot] = ""
		s.must(s.client.Update(s.ctx, node))
	}
}

// In the original operator, the restart command lost its own response, the annotation stayed, and the host restarted forever.
func TestStoryRestartLosesResponse(t *testing.T) {
	runStory(t, "restart-loses-its-response", 6, atMost(2), func(s *story) {
		s.joined()
		for _, h := range s.hosts {
			h.loses = 2 // the facts, and then the restart
			s.requestReboot(h.name)
		}
		s.until("all have restarted", time.Hour, func() bool {
			return s.ready() == 6 && !slices.ContainsFunc(s.hosts, func(h *storyHost) bool { return h.bootID == 1 })
		})
		s.pass(time.Hour)
		for _, h := range s.hosts {
			if _, requested := s.node(h.name).Annotations[api.AnnotationReboot]; requested || h.bootID != 2 {
				s.t.Errorf("%s has boot ID %d, its annotation is there: %v; want one restart", h.name, h.bootID, requested)
			}
		}
	})
}

// In the original operator, a host was cleaned up over SSH while another process restarted it, and half of the files stayed.
func TestStoryRemovedDuringReboot(t *testing.T) {
	runStory(t, "removed-during-reboot", 2, atMost(1), func(s *story) {
		s.joined()
		s.requestReboot("win-1")
		s.until("win-1 restarts", time.Hour, func() bool { return s.hosts[0].bootID == 2 })
		s.record("win-1 is removed")
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.until("win-1 has left", time.Hour, func() bool { return len(s.allInstances()) == 1 && len(s.nodes()) == 1 })
		if h := s.hosts[0]; h.version != "" || h.bootID != 2 {
			s.t.Errorf("version %q stayed on win-1, its boot ID is %d", h.version, h.bootID)
		}
	})
}

// Programs that replace files at each start keep a restart pending forever. Such hosts were formerly restarted once a minute.
func TestStoryRestartDoesNotHelp(t *testing.T) {
	runStory(t, "restart-does-not-help", 1, rebootsAllowed(), func(s *story) {
		s.joined()
		h := s.hosts[0]
		h.pending = api.RebootPendingPrefix + "files in use wait for their replacement"
		s.pass(48 * time.Hour)
		if h.bootID != 2 {
			s.t.Errorf("it was restarted %d times, want once", h.bootID-1)
		}
		s.record("RebootRequired: %s", kube.Condition(s.instance("win-1"), api.ConditionRebootRequired).Message)
		s.record("an update is also installed")
		h.pending += "; Windows Update installed updates"
		s.pass(time.Hour)
		if h.bootID != 3 {
			s.t.Errorf("it was restarted %d times, want once more", h.bootID-1)
		}
		h.pending = ""
		s.pass(25 * time.Hour)
		s.record("files are pending again days later")
		h.pending = api.RebootPendingPrefix + "files in use wait for their replacement"
		s.pass(time.Hour)
		if h.bootID != 4 {
			s.t.Errorf("it was restarted %d times, want once more", h.bootID-1)
		}
	})
}

// Windows setup and servicing take time, and the feature is still missing in the end. The operator waits, then stalls, and WICD tries again when the
// user requests a retry.
func TestStoryFeatureMissingAfterRestart(t *testing.T) {
	runStory(t, "feature-missing-after-restart", 1, rebootsAllowed(), func(s *story) {
		h, began, attempts := s.hosts[0], time.Time{}, 0
		h.temporaryError = func(r wicdapi.JoinRequest) error {
			if attempts++; attempts == 1 {
				began = time.Now() // when the quirks of Windows have passed
			}
			switch up := time.Since(began); {
			case r.Retried != "":
				return nil
			case up < 5*time.Minute:
				return &wicdapi.Error{Code: wicdapi.CodeWaitingForSetup, Message: "Windows is completing its setup"}
			case up < 15*time.Minute:
				return &wicdapi.Error{Code: wicdapi.CodeServicing, Message: "Windows is installing features or updates"}
			}
			return &wicdapi.Error{Code: wicdapi.CodeRebootDidNotHelp, Message: "the restart did not help: feature Containers of Windows is Disabled"}
		}
		s.announce(s.hosts...)
		for _, reason := range []string{api.ReasonWaitingForWindowsSetup, api.ReasonWindowsServicing, api.ReasonRebootDidNotHelp} {
			s.until(reason, time.Hour, func() bool { return kube.Condition(s.instance("win-1"), api.ConditionReady).Reason == reason })
			stalled := kube.Condition(s.instance("win-1"), api.ConditionStalled).Reason
			if (stalled != "") != (reason == api.ReasonRebootDidNotHelp) {
				s.t.Errorf("condition Stalled has reason %q while the host has reason %s", stalled, reason)
			}
		}
		before := attempts
		s.pass(6 * time.Hour)
		if n := attempts - before; n < 6 || n > 60 {
			s.t.Errorf("the host was tried %d times in six hours", n)
		}
		s.annotate("win-1", api.AnnotationRetry, "true")
		s.until("it is a node", time.Hour, func() bool { return s.ready() == 1 })
	})
}

// A restart is granted soon after Windows has started on its own, while Windows completes its setup, which WICD awaits for half an hour.
func TestStoryRestartWaitsForWindows(t *testing.T) {
	runStory(t, "restart-waits-for-windows", 1, rebootsAllowed(), func(s *story) {
		s.joined()
		h := s.hosts[0]
		h.pending, h.busyUntil = api.RebootPendingPrefix+"Windows Update installed updates", time.Now().Add(29*time.Minute)
		s.until("it restarts", time.Hour, func() bool { return h.bootID == 2 })
		h.pending = ""
		s.until("it is back in service", time.Hour, func() bool { return s.ready() == 1 && s.instance("win-1").Status.Maintenance == nil })
		s.pass(time.Hour)
		if h.bootID != 2 || s.ready() != 1 {
			s.t.Errorf("it was restarted %d times, want once; %d nodes are in service", h.bootID-1, s.ready())
		}
	})
}

// After a restart, the kubelet may be Ready before WICD has checked for a pending restart.
func TestStoryWICDIsLateAfterRestart(t *testing.T) {
	runStory(t, "wicd-is-late-after-restart", 1, rebootsAllowed(), func(s *story) {
		s.joined()
		h := s.hosts[0]
		h.late, h.pending = 3*time.Minute, api.RebootPendingPrefix+"Windows Update installed updates"
		s.until("it restarts", time.Hour, func() bool { return h.bootID == 2 })
		h.pending = ""
		s.pass(time.Hour)
		if h.bootID != 2 || s.ready() != 1 {
			s.t.Errorf("it was restarted %d times, want once; %d nodes are in service", h.bootID-1, s.ready())
		}
	})
}

// Kubelet resource managers take effect with a restart of Windows. Nodes wait until restarts are allowed; then each restarts once, drained and within
// the budget. Disabling the managers needs no restart.
func TestStoryManagersOfTheKubelet(t *testing.T) {
	runStory(t, "kubelet-managers", 6, atMost(2), func(s *story) {
		s.joined()
		for _, h := range s.hosts {
			s.addPod(h.name, "web")
			got, boot := "", h.bootID
			h.pendingRestart = func() string {
				node, _ := s.published(h.version)
				target := node.KubeletResources().State()
				if target == "" || h.bootID != boot {
					got, boot = target, h.bootID
				}
				if target == got {
					return ""
				}
				return api.RebootPendingPrefix + "the kubelet has other managers"
			}
		}
		restarts := func(want int) {
			s.t.Helper()
			for _, h := range s.hosts {
				if h.bootID != 1+want {
					s.t.Errorf("%s was restarted %d times, want %d", h.name, h.bootID-1, want)
				}
			}
		}
		s.record("containers get exclusive processors")
		s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Kubelet.CPUManagerPolicy = v1alpha1.CPUManagerStatic })
		s.pass(3 * time.Hour)
		restarts(0)
		s.record("restarts are allowed")
		s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Rollout.Reboots = v1alpha1.RebootsAllowed })
		s.until("all have restarted", 12*time.Hour, func() bool {
			return s.ready() == 6 && !slices.ContainsFunc(s.hosts, func(h *storyHost) bool { return h.bootID == 1 })
		})
		s.record("a kubelet setting changes")
		s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Kubelet.MaxPods = 100 })
		s.pass(3 * time.Hour)
		restarts(1)
		s.record("containers share processors again")
		s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Kubelet.CPUManagerPolicy = v1alpha1.CPUManagerNone })
		s.pass(3 * time.Hour)
		restarts(1)
	})
}

func rebootsAllowed() v1alpha1.RolloutSpec {
	r := atMost(1)
	r.Reboots = v1alpha1.RebootsAllowed
	return r
}
