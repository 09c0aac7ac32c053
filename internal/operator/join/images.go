package join

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// ImagesTimeout is how long after the creation of its Node a host may pull images before it takes pods without them.
const ImagesTimeout = time.Hour

// Taints returns the taints with which a node registers, in addition to taint os. With images to pull, the node takes no pods until it has tried to
// pull them: if it were not Ready instead, a MachineHealthCheck could replace it while it pulls.
func Taints(own []corev1.Taint, images v1alpha1.ImagesSpec) []corev1.Taint {
	if len(images.Prepull) == 0 {
		return own
	}
	return append(slices.Clone(own), corev1.Taint{Key: api.TaintImages, Effect: corev1.TaintEffectNoSchedule})
}

// ImagesWait returns how long at most a node keeps the taint that Taints adds; 0 means that the taint can go. A node that could not pull an image
// does not wait for it.
func ImagesWait(node *corev1.Node, images v1alpha1.ImagesSpec, now time.Time) time.Duration {
	if len(images.Prepull) == 0 || !slices.ContainsFunc(node.Spec.Taints, nodestate.IsForImages) {
		return 0
	}
	if c := nodestate.Condition(node, api.ConditionImagesMissing); c != nil && c.Status != corev1.ConditionUnknown {
		return 0
	}
	return max(0, node.CreationTimestamp.Add(ImagesTimeout).Sub(now))
}
