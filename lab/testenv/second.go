//go:build linux

package testenv

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

// SecondOperator installs another operator into a namespace, next to the Env's, as OLM does: its ClusterRoleBindings have other
// names, and it shares the other cluster-scoped objects. It does not start the operator.
func (env *Env) SecondOperator(ctx context.Context, namespace string) (*Operator, error) {
	root, err := Repository(ctx)
	if err != nil {
		return nil, err
	}
	objects, err := manifest.Render(filepath.Join(root, "deploy"))
	if err != nil {
		return nil, err
	}
	space := &unstructured.Unstructured{}
	space.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	space.SetName(namespace)
	install := []*unstructured.Unstructured{space}
	for _, o := range objects {
		switch o.GetKind() {
		case "ClusterRoleBinding":
			o.SetName(o.GetName() + "-" + namespace)
		case "ServiceAccount", "Role", "RoleBinding":
			o.SetNamespace(namespace)
		default:
			continue
		}
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			if subject, _ := s.(map[string]any); subject["namespace"] == api.DefaultNamespace {
				subject["namespace"] = namespace
			}
		}
		if len(subjects) > 0 {
			o.Object["subjects"] = subjects
		}
		install = append(install, o)
	}
	if err := manifest.ApplyObjects(ctx, env.Lab.ControlPlane.RESTConfig(), install); err != nil {
		return nil, fmt.Errorf("installing a second operator: %w", err)
	}
	kubeconfig := filepath.Join(env.folder.Path, namespace+".kubeconfig")
	if err := env.Lab.ControlPlane.KubeconfigFor(ctx, namespace, OperatorAccount, kubeconfig); err != nil {
		return nil, err
	}
	o := env.Operator.operatorOptions
	o.namespace, o.kubeconfig, o.log = namespace, kubeconfig, filepath.Join(env.folder.Path, namespace+".log")
	return &Operator{operatorOptions: o}, nil
}

// Uninstall removes the permissions of the Env's operator in the cluster, as its uninstallation does, and kills it.
func (env *Env) Uninstall(ctx context.Context) error {
	bindings, err := env.Clients.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, b := range bindings.Items {
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Name == OperatorAccount && s.Namespace == api.DefaultNamespace }) {
			continue
		}
		if err := env.Clients.RbacV1().ClusterRoleBindings().Delete(ctx, b.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	env.Operator.Kill()
	return nil
}
