package desired

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// taintValue returns the declared value for the setting; empty for the default.
func taintValue(t v1alpha1.NodeTaint) string {
	if t == v1alpha1.TaintLowerCase {
		return api.TaintValueLowerCase
	}
	return ""
}

// Taints returns the taints of an existing Node, with the wanted value of taint os: the kubelet taints its Node only when it registers. Other
// taints are kept, and a removed taint os is not restored. changed is false if nothing differs.
func Taints(existing []corev1.Taint, want v1alpha1.NodeTaint) (taints []corev1.Taint, changed bool) {
	value := cmp.Or(taintValue(want), api.TaintValue)
	for _, t := range existing {
		isManaged := t.Key == api.TaintKey && t.Effect == corev1.TaintEffectNoSchedule && (t.Value == api.TaintValue || t.Value == api.TaintValueLowerCase)
		if isManaged && t.Value != value {
			t.Value, changed = value, true
		}
		taints = append(taints, t)
	}
	return taints, changed
}
