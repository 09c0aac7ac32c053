package configure_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestJoinRenamesHost has a name longer than NetBIOS allows, and also a feature that needs a restart: one restart covers both.
func TestJoinRenamesHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: "each restart is expected", Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureDisabled}})
		boot := w.BootID()
		r.Hostname = "Win-Machine-7x2qp-abcde"
		for range 2 { // the second time, before the restart
			first := daemontest.MustJoin(t, w, r)
			if !strings.Contains(first.Rebooting, r.Hostname) || !strings.Contains(first.Rebooting, "Containers") || first.BootID != boot {
				t.Errorf("result %+v, want a restart for name and feature", first)
			}
		}
		time.Sleep(10 * time.Second)
		if facts := daemontest.Facts(t, w).Host; facts.Hostname != r.Hostname || facts.BootID != "2" {
			t.Errorf("after the restart, boot %s, the name is %s", facts.BootID, facts.Hostname)
		}
		if last := daemontest.MustJoin(t, w, r); last.Rebooting != "" {
			t.Errorf("result after the restart %+v", last)
		}
		daemontest.ExpectJoined(t, w, r)
		r.Hostname = strings.ToUpper(r.Hostname)
		daemontest.ExpectNoChange(t, w, r)
	})
}

// TestJoinRenamesHostToLowerCase: vSphere's controller finds no machine whose name differs from the Node's in case. For case alone, a host with a
// Node is not restarted, no host is restarted twice, and no join fails.
func TestJoinRenamesHostToLowerCase(t *testing.T) {
	for name, test := range map[string]struct {
		register, mayReboot bool
		noQuirks            string
		quirks              sim.Quirks
		want                string
	}{
		"a host without a Node":              {true, true, "each restart is expected", sim.Quirks{}, "wanted"},
		"a host with a Node":                 {false, true, "each restart is expected", sim.Quirks{}, "WANTED"},
		"a host that may not restart":        {true, false, "each restart is expected", sim.Quirks{}, "WANTED"},
		"a host whose cloud resets the name": {true, true, "", sim.Quirks{Setup: sim.SetupQuirks{Name: "WANTED"}}, "WANTED"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := daemontest.NewHost(t, sim.WindowsOptions{Hostname: "WANTED", NoQuirks: test.noQuirks, Quirks: test.quirks})
				boot := w.BootID()
				r.Hostname, r.Register, r.MayReboot = "wanted", test.register, test.mayReboot
				renames := test.register && test.mayReboot
				if first := daemontest.MustJoin(t, w, r); (first.Rebooting != "") != renames {
					t.Errorf("result %+v, a restart is wanted: %t", first, renames)
				}
				time.Sleep(10 * time.Second)
				if last := daemontest.MustJoin(t, w, r); last.Rebooting != "" {
					t.Errorf("result of the last join %+v", last)
				}
				if facts := daemontest.Facts(t, w).Host; facts.Hostname != test.want || (w.BootID() != boot) != renames {
					t.Errorf("in boot %s, the name is %s, want %s", facts.BootID, facts.Hostname, test.want)
				}
				daemontest.ExpectJoined(t, w, r)
			})
		})
	}
}

func TestHostThatMayNotRestartIsNotRenamed(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	r.Hostname, r.MayReboot = "other", false
	before := daemontest.Facts(t, w).Host.PendingReboot
	_, err := daemontest.NewWire(w).Join(r)
	daemontest.ExpectCode(t, err, wicdapi.CodeRebootNeeded)
	if pending := daemontest.Facts(t, w).Host.PendingReboot; !slices.Equal(pending, before) {
		t.Errorf("Windows waits for a restart because of %q, want %q as before", pending, before)
	}
}

// TestRequestedHostnameIsNotRecorded: an update that joins the host again must not fail, or restart it, because an administrator renamed it.
func TestRequestedHostnameIsNotRecorded(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{Hostname: "wanted"})
	r.Hostname = "wanted"
	daemontest.MustJoin(t, w, r)
	if b, err := w.Disk().Read(desired.State + `\node.json`); err != nil || strings.Contains(string(b), "wanted") {
		t.Errorf("the record still has the name, %v:\n%s", err, b)
	}
}

func TestForbiddenRestartIsReported(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: "each restart is expected", Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureDisabled}})
	r.MayReboot = false
	for range 2 {
		_, err := daemontest.NewWire(w).Join(r)
		daemontest.ExpectCode(t, err, wicdapi.CodeRebootNeeded)
	}
	w.Restart()
	daemontest.MustJoin(t, w, r)
	daemontest.ExpectJoined(t, w, r)
}

func TestUnknownFeatureIsSkipped(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureUnknown}})
	daemontest.ExpectJoined(t, w, r)
	daemontest.ExpectNoChange(t, w, r)
}
