package join_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
)

func TestNodeWaitsForImagesAtMostAnHour(t *testing.T) {
	own := []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
	images := v1alpha1.ImagesSpec{Prepull: []v1alpha1.PrepulledImage{{Image: "mcr.test/a:1"}}}
	taints := join.Taints(own, images)
	if len(own) != 1 || len(taints) != 2 || len(join.Taints(own, v1alpha1.ImagesSpec{})) != 1 {
		t.Fatalf("taints %v", taints)
	}
	created := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		taints []corev1.Taint
		images v1alpha1.ImagesSpec
		status corev1.ConditionStatus // of WindowsImagesMissing; absent if empty
		after  time.Duration
		want   time.Duration
	}{
		"nothing reported":            {taints, images, "", 0, time.Hour},
		"pulling":                     {taints, images, corev1.ConditionUnknown, 20 * time.Minute, 40 * time.Minute},
		"pulled":                      {taints, images, corev1.ConditionFalse, 0, 0},
		"not pulled":                  {taints, images, corev1.ConditionTrue, 0, 0},
		"nothing reported in time":    {taints, images, "", time.Hour, 0},
		"pulling for too long":        {taints, images, corev1.ConditionUnknown, 2 * time.Hour, 0},
		"images are no longer listed": {taints, v1alpha1.ImagesSpec{}, corev1.ConditionUnknown, 0, 0},
		"without the taint":           {own, images, corev1.ConditionUnknown, 0, 0},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}, Spec: corev1.NodeSpec{Taints: test.taints}}
		if test.status != "" {
			node.Status.Conditions = []corev1.NodeCondition{{Type: api.ConditionImagesMissing, Status: test.status}}
		}
		if got := join.ImagesWait(node, test.images, created.Add(test.after)); got != test.want {
			t.Errorf("%s: ImagesWait() = %v, want %v", name, got, test.want)
		}
	}
}
