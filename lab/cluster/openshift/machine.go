//go:build linux

package openshift

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// The versions of the two Machine APIs.
const (
	MachineAPI = "machine.openshift.io/v1beta1"
	ClusterAPI = "cluster.x-k8s.io/v1beta2"
)

// InfrastructureName is status.infrastructureName of object Infrastructure.
const InfrastructureName = "lab-7xq2p"

// NewMachine returns a Machine of one of the APIs as a MachineSet on AWS creates it. The labels are those of the MachineSet's template.
func NewMachine(apiVersion, namespace, name string, labels map[string]string) *unstructured.Unstructured {
	const secret = "windows-user-data"
	spec := map[string]any{
		"clusterName": InfrastructureName,
		"bootstrap":   map[string]any{"dataSecretName": secret},
		"infrastructureRef": map[string]any{
			"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": name,
		},
	}
	if apiVersion == MachineAPI {
		spec = map[string]any{
			"lifecycleHooks": map[string]any{},
			"metadata":       map[string]any{},
			"providerSpec": map[string]any{"value": map[string]any{
				"apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
				"ami": map[string]any{"id": "ami-0a1b2c3d4e5f60718"}, "instanceType": "m5a.large",
				"placement":      map[string]any{"availabilityZone": "us-east-2a", "region": "us-east-2"},
				"userDataSecret": map[string]any{"name": secret},
			}},
		}
	}
	m := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": "Machine", "spec": spec}}
	m.SetNamespace(namespace)
	m.SetName(name)
	m.SetLabels(labels)
	return m
}
