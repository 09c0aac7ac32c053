package settings

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// lag collects which nodes have not applied what is published for their version. It reads the cache at each scrape.
type lag struct {
	client client.Reader
	store  *Store
	desc   *prometheus.Desc
}

func newLag(c client.Reader, s *Store) lag { return lag{c, s, kube.Desc(api.MetricSettingsLag)} }

// Describe implements prometheus.Collector.
func (l lag) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// Collect implements prometheus.Collector.
func (l lag) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	nodes, err := kube.WindowsNodes(ctx, l.client)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(l.desc, err)
		return
	}
	for i := range nodes {
		existing := nodes[i].Annotations
		if existing[api.AnnotationVersion] == "" {
			continue
		}
		published, err := l.store.Cached(ctx, existing[api.AnnotationVersion])
		if err != nil || published.Annotations[api.AnnotationSettings] == existing[api.AnnotationSettings] {
			continue // a version that is no longer published has no newer settings
		}
		since := time.Since(published.CreationTimestamp.Time)
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, since.Seconds(), nodes[i].Name)
	}
}
