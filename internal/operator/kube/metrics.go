package kube

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/windows-machine-config/wmco/internal/shared/metrics"
)

// NewCounter creates a metric that internal/shared/metrics describes. Like NewGauge, NewHistogram and Desc, it panics for an unknown name.
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

// Desc returns the description for a collector.
func Desc(name string) *prometheus.Desc {
	m := metrics.Of(name)
	return prometheus.NewDesc(m.Name, m.Help, m.LabelNames(), nil)
}
