package storytest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// installsUpdates lets the operator install updates, in rings if there are any.
func (s *story) installsUpdates(rings ...v1alpha1.UpdateRing) {
	s.configure(func(c *v1alpha1.WindowsConfigSpec) {
		c.WindowsUpdates = v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall, Rings: rings}
	})
}

// upgraded returns when all hosts have the operator's version.
func (s *story) upgraded(podsEach int) {
	s.settled(podsEach)
	s.until("all are upgraded", time.Hour, func() bool { return s.at(s.version) == len(s.hosts) && s.ready() == len(s.hosts) })
	s.pass(10 * time.Minute)
}

// publish offers an update to all hosts: their Windows has found and downloaded it.
func (s *story) publish(kb string, noRestart bool) {
	s.record("Microsoft publishes %s", kb)
	for _, h := range s.hosts {
		h.updates.takes = 10 * time.Minute
		h.updates.offers = append(h.updates.offers, windowsupdate.Offer{KB: kb, Published: time.Now().UTC().Truncate(time.Second), NoRestart: noRestart})
	}
}

// have counts the hosts on which an update is installed.
func (s *story) have(kb string) (n int) {
	for _, h := range s.hosts {
		if slices.Contains(h.updates.installed, kb) {
			n++
		}
	}
	return n
}

func (s *story) waitsFor(instance string) string {
	if plan := s.instance(instance).Status.Plan; plan != nil {
		return plan.WaitsFor
	}
	return ""
}

func (s *story) label(node, key, value string) {
	n := s.node(node)
	n.Labels = kube.Merge(n.Labels, map[string]string{key: value})
	s.must(s.client.Update(s.ctx, n))
}

func ring(name string, days int32) v1alpha1.UpdateRing {
	return v1alpha1.UpdateRing{Name: name, NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"ring": name}}, DeferDays: days}
}

// The updates of a month go through two rings, drained and within the budget, with one restart for each host.
func TestStoryUpdatesInRings(t *testing.T) {
	runStory(t, "updates-in-rings", 4, atMost(2), func(s *story) {
		s.withoutQuirks("restarts are counted")
		s.upgraded(2)
		s.label("win-1", "ring", "early")
		for _, name := range []string{"win-2", "win-3", "win-4"} {
			s.label(name, "ring", "late")
		}
		s.installsUpdates(ring("early", 0), ring("late", 2))
		s.publish("KB5070001", false)
		s.publish("KB5070002", true)
		s.until("the early ring has the updates", 2*time.Hour, func() bool { return s.have("KB5070001") == 1 && s.ready() == 4 })
		if !slices.Contains(s.hosts[0].updates.installed, "KB5070002") {
			s.t.Error("win-1 does not have both updates")
		}
		s.pass(time.Hour)
		s.record("win-2 waits for %s", s.waitsFor("win-2"))
		s.until("all have them", 4*24*time.Hour, func() bool { return s.have("KB5070001") == 4 && s.have("KB5070002") == 4 && s.ready() == 4 })
		s.pass(2 * time.Hour)
		for _, h := range s.hosts {
			if h.bootID != 2 || len(h.updates.installed) != 2 {
				s.t.Errorf("%s was restarted %d times and has %q", h.name, h.bootID-1, h.updates.installed)
			}
			if got := s.instance(h.name).Status.InstalledUpdates; len(got) != 2 {
				s.t.Errorf("the status of %s has %v", h.name, got)
			}
		}
	})
}

