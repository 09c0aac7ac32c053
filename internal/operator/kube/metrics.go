package kube

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windows-machine-config/wmco/internal/shared/metrics"
)

// NewCounter creates a metric that internal/shared/metrics describes. Like NewGauge, NewHistogram and NewGauges, it panics for an unknown name.
func NewCounter(name string) *prometheus.CounterVec {
	m := metrics.Of(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.LabelNames())
}

// NewGauge creates a gauge.
func NewGauge(name string) *prometheus.GaugeVec {
	m := metrics.Of(name)
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.LabelNames())
}

// NewHistogram creates a histogram with these upper bounds of its buckets.
func NewHistogram(name string, buckets []float64) *prometheus.HistogramVec {
	m := metrics.Of(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets}, m.LabelNames())
}

// Gauges are gauges whose samples are read from the cache at each scrape.
type Gauges struct {
	descriptions map[string]*prometheus.Desc
	read         func(ctx context.Context, sample Sample) error
}

// Sample adds one sample of a gauge.
type Sample func(name string, value float64, labels ...string)

// NewGauges creates gauges with these names; read adds their samples.
func NewGauges(read func(ctx context.Context, sample Sample) error, names ...string) Gauges {
	g := Gauges{map[string]*prometheus.Desc{}, read}
	for _, name := range names {
		m := metrics.Of(name)
		g.descriptions[name] = prometheus.NewDesc(m.Name, m.Help, m.LabelNames(), nil)
	}
	return g
}

// Describe implements prometheus.Collector.
func (g Gauges) Describe(to chan<- *prometheus.Desc) {
	for _, description := range g.descriptions {
		to <- description
	}
}

// readTimeout limits the time of a scrape, because the cache may not be ready.
const readTimeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (g Gauges) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	err := g.read(ctx, func(name string, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(g.descriptions[name], prometheus.GaugeValue, value, labels...)
	})
	if err != nil {
		for _, description := range g.descriptions {
			to <- prometheus.NewInvalidMetric(description, err)
		}
	}
}
