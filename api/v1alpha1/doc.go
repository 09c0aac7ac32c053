// Package v1alpha1 holds the kinds WindowsInstance and WindowsConfig. The names of labels, annotations, conditions and
// reasons are in package api, because they do not change with the version. docs/objects.md is generated from both.
//
// A WindowsInstance is one Windows host, however it was announced. Its status says how far the host is on
// its way to being a node, and what it waits for.
//
// +kubebuilder:object:generate=true
// +groupName=windowsmachineconfig.openshift.io
package v1alpha1

import (
	"github.com/windows-machine-config/wmco/api"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupVersion is the group and version of the kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: api.GroupName, Version: "v1alpha1"}
}

// AddToScheme makes a scheme know the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &WindowsInstance{}, &WindowsInstanceList{}, &WindowsConfig{}, &WindowsConfigList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
