package desired

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// taintValue is what a declaration has of the setting: nothing for the usual one.
func taintValue(t v1alpha1.NodeTaint) string {
	if t == v1alpha1.TaintLowerCase {
		return api.TaintValueLowerCase
	}
	return ""
}

// Taints are those of an existing Node with the value of taint os that is wanted. The kubelet taints its Node only when it registers. Taints of
// others stay, and one that somebody removed stays away. changed is false when all is as wanted.
func Taints(has []corev1.Taint, want v1alpha1.NodeTaint) (taints []corev1.Taint, changed bool) {
	value := cmp.Or(taintValue(want), api.TaintValue)
	for _, t := range has {
		isOurs := t.Key == api.TaintKey && t.Effect == corev1.TaintEffectNoSchedule && (t.Value == api.TaintValue || t.Value == api.TaintValueLowerCase)
		if isOurs && t.Value != value {
			t.Value, changed = value, true
		}
		taints = append(taints, t)
	}
	return taints, changed
}
