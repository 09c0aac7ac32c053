package win

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// switches inject faults into the lab's DISM (lab/windows/shims/dismapi.c), and features are its features.
const (
	switches = `Software\WMCOLab\DISM`
	features = `Software\WMCOLab\Features`
)

func TestHangingDISMEndsWithItsProcess(t *testing.T) {
	mustBeWine(t)
	system := mustHost(t).System
	if _, err := system.Feature(t.Context(), "Containers"); err != nil {
		t.Fatal(err)
	}
	mustSet(t, switches, "Milliseconds", 600_000)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	began := time.Now()
	state, err := system.Feature(ctx, "Containers")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Feature() = %s, %v, want a time-out", state, err)
	}
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it took %s", took)
	}
}

func TestDISMErrorsAreReturned(t *testing.T) {
	mustBeWine(t)
	system := disabled(t)
	mustSet(t, switches, "EnableResult", 0x800f082f)
	var failed *hostapi.FeatureError
	if _, err := system.EnableFeature(t.Context(), "Containers"); !errors.As(err, &failed) || failed.Call != "DismEnableFeature" || !failed.NeedsRestart() {
		t.Errorf("EnableFeature() = %v, want 0x800f082f", err)
	}
	mustSet(t, switches, "OpenResult", 0x80073712)
	if _, err := system.Feature(t.Context(), "Containers"); !errors.As(err, &failed) || failed.Code != 0x80073712 {
		t.Errorf("Feature() = %v, want 0x80073712", err)
	}
}

// disabled returns the lab's DISM with feature Containers disabled.
func disabled(t *testing.T) hostapi.System {
	t.Helper()
	system := mustHost(t).System
	mustSet(t, features, "Containers", 0)
	if state, err := system.Feature(t.Context(), "Containers"); err != nil || state != wicdapi.FeatureDisabled {
		t.Skipf("no DismApi.dll in this Wine (lab/windows/shims/dismapi.c): %s, %v", state, err)
	}
	return system
}

// TestFeatureIsPendingOrRolledBackAfterStart: TrustedInstaller may still work on it, or undo it.
func TestFeatureIsPendingOrRolledBackAfterStart(t *testing.T) {
	mustBeWine(t)
	system := disabled(t)
	mustSet(t, prefetch, "BootId", 100)
	enable := func() {
		t.Helper()
		if reboot, err := system.EnableFeature(t.Context(), "Containers"); err != nil || !reboot {
			t.Fatalf("EnableFeature() = %v, %v, want a restart", reboot, err)
		}
		mustSet(t, features, "Containers.BootId", 99) // since then, Windows has started
	}
	expect := func(what string, want wicdapi.FeatureState) {
		t.Helper()
		if got, err := system.Feature(t.Context(), "Containers"); err != nil || got != want {
			t.Fatalf("%s, the feature is %s, %v, want %s", what, got, err, want)
		}
	}
	mustSet(t, switches, "RollBacks", 1)
	enable()
	expect("after a start that undoes it", wicdapi.FeatureDisabled)
	mustSet(t, switches, "PendingMilliseconds", 600_000)
	enable()
	expect("soon after the next start", wicdapi.FeaturePending)
	mustSet(t, switches, "PendingMilliseconds", 0)
	expect("later", wicdapi.FeatureEnabled)
}