// An update that fails on the first host is installed on no other. The node returns to service, and the update of the next month goes everywhere.
func TestStoryBadUpdateStops(t *testing.T) {
	for name, c := range map[string]struct {
		bad     func(*storyUpdates)
		restart bool
		part    string
	}{
		"update-fails":     {func(u *storyUpdates) { u.refuses = map[string]string{"KB5070001": "0x80070643"} }, false, "KB5070001 failed with 0x80070643"},
		"update-is-undone": {func(u *storyUpdates) { u.undoes = map[string]string{"KB5070001": "0x800f0922"} }, true, "rolled back KB5070001"},
	} {
		t.Run(name, func(t *testing.T) {
			runStory(t, name, 3, atMost(1), func(s *story) {
				s.upgraded(2)
				s.installsUpdates()
				for _, h := range s.hosts {
					c.bad(&h.updates)
				}
				s.publish("KB5070001", false)
				s.until("it failed", 3*time.Hour, func() bool { return s.instance("win-1").Status.Failure != nil && s.ready() == 3 })
				s.pass(24 * time.Hour)
				if message := s.instance("win-1").Status.Failure.Message; !strings.Contains(message, c.part) {
					s.t.Errorf("the failure is %q", message)
				}
				if n := s.have("KB5070001"); n > 0 {
					s.t.Errorf("%d hosts have the bad update", n)
				}
				for _, h := range s.hosts[1:] {
					if h.updates.order != nil || s.waitsFor(h.name) != api.ReasonRolloutStopped {
						s.t.Errorf("%s got order %v and waits for %q", h.name, h.updates.order, s.waitsFor(h.name))
					}
				}
				s.publish("KB5080001", false)
				s.until("the next one is installed", 6*time.Hour, func() bool { return s.have("KB5080001") == 3 && s.ready() == 3 })
				if n := s.have("KB5070001"); n > 0 {
					s.t.Errorf("%d hosts have the bad update", n)
				}
				s.record("the update is repaired, and win-1 is retried")
				for _, h := range s.hosts {
					h.updates.refuses, h.updates.undoes = nil, nil
				}
				s.annotate("win-1", api.AnnotationRetry, "true")
				s.until("all have it", 6*time.Hour, func() bool { return s.have("KB5070001") == 3 && s.ready() == 3 })
			})
		})
	}
}

// A node that does not work with an update stays out of service, and no other node gets the update.
func TestStoryNodeDoesNotWorkAfterUpdate(t *testing.T) {
	runStory(t, "node-does-not-work-after-update", 3, atMost(1), func(s *story) {
		s.upgraded(2)
		s.installsUpdates()
		for _, h := range s.hosts {
			h.updates.breaks = "KB5070001"
		}
		s.publish("KB5070001", false)
		s.until("it failed", 4*time.Hour, func() bool { return s.instance("win-1").Status.Failure != nil })
		s.pass(24 * time.Hour)
		if node := s.node("win-1"); !node.Spec.Unschedulable {
			s.t.Error("the broken node is back in service")
		}
		if n := s.have("KB5070001"); n != 1 {
			s.t.Errorf("%d hosts have the update, want the first one only", n)
		}
		s.record("an administrator repairs win-1 and retries it")
		for _, h := range s.hosts {
			h.serviceFault, h.updates.breaks = "", ""
		}
		s.annotate("win-1", api.AnnotationRetry, "true")
		s.until("all have it", 6*time.Hour, func() bool { return s.have("KB5070001") == 3 && s.ready() == 3 })
	})
}

// A node that does not work with an update gets its former Windows back, once and if that is allowed. No other node gets the update.
func TestStoryUpdateIsUninstalled(t *testing.T) {
	for name, c := range map[string]struct {
		edit      func(*storyUpdates)
		message   string
		isCordon  bool
		installed int
	}{
		"update-is-uninstalled": {func(*storyUpdates) {}, "the cumulative update was uninstalled, and the node works again", false, 0},
		"update-stays":          {func(u *storyUpdates) { u.staysFor = "DismRemovePackage failed with 0x800f0825" }, "uninstalling the update failed: DismRemovePackage", true, 1},
		"node-does-not-recover": {func(u *storyUpdates) { u.breaksAlways = true }, "and the node still does not work", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			runStory(t, name, 3, atMost(1), func(s *story) {
				s.upgraded(2)
				s.configure(func(c *v1alpha1.WindowsConfigSpec) {
					c.WindowsUpdates = v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall, Rollback: v1alpha1.UpdateRollbackUninstall}
				})
				for _, h := range s.hosts {
					h.updates.breaks = "KB5070001"
					c.edit(&h.updates)
				}
				s.publish("KB5070001", false)
				s.until("it failed", 6*time.Hour, func() bool { return s.instance("win-1").Status.Failure != nil })
				s.pass(24 * time.Hour)
				failure := s.instance("win-1").Status.Failure
				if !strings.Contains(failure.Message, "kubelet exits") || !strings.Contains(failure.Message, c.message) || !slices.Contains(failure.Updates, "KB5070001") {
					s.t.Errorf("the failure is %+v", failure)
				}
				if node := s.node("win-1"); node.Spec.Unschedulable != c.isCordon || s.have("KB5070001") != c.installed {
					s.t.Errorf("win-1 is out of service: %v; %d hosts have the update", node.Spec.Unschedulable, s.have("KB5070001"))
				}
				for _, h := range s.hosts[1:] {
					if h.updates.order != nil || s.waitsFor(h.name) != api.ReasonRolloutStopped {
						s.t.Errorf("%s got order %v and waits for %q", h.name, h.updates.order, s.waitsFor(h.name))
					}
				}
			})
		})
	}
}

