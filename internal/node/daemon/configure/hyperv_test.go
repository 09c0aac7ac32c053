package configure_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// hyperVComputer returns the options of a computer with the given state of the feature.
func hyperVComputer(feature wicdapi.FeatureState, got wicdapi.Virtualization) sim.WindowsOptions {
	return sim.WindowsOptions{NoQuirks: "each restart is expected", Virtualization: got, Features: map[string]wicdapi.FeatureState{
		desired.ContainersFeature: wicdapi.FeatureEnabled, desired.HyperVFeature: feature,
	}}
}

func stateOfHyperV(t *testing.T, w *sim.Windows) (wicdapi.FeatureState, bool) {
	t.Helper()
	got, err := w.Host().System.Feature(t.Context(), desired.HyperVFeature)
	if err != nil {
		t.Fatal(err)
	}
	return got, daemontest.Facts(t, w).Host.Virtualization.HyperV
}

func TestJoinEnablesHyperVOnCapableHosts(t *testing.T) {
	can := wicdapi.Virtualization{Processor: true}
	for name, test := range map[string]struct {
		options   sim.WindowsOptions
		mayReboot bool
		fails     string
		restarts  bool
		becomes   wicdapi.FeatureState
	}{
		"Hyper-V can be enabled":                {hyperVComputer(wicdapi.FeatureDisabled, can), true, "", true, wicdapi.FeatureEnabled},
		"enabled by hand":                       {hyperVComputer(wicdapi.FeaturePending, can), true, "", false, wicdapi.FeatureEnabled}, // takes effect when Windows starts
		"Hyper-V is running":                    {hyperVComputer(wicdapi.FeatureEnabled, can), true, "", false, wicdapi.FeatureEnabled},
		"the processor lacks virtualization":    {hyperVComputer(wicdapi.FeatureDisabled, wicdapi.Virtualization{}), true, "", false, wicdapi.FeatureDisabled},
		"a cloud without nested virtualization": {hyperVComputer(wicdapi.FeatureDisabled, wicdapi.Virtualization{Hypervisor: "KVMKVMKVM"}), true, "", false, wicdapi.FeatureDisabled},
		"the edition lacks it":                  {hyperVComputer(wicdapi.FeatureUnknown, can), true, "", false, wicdapi.FeatureUnknown},
		"no restart is allowed":                 {hyperVComputer(wicdapi.FeatureDisabled, can), false, "", false, wicdapi.FeatureDisabled},
		"Windows does not enable":               {hyperVComputer(wicdapi.FeatureDisabled, can), true, "feature " + desired.HyperVFeature, false, wicdapi.FeatureDisabled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := daemontest.NewHost(t, test.options)
				r.Desired.Features, r.MayReboot = append(r.Desired.Features, desired.HyperVFeature), test.mayReboot
				if test.fails != "" {
					w.FailNext(test.fails)
				}
				first := daemontest.MustJoin(t, w, r)
				if restarts := strings.Contains(first.Rebooting, desired.HyperVFeature); restarts != test.restarts {
					t.Fatalf("the result is %+v, want a restart: %v", first, test.restarts)
				}
				if test.restarts {
					time.Sleep(10 * time.Second)
					if last := daemontest.MustJoin(t, w, r); last.Rebooting != "" {
						t.Errorf("the result after the restart is %+v", last)
					}
				}
				daemontest.ExpectJoined(t, w, r)
				if got, runs := stateOfHyperV(t, w); got != test.becomes || runs != (got == wicdapi.FeatureEnabled) {
					t.Errorf("the feature is %s, and Hyper-V runs: %v; want %s", got, runs, test.becomes)
				}
			})
		})
	}
}

// expectHyperV checks the node's condition for Hyper-V.
func expectHyperV(t *testing.T, m *daemontest.Member, when string, status corev1.ConditionStatus, reason, message string) {
	t.Helper()
	synctest.Wait()
	c := m.Condition(api.ConditionHyperVCapable)
	if c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) || len(c.Message) > 1024 {
		t.Errorf("%s: the condition is %+v; want %s, %s, %q", when, c, status, reason, message)
	}
}

// TestHyperVIsEnabledWithoutExtraRestart requests Hyper-V isolation after the host has become a node.
func TestHyperVIsEnabledWithoutExtraRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := hyperVComputer(wicdapi.FeatureDisabled, wicdapi.Virtualization{Processor: true})
		m := daemontest.NewFollower(t, daemontest.Options{Windows: o, Heartbeat: 5 * time.Minute})
		expectHyperV(t, m, "before it is requested", "", "", "")

		boot, without := m.Windows.BootID(), m.Request.Desired
		with := without
		with.Features = append(slices.Clone(with.Features), desired.HyperVFeature)
		m.Windows.FailNext("feature " + desired.HyperVFeature)
		m.Follow(t, with)
		time.Sleep(time.Minute)
		expectHyperV(t, m, "when Windows fails", corev1.ConditionFalse, api.ReasonHyperVEnablingFailed, "simulated failure")
		time.Sleep(61 * time.Minute)
		expectHyperV(t, m, "an hour later", corev1.ConditionFalse, api.ReasonHyperVRestartPending, "kubectl windows reboot")
		if c := m.Condition(api.ConditionNodeRebootRequired); c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, desired.HyperVFeature) {
			t.Errorf("the pending restart is reported as: %+v", c)
		}
		if m.Windows.BootID() != boot {
			t.Error("the host was restarted")
		}
		m.Restart(t)
		expectHyperV(t, m, "after the restart", corev1.ConditionTrue, api.ReasonHyperVRuns, "Hyper-V is running")

		m.Follow(t, without)
		time.Sleep(time.Minute)
		expectHyperV(t, m, "when it is no longer requested", corev1.ConditionUnknown, api.ReasonHyperVNotWanted, "not removed")
		if got, _ := stateOfHyperV(t, m.Windows); got != wicdapi.FeatureEnabled {
			t.Errorf("the feature is %s", got)
		}
	})
}

func TestNodeReportsHyperVState(t *testing.T) {
	for reason, test := range map[string]struct {
		options sim.WindowsOptions
		message string
	}{
		api.ReasonHyperVUnavailable:                         {hyperVComputer(wicdapi.FeatureUnknown, wicdapi.Virtualization{Processor: true}), "Standard or Datacenter"},
		api.ReasonVirtualizationUnavailable:                 {hyperVComputer(wicdapi.FeatureDisabled, wicdapi.Virtualization{}), "in the firmware"},
		api.ReasonVirtualizationUnavailable + " in a cloud": {hyperVComputer(wicdapi.FeatureEnabled, wicdapi.Virtualization{Hypervisor: "KVM\x1b[31m" + strings.Repeat("x", 4096)}), `"KVM\x1b[31mxxxxxxxx", which`},
		api.ReasonHyperVRuns:                                {hyperVComputer(wicdapi.FeatureEnabled, wicdapi.Virtualization{Processor: true}), ""},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := daemontest.NewFollower(t, daemontest.Options{Windows: test.options})
				m.Stop()
				m.Request.Desired.Features = append(m.Request.Desired.Features, desired.HyperVFeature)
				daemontest.MustJoin(t, m.Windows, m.Request)
				m.Start(t)
				time.Sleep(time.Minute)
				reason, _, _ := strings.Cut(reason, " ")
				status := corev1.ConditionFalse
				if reason == api.ReasonHyperVRuns {
					status = corev1.ConditionTrue
				}
				expectHyperV(t, m, "then", status, reason, test.message)
			})
		})
	}
}
