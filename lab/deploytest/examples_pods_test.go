//go:build linux

package deploytest

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windows-machine-config/wmco/api"
)

// runsOnWindows wants a pod to select Windows nodes, and to tolerate their taint.
func runsOnWindows(template map[string]any) error {
	var pod corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod); err != nil {
		return err
	}
	if pod.Spec.NodeSelector[corev1.LabelOSStable] != "windows" {
		return errors.New("its pods do not select Windows nodes")
	}
	for _, toleration := range pod.Spec.Tolerations {
		taint := corev1.Taint{Key: api.TaintKey, Value: api.TaintValue, Effect: corev1.TaintEffectNoSchedule}
		if toleration.Key == taint.Key && toleration.Value == taint.Value && toleration.Effect == taint.Effect {
			return nil
		}
	}
	return errors.New("its pods do not tolerate the taint of Windows nodes")
}
