//go:build linux

package olm

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Config is spec.config of a Subscription, as far as the documents of this operator use it.
type Config struct {
	Env          []corev1.EnvVar              `json:"env"`
	NodeSelector map[string]string            `json:"nodeSelector"`
	Tolerations  []corev1.Toleration          `json:"tolerations"`
	Resources    *corev1.ResourceRequirements `json:"resources"`
}

// merge changes a pod as OLM does (pkg/controller/operators/olm/overrides/inject): variables replace those of the same name, tolerations are
// added, and node selector and resources are replaced as a whole.
func (c Config) merge(pod *corev1.PodSpec) {
	for i := range pod.Containers {
		container := &pod.Containers[i]
		container.Env = setEnv(container.Env, c.Env...)
		if c.Resources != nil {
			container.Resources = *c.Resources
		}
	}
	for _, t := range c.Tolerations {
		if !slices.ContainsFunc(pod.Tolerations, func(has corev1.Toleration) bool { return equality.Semantic.DeepEqual(has, t) }) {
			pod.Tolerations = append(pod.Tolerations, t)
		}
	}
	if c.NodeSelector != nil {
		pod.NodeSelector = c.NodeSelector
	}
}

// setEnv sets variables; new ones come last.
func setEnv(env []corev1.EnvVar, set ...corev1.EnvVar) []corev1.EnvVar {
	for _, v := range set {
		if i := slices.IndexFunc(env, func(has corev1.EnvVar) bool { return has.Name == v.Name }); i >= 0 {
			env[i] = v
		} else {
			env = append(env, v)
		}
	}
	return env
}
