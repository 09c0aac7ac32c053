package nodestatus

import (
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/api"
)

// PolicyCounts are what the metrics report of the rules by which NetworkPolicies are enforced.
type PolicyCounts struct {
	// IsKnown is false until all endpoints were compared once.
	IsKnown bool
	// Endpoints is the number of endpoints with rules, ACLs that of their rules, Failures that of failed writes.
	Endpoints, ACLs, Failures int64
	// Effect is how long policies took from their arrival on the node until they were in force.
	Effect Durations
}

// Durations is a histogram of durations.
type Durations struct {
	counts [6]int64 // not cumulative; the last one is for all beyond the bounds
	sum    time.Duration
}

// bounds are the upper bounds of the buckets, in seconds.
func (d Durations) bounds() [5]float64 { return [5]float64{0.1, 0.5, 1, 5, 30} }

// Observe counts a duration.
func (d *Durations) Observe(took time.Duration) {
	d.sum += took
	for i, bound := range d.bounds() {
		if took.Seconds() <= bound {
			d.counts[i]++
			return
		}
	}
	d.counts[len(d.counts)-1]++
}

// durations adds a histogram without labels.
func (b *exposition) durations(name string, d Durations) {
	b.metric(name)
	total := int64(0)
	for i, bound := range d.bounds() {
		total += d.counts[i]
		fmt.Fprintf(b, "%s_bucket{le=\"%g\"} %d\n", name, bound, total)
	}
	total += d.counts[len(d.counts)-1]
	fmt.Fprintf(b, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %g\n%s_count %d\n", name, total, name, d.sum.Seconds(), name, total)
}

func (m *Metrics) writePolicies(b *exposition) {
	if m.Policies == nil {
		return
	}
	counts := m.Policies.PolicyCounts()
	if !counts.IsKnown {
		return
	}
	for _, one := range []struct {
		name  string
		value int64
	}{
		{api.MetricNodePolicyEndpoints, counts.Endpoints}, {api.MetricNodePolicyACLs, counts.ACLs}, {api.MetricNodePolicyFailures, counts.Failures},
	} {
		b.metric(one.name)
		b.sample(one.name, one.value)
	}
	b.durations(api.MetricNodePolicyEffect, counts.Effect)
}
