package instance

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/remote"
)

// metrics are what the operator counts. Names are listed in docs/objects.md.
type metrics struct {
	stepSeconds *prometheus.HistogramVec
	joins       *prometheus.CounterVec
	channels    prometheus.Histogram
	bytes       *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, reader client.Reader) *metrics {
	m := &metrics{
		stepSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    api.MetricJoinStepSeconds,
			Help:    "Seconds that each step of a join took, by step.",
			Buckets: prometheus.ExponentialBuckets(0.1, 2, 14), // to half an hour
		}, []string{"step"}),
		joins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: api.MetricJoins,
			Help: "Attempts at a join that ended, by result (configured, waiting, failed) and reason.",
		}, []string{"result", "reason"}),
		channels: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    api.MetricJoinChannels,
			Help:    "SSH channels opened in one attempt at a join.",
			Buckets: []float64{0, 1, 2, 3, 4, 5, 6, 8, 16},
		}),
		bytes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    api.MetricJoinBytes,
			Help:    "Bytes on the wire in one attempt at a join, by direction (sent, received).",
			Buckets: prometheus.ExponentialBuckets(1<<10, 4, 11), // to a gigabyte
		}, []string{"direction"}),
	}
	r.MustRegister(m.stepSeconds, m.joins, m.channels, m.bytes, instanceCounter{reader})
	return m
}

func (m *metrics) connection(u remote.Usage) {
	m.channels.Observe(float64(u.Channels))
	m.bytes.WithLabelValues("sent").Observe(float64(u.BytesOut))
	m.bytes.WithLabelValues("received").Observe(float64(u.BytesIn))
}

// instanceCounter counts instances by condition whenever it is asked, from the cache.
type instanceCounter struct{ reader client.Reader }

func instancesDesc() *prometheus.Desc {
	return prometheus.NewDesc(api.MetricInstances,
		"WindowsInstances by condition, its status, and its reason.", []string{"condition", "status", "reason"}, nil)
}

// Describe tells the registry what is collected.
func (c instanceCounter) Describe(ch chan<- *prometheus.Desc) { ch <- instancesDesc() }

// Collect counts.
func (c instanceCounter) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var list v1alpha1.WindowsInstanceList
	if err := c.reader.List(ctx, &list); err != nil {
		ch <- prometheus.NewInvalidMetric(instancesDesc(), err)
		return
	}
	type key struct{ condition, status, reason string }
	counts := map[key]int{}
	for _, i := range list.Items {
		for _, cond := range i.Status.Conditions {
			counts[key{cond.Type, string(cond.Status), cond.Reason}]++
		}
	}
	for k, n := range counts {
		ch <- prometheus.MustNewConstMetric(instancesDesc(), prometheus.GaugeValue, float64(n), k.condition, k.status, k.reason)
	}
}
