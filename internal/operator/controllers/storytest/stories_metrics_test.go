package storytest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	dto "github.com/prometheus/client_model/go"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/metrics"
)

// mustBeDocumented compares the operator's metrics with their documentation table.
func (s *story) mustBeDocumented() {
	s.t.Helper()
	families, err := s.registry.Gather()
	s.must(err)
	documented := map[string]metrics.Metric{}
	for _, m := range metrics.Operator() {
		documented[m.Name] = m
	}
	for _, f := range families {
		m, ok := documented[f.GetName()]
		if kind := strings.ToLower(f.GetType().String()); !ok || kind != string(m.Kind) || f.GetHelp() != m.Help {
			s.t.Errorf("metric %s, a %s, is documented as %+v", f.GetName(), kind, m)
		}
		for _, sample := range f.Metric {
			if got, want := labelNames(sample), slices.Sorted(slices.Values(m.LabelNames())); !slices.Equal(got, want) {
				s.t.Errorf("metric %s has labels %q, want %q", f.GetName(), got, want)
			}
		}
	}
}

func labelNames(m *dto.Metric) []string {
	names := map[string]bool{}
	for _, l := range m.Label {
		names[l.GetName()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// emitted sums a metric's samples that have all these label values.
func (s *story) emitted(name string, values ...string) (sum float64) {
	s.t.Helper()
	families, err := s.registry.Gather()
	s.must(err)
	for _, f := range families {
		for _, m := range f.Metric {
			got := map[string]bool{}
			for _, l := range m.Label {
				got[l.GetValue()] = true
			}
			if f.GetName() == name && !slices.ContainsFunc(values, func(v string) bool { return !got[v] }) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func TestMetricsShowWhyRolloutStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 3, atMost(1))
		s.firstFails(1)
		for _, test := range []struct {
			name   string
			values []string
			want   float64
		}{
			{api.MetricActionFailed, []string{"win-1", "Upgrade"}, 1},
			{api.MetricRolloutWaiting, []string{"Upgrade", api.ReasonRolloutStopped}, 2},
			{api.MetricActionSeconds, []string{"Upgrade", "failed"}, 1},
			{api.MetricInstances, []string{api.ConditionReady, "True"}, 3},
			{api.MetricInstanceProblem, nil, 0},
			{api.MetricSettingsLag, nil, 0},
		} {
			if got := s.emitted(test.name, test.values...); got != test.want {
				t.Errorf("%s with %q is %v, want %v", test.name, test.values, got, test.want)
			}
		}
		if s.emitted(api.MetricSSHConnections, api.ReasonConnected) == 0 {
			t.Error("no connection was counted")
		}
		s.mustBeDocumented()
	})
}
