package bundle

import (
	"encoding/json"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// container returns the only container of the only Deployment.
func container(c *v1alpha1.ClusterServiceVersion) *corev1.Container {
	return &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
}

// manifest returns the CSV as an object without the fields that only a cluster writes.
func manifest(c *v1alpha1.ClusterServiceVersion) (map[string]any, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	delete(content, "status")
	return content, nil
}
