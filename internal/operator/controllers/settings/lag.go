package settings

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// newLag returns the metric of nodes that have not applied the published settings of their version.
func newLag(c client.Reader, s *Store) kube.Gauges {
	return kube.NewGauges(func(ctx context.Context, sample kube.Sample) error {
		nodes, err := kube.WindowsNodes(ctx, c)
		for i := range nodes {
			existing := nodes[i].Annotations
			if existing[api.AnnotationVersion] == "" {
				continue
			}
			published, err := s.Cached(ctx, existing[api.AnnotationVersion])
			if err != nil || published.Annotations[api.AnnotationSettings] == existing[api.AnnotationSettings] {
				continue // a version that is no longer published has no newer settings
			}
			sample(api.MetricSettingsLag, time.Since(published.CreationTimestamp.Time).Seconds(), nodes[i].Name)
		}
		return err
	}, api.MetricSettingsLag)
}
