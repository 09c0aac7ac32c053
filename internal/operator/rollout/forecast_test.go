package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// TestForecasts expects the order and times of all actions, each of which takes ten minutes.
func TestForecasts(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	fleet := func(max int, hosts ...string) rollout.Fleet {
		f := rollout.Fleet{Now: start, Policy: rollout.Policy{Version: "new", MaxUnavailable: intstr.FromInt(max)}}
		for _, name := range hosts {
			f.Hosts = append(f.Hosts, rollout.Host{
				Name: name, Joined: true, Staged: true, Disruption: v1alpha1.DisruptionDrain, Node: &rollout.Node{Name: name, Ready: true, Version: "old"},
			})
		}
		return f
	}
	change := func(f rollout.Fleet, change func(*rollout.Fleet)) rollout.Fleet {
		change(&f)
		return f
	}
	for name, test := range map[string]struct {
		fleet   rollout.Fleet
		steps   []string
		waiting []string
		end     time.Duration
	}{
		"budget of one":         {fleet(1, "a", "b", "c"), []string{"a Upgrade 0s", "b Upgrade 10m0s", "c Upgrade 20m0s"}, nil, 30 * time.Minute},
		"two at a time":         {fleet(2, "a", "b", "c"), []string{"a Upgrade 0s", "b Upgrade 0s", "c Upgrade 10m0s"}, nil, 20 * time.Minute},
		"all nodes up to date":  {change(fleet(1, "a"), func(f *rollout.Fleet) { f.Hosts[0].Node.Version = "new" }), nil, nil, 0},
		"content is not staged": {change(fleet(1, "a"), func(f *rollout.Fleet) { f.Hosts[0].Staged = false }), []string{"a Stage 0s", "a Upgrade 0s"}, nil, 10 * time.Minute},
		"a canary soaks": {change(fleet(2, "a", "b", "c"), func(f *rollout.Fleet) { f.Policy.Canary = &rollout.Canary{Count: 1, Soak: time.Hour} }),
			[]string{"a Upgrade 0s", "b Upgrade 1h10m0s", "c Upgrade 1h10m0s"}, nil, 80 * time.Minute},
		"paused": {change(fleet(1, "a", "b"), func(f *rollout.Fleet) { f.Hosts[0].Paused = true }), []string{"b Upgrade 0s"}, []string{"a " + api.ReasonPaused}, 10 * time.Minute},
		"a removal": {change(fleet(1, "a", "b"), func(f *rollout.Fleet) { f.Hosts[1].Leaving = true }),
			[]string{"b Leave 0s", "a Upgrade 10m0s"}, nil, 20 * time.Minute},
		"dead node uses the budget": {change(fleet(1, "a", "b"), func(f *rollout.Fleet) { f.Hosts[1].Node.Ready, f.Hosts[1].Node.Version = false, "new" }),
			nil, []string{"a " + api.ReasonBudget}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			steps, waiting, end := rollout.Forecast(test.fleet, 10*time.Minute)
			var got, waits []string
			for _, s := range steps {
				got = append(got, fmt.Sprintf("%s %s %s", s.Host, s.Action, s.At.Sub(start)))
			}
			for host, next := range waiting {
				waits = append(waits, host+" "+next.WaitsFor)
			}
			slices.Sort(waits)
			if !slices.Equal(got, test.steps) || !slices.Equal(waits, test.waiting) || end.Sub(start) != test.end {
				t.Errorf("the steps are %q, end after %s, waiting %q; want %q, %s, %q", got, end.Sub(start), waits, test.steps, test.end, test.waiting)
			}
			for _, h := range test.fleet.Hosts {
				if h.Node.Version == "new" && len(test.steps) > 0 && h.Node.Ready {
					t.Error("the fleet itself was changed")
				}
			}
		})
	}
}
