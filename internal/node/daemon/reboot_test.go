package daemon_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestARestartThatIsNotAllowedIsReported(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{Kind: "each restart is expected", Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureDisabled}}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.MayReboot = false
	for range 2 {
		_, err := newWire(w).join(r)
		expectCode(t, err, wicdapi.CodeRebootNeeded)
	}
	w.Restart()
	mustJoin(t, w, r)
	expectJoined(t, w, r)
}

func TestAFeatureThatWindowsDoesNotKnowIsPassedOver(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureUnknown}}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	mustJoin(t, w, r)
	expectJoined(t, w, r)
	if again := mustJoin(t, w, r); again.Changed != nil {
		t.Errorf("changed %q", again.Changed)
	}
}
