package kube

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/windows-machine-config/wmco/internal/metrics"
)

// NewCounter, NewGauge, NewHistogram and Desc make what internal/metrics describes. They panic for a name that is not there.
func NewCounter(name string) *prometheus.CounterVec {
	m := metrics.Of(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.LabelNames())
}

// NewGauge makes a gauge.
func NewGauge(name string) *prometheus.GaugeVec {
	m := metrics.Of(name)
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.LabelNames())
}

// NewHistogram makes a histogram with the upper bounds of its buckets.
func NewHistogram(name string, buckets []float64) *prometheus.HistogramVec {
	m := metrics.Of(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets}, m.LabelNames())
}

// Desc is for those who collect a metric when they are asked.
func Desc(name string) *prometheus.Desc {
	m := metrics.Of(name)
	return prometheus.NewDesc(m.Name, m.Help, m.LabelNames(), nil)
}
