package kube

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Condition returns a condition, or the zero value if it is missing.
func Condition(i *v1alpha1.WindowsInstance, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(i.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// HasLeft reports whether an instance is being deleted and its host has left or never joined. Finalizers of other programs are ignored.
func HasLeft(i *v1alpha1.WindowsInstance) bool {
	return i.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(i, api.Finalizer)
}
