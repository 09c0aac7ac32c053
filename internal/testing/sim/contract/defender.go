package contract

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// DefenderFixture is Microsoft Defender for one test.
type DefenderFixture struct {
	Defender hostapi.Defender
	// Stop stops its service, or removes it, until the test ends.
	Stop func(t *testing.T)
	// NoExclusions is why exclusions cannot be tested; empty if they can, and there are none at first.
	NoExclusions string
	// SetByPolicy sets exclusions by a group policy.
	SetByPolicy func(t *testing.T, e desired.Exclusions)
	// Hide makes a policy hide exclusions.
	Hide func(t *testing.T)
	// Protect turns real-time protection on or off.
	Protect func(t *testing.T, on bool)
}

// Defender checks the contract of hostapi.Defender.
func Defender(t *testing.T, fixture func(t *testing.T) DefenderFixture) {
	withExclusions := func(t *testing.T) DefenderFixture {
		f := fixture(t)
		if f.NoExclusions != "" {
			t.Skip(f.NoExclusions)
		}
		return f
	}
	run(t, withExclusions, []test[DefenderFixture]{
		{"ExclusionsAreAdded", exclusionsAreAdded},
		{"ExclusionsAreRemoved", exclusionsAreRemoved},
		{"PolicyExclusionsStay", policyExclusionsStay},
		{"HiddenExclusionsAreReported", hiddenExclusionsAreReported},
		{"RealTimeProtectionIsReported", realTimeProtectionIsReported},
		{"CallsEndWithTheirContext", callsEndWithTheirContext},
	})
	run(t, fixture, []test[DefenderFixture]{{"StoppedDefenderIsReported", stoppedDefenderIsReported}})
}

func someExclusions() desired.Exclusions {
	return desired.Exclusions{Processes: []string{`C:\WICD contract\a program.exe`}, Paths: []string{`C:\WICD contract\one`, `C:\WICD contract\two`}}
}

func expectExclusions(t *testing.T, f DefenderFixture, want desired.Exclusions) {
	t.Helper()
	got, err := f.Defender.Exclusions(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Paths)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("exclusions (-want +got):\n%s", diff)
	}
}

func exclusionsAreAdded(t *testing.T, f DefenderFixture) {
	expectExclusions(t, f, desired.Exclusions{})
	all := someExclusions()
	for _, e := range []desired.Exclusions{{Paths: all.Paths[:1]}, all, all, {}} {
		if err := f.Defender.Add(deadline(t), e); err != nil {
			t.Fatal(err)
		}
	}
	expectExclusions(t, f, all)
}

func exclusionsAreRemoved(t *testing.T, f DefenderFixture) {
	all := someExclusions()
	other := desired.Exclusions{Processes: []string{strings.ToUpper(all.Processes[0])}, Paths: all.Paths[1:]}
	for _, err := range []error{
		f.Defender.Add(deadline(t), all),
		f.Defender.Remove(deadline(t), desired.Exclusions{Paths: []string{`C:\WICD contract\absent`}}),
		f.Defender.Remove(deadline(t), desired.Exclusions{}),
		f.Defender.Remove(deadline(t), other),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	expectExclusions(t, f, desired.Exclusions{Paths: all.Paths[:1]})
}

func policyExclusionsStay(t *testing.T, f DefenderFixture) {
	all := someExclusions()
	f.SetByPolicy(t, all)
	expectExclusions(t, f, all)
	if err := f.Defender.Remove(deadline(t), all); err != nil {
		t.Fatal(err)
	}
	expectExclusions(t, f, all)
}

func hiddenExclusionsAreReported(t *testing.T, f DefenderFixture) {
	f.Hide(t)
	if e, err := f.Defender.Exclusions(deadline(t)); !errors.Is(err, hostapi.ErrExclusionsHidden) || !e.IsEmpty() {
		t.Errorf("Exclusions() = %v, %v, want %v", e, err, hostapi.ErrExclusionsHidden)
	}
}

func realTimeProtectionIsReported(t *testing.T, f DefenderFixture) {
	for _, on := range []bool{true, false} {
		f.Protect(t, on)
		if scans, err := f.Defender.Scans(deadline(t)); err != nil || scans != on {
			t.Errorf("Scans() = %v, %v, want %v", scans, err, on)
		}
	}
}

func callsEndWithTheirContext(t *testing.T, f DefenderFixture) {
	ctx := canceled(t)
	_, err := f.Defender.Exclusions(ctx)
	_, errScans := f.Defender.Scans(ctx)
	for _, err := range []error{err, errScans, f.Defender.Add(ctx, someExclusions()), f.Defender.Remove(ctx, someExclusions())} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled call returned %v", err)
		}
	}
}

func stoppedDefenderIsReported(t *testing.T, f DefenderFixture) {
	f.Stop(t)
	_, err := f.Defender.Exclusions(deadline(t))
	_, errScans := f.Defender.Scans(deadline(t))
	for _, err := range []error{err, errScans, f.Defender.Add(deadline(t), someExclusions()), f.Defender.Remove(deadline(t), someExclusions())} {
		if !errors.Is(err, hostapi.ErrNoDefender) {
			t.Errorf("a call returned %v, want %v", err, hostapi.ErrNoDefender)
		}
	}
}
