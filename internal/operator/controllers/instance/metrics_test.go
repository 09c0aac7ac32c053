package instance

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windows-machine-config/wmco/internal/operator/join"
)

// A transfer may take an hour.
func TestStepHistogramCoversLongestStep(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry(), nil)
	m.stepSeconds.WithLabelValues(join.StepTransfer).Observe(time.Hour.Seconds())
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.stepSeconds)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	buckets := families[0].Metric[0].Histogram.Bucket
	if largest := buckets[len(buckets)-1]; largest.GetCumulativeCount() != 1 {
		t.Errorf("a step of an hour is above the largest bucket, %v s", largest.GetUpperBound())
	}
}
