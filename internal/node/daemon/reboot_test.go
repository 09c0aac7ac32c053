package daemon_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestAFeatureThatNeedsARestartBringsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWindows(t, sim.WindowsOptions{Kind: "each restart is expected", Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureDisabled}}), newCargo("1")
		mustSend(t, w, c)
		r, boot := newRequest(c), w.BootID()
		first := mustJoin(t, w, r)
		if first.Rebooting == "" || first.BootID != boot {
			t.Fatalf("result %+v, want a restart", first)
		}
		if again := mustJoin(t, w, r); again.Rebooting == "" {
			t.Errorf("result before the restart %+v, want a restart", again)
		}
		time.Sleep(10 * time.Second)
		if w.BootID() == boot {
			t.Fatal("the host did not restart")
		}
		if last := mustJoin(t, w, r); last.Rebooting != "" {
			t.Errorf("result after the restart %+v", last)
		}
		expectJoined(t, w, r)
	})
}

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