// While an update is uninstalled from one host, no other one begins with it, even if it worked elsewhere.
func TestUpdateStopsBeforeItIsUninstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 4, atMost(2))
		s.withoutQuirks("hosts are compared at times")
		s.upgraded(1)
		s.configure(func(c *v1alpha1.WindowsConfigSpec) {
			c.WindowsUpdates = v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall, Rollback: v1alpha1.UpdateRollbackUninstall}
		})
		s.hosts[0].updates.breaks = "KB5070001"
		s.publish("KB5070001", false)
		s.until("it is uninstalled", 6*time.Hour, func() bool { return s.hosts[0].updates.undoing != "" })
		if f := s.instance("win-1").Status.Failure; f == nil || !slices.Contains(f.Updates, "KB5070001") || !strings.Contains(f.Message, "is being uninstalled") {
			t.Errorf("meanwhile, the failure is %+v", f)
		}
		began := 0
		for _, h := range s.hosts {
			if h.updates.order != nil {
				began++
			}
		}
		s.pass(24 * time.Hour)
		for _, h := range s.hosts {
			if h.updates.order != nil {
				began--
			}
		}
		if began != 0 {
			t.Errorf("%d more hosts began with the update", -began)
		}
		if f := s.instance("win-1").Status.Failure; f == nil || !strings.Contains(f.Message, "the node works again") || s.node("win-1").Spec.Unschedulable {
			t.Errorf("in the end, the failure is %+v", f)
		}
	})
}

// Windows wants a restart before an installation, and another one after it. Lost answers repeat nothing.
func TestStoryUpdateNeedsRestartFirst(t *testing.T) {
	runStory(t, "update-needs-restart-first", 2, atMost(1), func(s *story) {
		s.upgraded(1)
		s.installsUpdates()
		for _, h := range s.hosts {
			h.updates.firstRestart = true
			h.loses = 2 // the facts, and then the order
		}
		s.publish("KB5070001", false)
		s.until("all have it", 6*time.Hour, func() bool { return s.have("KB5070001") == 2 && s.ready() == 2 })
		for _, h := range s.hosts {
			if h.bootID != 3 || len(h.updates.installed) != 1 {
				s.t.Errorf("%s was restarted %d times and has %q", h.name, h.bootID-1, h.updates.installed)
			}
		}
	})
}

// Windows offers an installed update again and again. It is installed once.
func TestStoryUpdateIsOfferedAgain(t *testing.T) {
	runStory(t, "update-is-offered-again", 1, atMost(1), func(s *story) {
		s.upgraded(1)
		s.installsUpdates()
		s.publish("KB5070001", false)
		s.until("it is installed", 3*time.Hour, func() bool { return s.have("KB5070001") == 1 && s.ready() == 1 })
		s.publish("KB5070001", false)
		s.pass(48 * time.Hour)
		if h := s.hosts[0]; len(h.updates.installed) != 1 || s.waitsFor("win-1") != api.ReasonUpdateNotKept {
			s.t.Errorf("installed %q, waits for %q", h.updates.installed, s.waitsFor("win-1"))
		}
		s.annotate("win-1", api.AnnotationRetry, "true")
		s.until("it is installed again", 3*time.Hour, func() bool { return len(s.hosts[0].updates.installed) == 2 && s.ready() == 1 })
	})
}

