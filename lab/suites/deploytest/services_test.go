//go:build linux

package deploytest

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "services"}}}
}

// testSettingsWriters has other users with permissions for ConfigMaps try to write the settings that all Windows nodes apply as
// SYSTEM.
func (c *cluster) testSettingsWriters(t *testing.T) {
	const rejected = "is what Windows nodes obey, and only the operator writes it"
	const name = "windows-services-9"
	o := c.asOperator(t).CoreV1().ConfigMaps(namespace)
	must(t, errOf(o.Create(t.Context(), configMap(name), metav1.CreateOptions{})))
	for _, who := range []clients{c.mayWriteConfigMaps(t, "pipeline"), c.admin} {
		maps := who.CoreV1().ConfigMaps(namespace)
		try(t, []attempt{
			{"create settings", rejected, func(ctx context.Context) error {
				return errOf(maps.Create(ctx, configMap("windows-services-8"), metav1.CreateOptions{}))
			}},
			{"create settings with a generated name", rejected, func(ctx context.Context) error {
				cm := configMap("")
				cm.GenerateName = "windows-services-"
				return errOf(maps.Create(ctx, cm, metav1.CreateOptions{}))
			}},
			{"apply settings", rejected, func(ctx context.Context) error {
				return errOf(maps.Patch(ctx, "windows-services-8", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"windows-services-8"}}`), metav1.PatchOptions{FieldManager: "x"}))
			}},
			{"change settings", rejected, func(ctx context.Context) error {
				return errOf(maps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"services":"x"}}`), metav1.PatchOptions{}))
			}},
			{"label settings", rejected, func(ctx context.Context) error {
				return errOf(maps.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
			}},
			{"delete settings", rejected, func(ctx context.Context) error { return maps.Delete(ctx, name, metav1.DeleteOptions{}) }},
			{"delete settings as a collection", rejected, func(ctx context.Context) error {
				return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "test=services"})
			}},
			{"create and delete another ConfigMap", "", func(ctx context.Context) error {
				if _, err := maps.Create(ctx, configMap("windows-service"), metav1.CreateOptions{}); err != nil {
					return err
				}
				return maps.Delete(ctx, "windows-service", metav1.DeleteOptions{})
			}},
			{"change the ConfigMap of hosts", "", func(ctx context.Context) error {
				return errOf(maps.Patch(ctx, "windows-instances", types.MergePatchType, []byte(`{"data":{"10.0.0.9":"username=core"}}`), metav1.PatchOptions{}))
			}},
		})
	}
	elsewhere := c.admin.CoreV1().ConfigMaps("default")
	try(t, []attempt{
		{"create a ConfigMap with the name in another namespace", "", func(ctx context.Context) error {
			if _, err := elsewhere.Create(ctx, configMap(name), metav1.CreateOptions{}); err != nil {
				return err
			}
			return elsewhere.Delete(ctx, name, metav1.DeleteOptions{})
		}},
		{"create settings as an account with the operator's name in another namespace", rejected, func(ctx context.Context) error {
			foreign := c.mayWriteConfigMaps(t, "system:serviceaccount:default:windows-machine-config-operator").CoreV1().ConfigMaps(namespace)
			return errOf(foreign.Create(ctx, configMap("windows-services-8"), metav1.CreateOptions{}))
		}},
		{"create settings as the namespace controller", rejected, func(ctx context.Context) error {
			cleaner := c.mayWriteConfigMaps(t, "system:serviceaccount:kube-system:namespace-controller").CoreV1().ConfigMaps(namespace)
			return errOf(cleaner.Create(ctx, configMap("windows-services-8"), metav1.CreateOptions{}))
		}},
		{"delete settings as the operator", "", func(ctx context.Context) error { return o.Delete(ctx, name, metav1.DeleteOptions{}) }},
	})
}

// testNamespaceDeletion must run last: it deletes the namespace together with the settings of nodes.
func (c *cluster) testNamespaceDeletion(t *testing.T) {
	o := c.asOperator(t).CoreV1().ConfigMaps(namespace)
	must(t, errOf(o.Create(t.Context(), configMap("windows-services-9"), metav1.CreateOptions{})))
	must(t, c.admin.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	eventually(t, "", func(ctx context.Context) error {
		got, err := c.admin.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("the namespace still exists: %+v", got.Status)
	})
}

// mayWriteConfigMaps permits a user to write only the ConfigMaps in the operator's namespace. It waits for an error about the
// ConfigMap, because the authorizer can see the binding before the Role, and then reports that the Role is not found.
func (c *cluster) mayWriteConfigMaps(t *testing.T, user string) clients {
	t.Helper()
	c.permit(t, namespace, userNamed(user), rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"},
	})
	who := c.as(t, user)
	eventually(t, `configmaps "nothing" not found`, func(ctx context.Context) error {
		return who.CoreV1().ConfigMaps(namespace).Delete(ctx, "nothing", metav1.DeleteOptions{})
	})
	return who
}
