// Package v1alpha1 holds everything that users and other programs can touch: the kinds WindowsInstance
// and WindowsConfig, and every name the operator and its daemon read or write in a cluster (labels,
// annotations, conditions, reasons, events, objects). docs/objects.md is generated from it.
//
// A WindowsInstance is one Windows host, however it was announced. Its status says how far the host is on
// its way to being a node, and what it waits for.
//
// +kubebuilder:object:generate=true
// +groupName=windowsmachineconfig.openshift.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupName is the API group of our kinds and the prefix of our labels and annotations.
const GroupName = "windowsmachineconfig.openshift.io"

// GroupVersion is the group and version of the kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// AddToScheme makes a scheme know the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &WindowsInstance{}, &WindowsInstanceList{}, &WindowsConfig{}, &WindowsConfigList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
