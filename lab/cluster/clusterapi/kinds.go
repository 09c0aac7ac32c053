//go:build linux

package clusterapi

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The groups of Cluster API, and the version of its own kinds.
const (
	Group                = "cluster.x-k8s.io"
	infrastructureGroup  = "infrastructure." + Group
	controlPlaneGroup    = "controlplane." + Group
	version              = "v1beta2"
	providerVersion      = "v1"
	clusterNameLabel     = Group + "/cluster-name"
	machineFinalizer     = "labmachine." + infrastructureGroup
	bootstrapSecretValue = "value"
)

// Kind is a kind of Cluster API's own.
func Kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: Group, Version: version, Kind: name}
}

// The provider's kinds.
func labCluster() schema.GroupVersionKind         { return infrastructure("LabCluster") }
func labMachine() schema.GroupVersionKind         { return infrastructure("LabMachine") }
func labMachineTemplate() schema.GroupVersionKind { return infrastructure("LabMachineTemplate") }

func labControlPlane() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: controlPlaneGroup, Version: providerVersion, Kind: "LabControlPlane"}
}

func infrastructure(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: infrastructureGroup, Version: providerVersion, Kind: kind}
}

// providerKinds are the CustomResourceDefinitions of the provider. Their label maps a version of Cluster API's contract to the
// version that implements it.
func providerKinds() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, gvk := range []schema.GroupVersionKind{labCluster(), labMachine(), labMachineTemplate(), labControlPlane()} {
		singular := strings.ToLower(gvk.Kind)
		all = append(all, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": singular + "s." + gvk.Group, "labels": map[string]any{Group + "/" + version: providerVersion}},
			"spec": map[string]any{
				"group": gvk.Group, "scope": "Namespaced",
				"names": map[string]any{"kind": gvk.Kind, "listKind": gvk.Kind + "List", "plural": singular + "s", "singular": singular},
				"versions": []any{map[string]any{
					"name": gvk.Version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
				}},
			},
		}})
	}
	return all
}

// object is an object of a kind.
func object(gvk schema.GroupVersionKind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range fields {
		o.Object[field] = value
	}
	o.SetGroupVersionKind(gvk)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// reference is how Cluster API refers to an object of a provider in the same namespace.
func reference(gvk schema.GroupVersionKind, name string) map[string]any {
	return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": name}
}
