package explain

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// unschedulable returns a pod that fits no node.
func unschedulable(os corev1.OSName, tolerations int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	pod.Spec.OS = &corev1.PodOS{Name: os}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: string(os), "nobody": "has-this"}
	pod.Spec.Containers = []corev1.Container{{Name: "web"}}
	for i := range tolerations {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint(strings.Repeat("k", 300), i)})
	}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return pod
}

// TestOversizedPodIsReported checks what the cache keeps of unschedulable pods, and how they are explained.
func TestOversizedPodIsReported(t *testing.T) {
	for name, item := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"small":               {unschedulable(corev1.Windows, 10), api.EventNoNodeFits},
		"large":               {unschedulable(corev1.Windows, 2400), api.EventPodTooLarge},
		"large and for Linux": {unschedulable(corev1.Linux, 2400), ""},
		"small and for Linux": {unschedulable(corev1.Linux, 0), ""},
		"large and scheduled": {func() *corev1.Pod { p := unschedulable(corev1.Windows, 2400); p.Spec.NodeName = "win-1"; return p }(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			kept, err := Pending().Transform(item.pod.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if size := kube.Memory(kept); size > maxPod || item.pod.Spec.OS.Name == corev1.Linux && size > 4<<10 {
				t.Errorf("%d bytes are kept", size)
			}
			p := open(t, nil, kept.(*corev1.Pod))
			for range 2 {
				reported, _, _ := strings.Cut(p.reconcile(t.Context(), kept.(*corev1.Pod)), ":")
				if reported != item.want {
					t.Errorf("the pod is annotated with %q, want %q", reported, item.want)
				}
			}
			if len(p.events.Events) != min(len(item.want), 1) {
				t.Errorf("the events are %q", p.events.Events)
			}
		})
	}
}

// unsynced is a cache that never becomes ready.
type unsynced struct{ client.Reader }

func (unsynced) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestMetricsDoNotWaitForPodCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, samples := time.Now(), make(chan prometheus.Metric, 1)
		newCount(unsynced{}).Collect(samples)
		if took := time.Since(began); took > 10*time.Second || len(samples) != 1 {
			t.Errorf("got %d samples after %s, want one with the read error", len(samples), took)
		}
	})
}
