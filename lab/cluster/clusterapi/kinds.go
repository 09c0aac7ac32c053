//go:build linux

package clusterapi

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The API groups of Cluster API, the versions of its kinds and of the provider's, and other well-known names.
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

// Kind returns the GroupVersionKind of a kind of Cluster API's core group.
func Kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: Group, Version: version, Kind: name}
}

// The kinds of the provider.
func labCluster() schema.GroupVersionKind         { return infrastructure("LabCluster") }
func labMachine() schema.GroupVersionKind         { return infrastructure("LabMachine") }
func labMachineTemplate() schema.GroupVersionKind { return infrastructure("LabMachineTemplate") }

func labControlPlane() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: controlPlaneGroup, Version: providerVersion, Kind: "LabControlPlane"}
}

func infrastructure(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: infrastructureGroup, Version: providerVersion, Kind: kind}
}

// providerKinds returns the CustomResourceDefinitions of the provider. Their label maps a version of Cluster API's contract to the
// version of the kind that implements it.
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

// object returns an object with the given fields.
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

// reference returns a reference to an object of a provider in the same namespace.
func reference(gvk schema.GroupVersionKind, name string) map[string]any {
	return map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": name}
}
