package controllers

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// buildInfo returns the metric that identifies the running operator.
func buildInfo(o Options) prometheus.Collector {
	g := kube.NewGauge(api.MetricBuildInfo)
	g.WithLabelValues(o.Version, desired.ShortDigest(o.Payload.Manifest.Digest)).Set(1)
	return g
}
