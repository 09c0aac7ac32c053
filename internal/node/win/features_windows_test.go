package win

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// switches inject faults into the lab's DISM (lab/shims/dismapi.c).
const switches = `Software\WMCOLab\DISM`

func TestADISMThatHangsEndsWithItsProcess(t *testing.T) {
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
		t.Errorf("Feature() = %s, %v, want the end of its time", state, err)
	}
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it took %s", took)
	}
}

func TestDISMErrorsAreReturned(t *testing.T) {
	mustBeWine(t)
	system := mustHost(t).System
	const features = `Software\WMCOLab\Features`
	mustSet(t, features, "Containers", 0)
	if state, err := system.Feature(t.Context(), "Containers"); err != nil || state != wicdapi.FeatureDisabled {
		t.Skipf("no DismApi.dll in this Wine (lab/shims/dismapi.c): %s, %v", state, err)
	}
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