// The policy changes after the node was drained for an update and before the order: nothing is installed.
func TestStoryUpdatesAreTurnedOff(t *testing.T) {
	runStory(t, "updates-are-turned-off", 2, atMost(1), func(s *story) {
		s.upgraded(1)
		s.installsUpdates()
		s.publish("KB5070001", false)
		s.budgets["web"] = 0
		s.until("its drain is blocked", time.Hour, func() bool { return s.instance("win-1").Status.Maintenance != nil })
		s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.WindowsUpdates.Policy = v1alpha1.UpdatesNotify })
		s.pass(time.Minute)
		s.budgets["web"] = 10
		s.until("it is back in service", 2*time.Hour, func() bool { return s.instance("win-1").Status.Maintenance == nil && s.ready() == 2 })
		if order := s.hosts[0].updates.order; order != nil {
			s.t.Errorf("updates were installed: %v", order)
		}
	})
}

// A host does not let the operator in: it gets no order, and the others are updated.
func TestStoryUpdateCannotBeOrdered(t *testing.T) {
	runStory(t, "update-cannot-be-ordered", 2, atMost(1), func(s *story) {
		s.upgraded(1)
		s.installsUpdates()
		s.hosts[0].ignores = s.line(0)
		s.publish("KB5070001", false)
		s.until("it failed", 2*time.Hour, func() bool { return s.instance("win-1").Status.Failure != nil })
		s.until("the other one has it", 2*time.Hour, func() bool { return s.have("KB5070001") == 1 && s.ready() == 2 })
		if h := s.hosts[0]; h.updates.order != nil || s.waitsFor("win-1") != api.ReasonFailed {
			s.t.Errorf("win-1 got order %v and waits for %q", h.updates.order, s.waitsFor("win-1"))
		}
	})
}

// A hostile host offers updates all the time and never installs any: it costs its own place in the budget for a limited time.
func TestStoryHostNeverInstalls(t *testing.T) {
	runStory(t, "host-never-installs", 2, atMost(1), func(s *story) {
		s.upgraded(1)
		s.installsUpdates()
		s.publish("KB5070001", false)
		s.hosts[0].updates.takes = 1000 * time.Hour
		s.until("it failed", 6*time.Hour, func() bool { return s.instance("win-1").Status.Failure != nil && s.ready() == 2 })
		s.pass(24 * time.Hour)
		if m := s.instance("win-1").Status.Maintenance; m != nil {
			s.t.Errorf("win-1 is in maintenance: %+v", m)
		}
	})
}

// TestUpdatesOfFleet prints how long a fleet takes to install an update of ten minutes with a restart, with a budget of 10 %, and the bound that budget,
// installation and restart set. WMCO_PATCH_HOSTS is the number of hosts.
func TestUpdatesOfFleet(t *testing.T) {
	t.Parallel()
	hosts := 20
	if text := os.Getenv("WMCO_PATCH_HOSTS"); text != "" {
		var err error
		if hosts, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	budget := max(hosts/10, 1)
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, hosts, atMost(int32(budget)))
		s.withoutQuirks("the duration is measured")
		s.upgraded(1)
		s.installsUpdates()
		began := time.Now()
		s.publish("KB5070001", false)
		s.until("all have it", 24*time.Hour, func() bool { return s.have("KB5070001") == hosts && s.ready() == hosts })
		took := time.Since(began)
		waves := (hosts + budget - 1) / budget
		bound := time.Duration(waves) * (s.hosts[0].updates.takes + restartTakes)
		fmt.Printf("updates: %d hosts, %d at a time: %.0f s, bound %.0f s\n", hosts, budget, took.Seconds(), bound.Seconds())
		if took > bound*5/4 {
			t.Errorf("%d hosts took %s, more than 1.25 times the bound of %s", hosts, took, bound)
		}
	})
}
