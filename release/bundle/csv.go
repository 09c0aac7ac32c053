package bundle

import (
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// container returns the only container of the only Deployment.
func container(c *v1alpha1.ClusterServiceVersion) *corev1.Container {
	return &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
}

// manifest returns the CSV as an object without the fields that only a cluster writes.
func manifest(c *v1alpha1.ClusterServiceVersion) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	delete(content, "status")
	return content, err
}
