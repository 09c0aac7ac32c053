package win

import (
	"errors"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestDefenderKeepsTheContract(t *testing.T) {
	if _, err := isRunning(defenderService); !errors.Is(err, hostapi.ErrNotFound) {
		t.Skipf("this Windows has Defender (%v), whose exclusions are not a test's", err)
	}
	contract.Defender(t, func(t *testing.T) contract.DefenderFixture {
		return contract.DefenderFixture{
			Defender:     mustHost(t).Defender,
			Stop:         func(*testing.T) {},
			NoExclusions: "this Windows has no Defender",
		}
	})
}

// TestUnmanageableDefenderIsAnError has a running service without its interface, and real-time protection.
func TestUnmanageableDefenderIsAnError(t *testing.T) {
	if _, err := isRunning(defenderService); !errors.Is(err, hostapi.ErrNotFound) {
		t.Skipf("this Windows has Defender (%v)", err)
	}
	h := mustHost(t)
	mustRunInstead(t, h.Services, defenderService)
	some := desired.Exclusions{Paths: []string{`C:\x`}}
	_, err := h.Defender.Exclusions(t.Context())
	_, errScans := h.Defender.Scans(t.Context())
	for _, err := range []error{err, errScans, h.Defender.Add(t.Context(), some), h.Defender.Remove(t.Context(), some)} {
		if err == nil || errors.Is(err, hostapi.ErrNoDefender) || !strings.Contains(err.Error(), defenderNamespace) {
			t.Errorf("without its WMI namespace, Defender returned %v", err)
		}
	}
	if err := h.Services.Stop(t.Context(), defenderService); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Defender.Exclusions(t.Context()); !errors.Is(err, hostapi.ErrNoDefender) {
		t.Errorf("with Defender stopped: %v", err)
	}
}

func TestHiddenExclusionsTextIsRecognized(t *testing.T) {
	for text, want := range map[string]bool{
		"N/A: Administrators are not allowed to view exclusions": true,
		"N/A: Must be an administrator to view exclusions":       true,
		`N:\A`: false, `C:\k`: false, "": false,
	} {
		if isHidden(text) != want {
			t.Errorf("isHidden(%q) = %v", text, !want)
		}
	}
}
