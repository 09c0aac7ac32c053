package configure_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func expectHNSState(t *testing.T, w *sim.Windows, want map[string]uint32) {
	t.Helper()
	if got := w.HNSState(); !maps.Equal(got, want) {
		t.Errorf("the Host Network Service has values %v, want %v", got, want)
	}
}

func TestLeaveRestoresHNSValues(t *testing.T) {
	const name = "EnableCompartmentNamespace"
	others := map[string]uint32{"Another": 7}
	with := func(number uint32) map[string]uint32 {
		all := maps.Clone(others)
		all[name] = number
		return all
	}
	for what, test := range map[string]struct {
		before map[string]uint32
		// meanwhile is what an administrator changes while the host is a node.
		meanwhile func(map[string]uint32)
		joined    map[string]uint32
		left      map[string]uint32
	}{
		"absent":                {before: others, joined: with(1), left: others},
		"set by a user":         {before: with(1), joined: with(1), left: with(1)},
		"another number":        {before: with(0), joined: with(1), left: with(0)},
		"changed by a user":     {before: others, meanwhile: func(v map[string]uint32) { v[name] = 2 }, joined: with(1), left: with(2)},
		"removed by a user":     {before: with(0), meanwhile: func(v map[string]uint32) { delete(v, name) }, joined: with(1), left: others},
		"restored by a rejoin":  {before: with(0), joined: with(1), left: with(0)},
		"nothing of anybody is": {joined: map[string]uint32{name: 1}, left: map[string]uint32{}},
	} {
		t.Run(what, func(t *testing.T) {
			w, r := daemontest.NewHost(t, sim.WindowsOptions{})
			w.EditHNSState(func(v map[string]uint32) { maps.Copy(v, test.before) })
			result := daemontest.MustJoin(t, w, r)
			expectHNSState(t, w, test.joined)
			if reported := slices.Contains(result.Changed, "value "+name+" of the Host Network Service set to 1"); reported == maps.Equal(test.before, test.joined) {
				t.Errorf("reported: %q", result.Changed)
			}
			daemontest.ExpectNoChange(t, w, r)
			if test.meanwhile != nil {
				w.EditHNSState(test.meanwhile)
			}
			if result := daemontest.MustLeave(t, w, r.Cluster); len(result.Remains) > 0 {
				t.Errorf("remains %q", result.Remains)
			}
			expectHNSState(t, w, test.left)
		})
	}
}

func TestHostJoinsWithoutHNSValues(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	w.FailNext("hns value EnableCompartmentNamespace")
	daemontest.MustJoin(t, w, r)
	expectHNSState(t, w, map[string]uint32{})
	daemontest.MustJoin(t, w, r)
	expectHNSState(t, w, map[string]uint32{"EnableCompartmentNamespace": 1})
	daemontest.MustWrite(t, w.Disk(), desired.State+`\hns-state.json`, "{")
	if result := daemontest.MustLeave(t, w, r.Cluster); len(result.Remains) > 0 {
		t.Errorf("remains %q", result.Remains)
	}
	expectHNSState(t, w, map[string]uint32{"EnableCompartmentNamespace": 1}) // its owner is unknown
}
