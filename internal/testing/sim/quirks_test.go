package sim_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func newQuirkyWindows(t *testing.T, o sim.WindowsOptions) *sim.Windows {
	t.Helper()
	o.Root = t.TempDir()
	w := sim.NewWindows(o)
	t.Cleanup(w.PowerOff)
	return w
}

func TestQuirksAreDrawnUnlessDisabled(t *testing.T) {
	t.Setenv(sim.SeedVariable, "")
	synctest.Test(t, func(t *testing.T) {
		chosen := sim.Quirks{Servicing: sim.ServicingQuirks{PendingFor: time.Hour}}
		for name, test := range map[string]struct {
			options sim.WindowsOptions
			want    sim.Quirks
		}{
			"by hostname":      {sim.WindowsOptions{Hostname: "win-7"}, sim.RandomPassingQuirks(sim.SeedOf("win-7"))},
			"by a seed":        {sim.WindowsOptions{Seed: 7}, sim.RandomPassingQuirks(7)},
			"as chosen":        {sim.WindowsOptions{Seed: 7, Quirks: chosen}, chosen},
			"disabled":         {sim.WindowsOptions{Seed: 7, NoQuirks: "each change is counted"}, sim.Quirks{}},
			"disabled but one": {sim.WindowsOptions{NoQuirks: "each change is counted", Quirks: chosen}, chosen},
		} {
			if got := newQuirkyWindows(t, test.options).Quirks(); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%s: its quirks are %+v, want %+v", name, got, test.want)
			}
		}
	})
}

func TestSeedReproducesQuirks(t *testing.T) {
	t.Setenv(sim.SeedVariable, "41")
	synctest.Test(t, func(t *testing.T) {
		w := newQuirkyWindows(t, sim.WindowsOptions{Hostname: "win-7"})
		if got, want := w.Quirks(), sim.RandomPassingQuirks(41); !reflect.DeepEqual(got, want) {
			t.Errorf("its quirks are %+v, want %+v", got, want)
		}
		if reported := w.DescribeQuirks(); !strings.Contains(reported, sim.SeedVariable+"=41") {
			t.Errorf("DescribeQuirks() = %q, want instructions to reproduce", reported)
		}
		w = newQuirkyWindows(t, sim.WindowsOptions{NoQuirks: "each change is counted"})
		if reported := w.DescribeQuirks(); strings.Contains(reported, sim.SeedVariable) || !strings.Contains(reported, "each change is counted") {
			t.Errorf("without quirks: %q", reported)
		}
	})
}

// TestNoQuirkTakesMinutesInRealTime: tests would have to wait for it.
func TestNoQuirkTakesMinutesInRealTime(t *testing.T) {
	for seed := range uint64(100) {
		w := newQuirkyWindows(t, sim.WindowsOptions{Seed: seed + 1})
		longest(t, reflect.ValueOf(w.Quirks()), "Quirks")
	}
}

func longest(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		if d := time.Duration(v.Int()); d.Abs() > time.Second {
			t.Errorf("%s takes %s", name, d)
		}
	case v.Kind() == reflect.Struct:
		for f, field := range v.Fields() {
			longest(t, field, name+"."+f.Name)
		}
	}
}

// TestEveryQuirkIsDrawn: a quirk that is never drawn tests nothing. Those that need an administrator are drawn for other tests only.
func TestEveryQuirkIsDrawn(t *testing.T) {
	manual := map[string]bool{
		"Servicing.RolledBack": true, "Servicing.Hangs": true, "Servicing.BrokenStore": true, "Setup.Name": true, "Setup.DockerHasPipe": true,
		"Network.Ports": true, "Adapter.Instead": true, "Adapter.Excluded": true, "Adapter.Listeners": true, "Files.Distrusted": true, "Files.Refusal": true,
	}
	// These are set otherwise: by tests of the facts, of an adapter with several addresses, of the lab, and by Files.Held.
	chosen := []string{"Servicing.Unread", "Network.ChoosesAddress", "Network.UpdatesByType", "Shell.OverlappedPipes", "Shell.HeldFor"}
	all, passing := map[string]bool{}, map[string]bool{}
	for seed := range uint64(200) {
		drawn(reflect.ValueOf(sim.RandomQuirks(seed)), "", all)
		drawn(reflect.ValueOf(sim.RandomPassingQuirks(seed)), "", passing)
	}
	for name, isDrawn := range all {
		switch isChosen := slices.Contains(chosen, name); {
		case isDrawn == isChosen:
			t.Errorf("%s is drawn: %v, want %v", name, isDrawn, !isChosen)
		case isDrawn && passing[name] == manual[name]:
			t.Errorf("%s is one of the passing quirks: %v, want %v", name, passing[name], !manual[name])
		}
	}
}

// drawn adds the names of quirks, and whether they are set.
func drawn(v reflect.Value, name string, into map[string]bool) {
	for f, field := range v.Fields() {
		if isGroup := field.Kind() == reflect.Struct && strings.HasSuffix(f.Type.String(), "Quirks"); isGroup || f.Type == reflect.TypeFor[sim.SlowServices]() {
			drawn(field, name+f.Name+".", into)
			continue
		}
		into[name+f.Name] = into[name+f.Name] || !field.IsZero()
	}
}
