package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podsPage is the number of pods per request. A pod may have 1.5 MB, and a tenant may have many such pods.
const podsPage = 50

// EachPod reads pods from the API server in pages and calls visit until it returns false.
func EachPod(ctx context.Context, live client.Reader, visit func(*corev1.Pod) bool, options ...client.ListOption) error {
	for next := ""; ; {
		var page corev1.PodList
		if err := live.List(ctx, &page, append(options, client.Limit(podsPage), client.Continue(next))...); err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		for i := range page.Items {
			if !visit(&page.Items[i]) {
				return nil
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}
