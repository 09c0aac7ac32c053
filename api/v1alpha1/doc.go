// Package v1alpha1 holds the kinds WindowsInstance, WindowsConfig and WindowsPolicySet. The names of labels, annotations, conditions and
// reasons are in package api, because they do not change with the version. docs/objects.md is generated from both.
//
// A WindowsInstance is one Windows host, whatever its source. Its status shows the progress of the host's join, and
// what it waits for.
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

// GroupVersion is the group and version of the kinds in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: api.GroupName, Version: "v1alpha1"}
}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &WindowsInstance{}, &WindowsInstanceList{}, &WindowsConfig{}, &WindowsConfigList{},
		&WindowsPolicySet{}, &WindowsPolicySetList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
