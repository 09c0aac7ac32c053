//go:build linux

package deploytest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/cluster/rights"
)

// userNamed returns a user as the subject of a binding.
func userNamed(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// accountNamed returns a ServiceAccount in the operator's namespace as the subject of a binding.
func accountNamed(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// bind binds a subject to a ClusterRole, in a namespace or, if in is "", in the cluster.
func (c *cluster) bind(t *testing.T, in, role string, subject rbacv1.Subject) {
	t.Helper()
	name, subjects := metav1.ObjectMeta{GenerateName: "test-"}, []rbacv1.Subject{subject}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	var err error
	if in == "" {
		_, err = c.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = c.admin.RbacV1().RoleBindings(in).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	}
	must(t, err)
}

// permit binds a subject to a new Role with rules.
func (c *cluster) permit(t *testing.T, in string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	t.Helper()
	name := metav1.ObjectMeta{GenerateName: "test-"}
	role, err := c.admin.RbacV1().Roles(in).Create(t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{})
	if err == nil {
		_, err = c.admin.RbacV1().RoleBindings(in).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, Subjects: []rbacv1.Subject{subject},
		}, metav1.CreateOptions{})
	}
	must(t, err)
}

// testSecretsWriters has a user who may write Secrets create, change and delete the Secrets that nodes trust.
func (c *cluster) testSecretsWriters(t *testing.T) {
	const rejected = "is what Windows nodes trust, and only the operator writes it"
	c.permit(t, namespace, userNamed("secret-writer"), rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "update", "patch", "delete", "deletecollection"},
	})
	writer := c.as(t, "secret-writer").CoreV1().Secrets(namespace)
	eventually(t, `secrets "nothing" not found`, func(ctx context.Context) error { return writer.Delete(ctx, "nothing", metav1.DeleteOptions{}) })
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	admin, elsewhere := c.admin.CoreV1().Secrets(namespace), c.admin.CoreV1().Secrets("default")
	named := func(name string) *corev1.Secret { return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	const key, secrets = "windows-settings-signing-key", "windows-node-secrets"
	_, _ = admin.Create(t.Context(), named(key), metav1.CreateOptions{}) // unless it exists from another test
	for _, name := range []string{key, secrets} {
		try(t, []attempt{
			{"create " + name, rejected, func(ctx context.Context) error { return errOf(writer.Create(ctx, named(name), dry)) }},
		})
	}
	try(t, []attempt{
		{"change the signing key", rejected, func(ctx context.Context) error {
			return errOf(writer.Patch(ctx, key, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
		}},
		{"delete the signing key", rejected, func(ctx context.Context) error { return writer.Delete(ctx, key, metav1.DeleteOptions{}) }},
		{"delete the signing key as a collection", rejected, func(ctx context.Context) error {
			return writer.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + key})
		}},
		{"create another Secret", "", func(ctx context.Context) error { return errOf(writer.Create(ctx, named("windows-user-secret"), dry)) }},
		{"create a Secret with the name in another namespace", "", func(ctx context.Context) error { return errOf(elsewhere.Create(ctx, named(key), dry)) }},
		{"delete the signing key as a cluster administrator", "", func(ctx context.Context) error {
			return admin.Delete(ctx, key, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}},
	})
}

// testNodeLabels has kubelets label their own Nodes, at registration, later and through their status.
func (c *cluster) testNodeLabels(t *testing.T) {
	const rejected = "a kubelet sets none of them"
	c.newNode(t, "win-labeled")
	kubelet := c.as(t, "system:node:win-labeled", "system:nodes")
	label := func(key string, value any) map[string]any { return metadata("labels", map[string]any{key: value}) }
	must(t, patchNode(t.Context(), c.admin, "win-labeled", label(group+"/runs.windows2022", "true")))
	var attempts []attempt
	for _, key := range []string{group + "/hyperv", group + "/gmsa", group + "/runs.windows2025", group + "/byoh"} {
		attempts = append(attempts,
			attempt{"add label " + key, rejected, func(ctx context.Context) error { return patchNode(ctx, kubelet, "win-labeled", label(key, "true")) }},
			attempt{"add label " + key + " through the status", rejected, func(ctx context.Context) error {
				return patchNode(ctx, kubelet, "win-labeled", label(key, "true"), "status")
			}})
	}
	try(t, append(attempts,
		attempt{"change a label of the operator", rejected, func(ctx context.Context) error {
			return patchNode(ctx, kubelet, "win-labeled", label(group+"/runs.windows2022", "false"))
		}},
		attempt{"remove a label of the operator", rejected, func(ctx context.Context) error {
			return patchNode(ctx, kubelet, "win-labeled", label(group+"/runs.windows2022", nil))
		}},
		attempt{"register with a label of the operator", rejected, func(ctx context.Context) error {
			newcomer := c.as(t, "system:node:win-newcomer", "system:nodes")
			return errOf(newcomer.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-newcomer", Labels: map[string]string{group + "/hyperv": "true"}}}, metav1.CreateOptions{}))
		}},
		attempt{"register with the labels that the operator configures", "", func(ctx context.Context) error {
			newcomer := c.as(t, "system:node:win-newcomer", "system:nodes")
			return errOf(newcomer.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: "win-newcomer", Labels: map[string]string{"node.openshift.io/os_id": "Windows", "kubernetes.io/os": "windows"},
			}}, metav1.CreateOptions{}))
		}},
		attempt{"update the status", "", func(ctx context.Context) error {
			return patchNode(ctx, kubelet, "win-labeled", map[string]any{"status": map[string]any{"nodeInfo": map[string]any{"kubeletVersion": "v1"}}}, "status")
		}},
		attempt{"add a label as the operator", "", func(ctx context.Context) error {
			return patchNode(ctx, c.asOperator(t), "win-labeled", label(group+"/hyperv", "true"))
		}},
	))
}

// createRolesOfOLM creates the ClusterRoles that OLM creates for each kind of an operator, and that Kubernetes aggregates to
// its own roles (pkg/controller/operators/olm/operatorgroup.go of OLM v0.46.0). lab/suites/olm tests those that OLM itself
// creates.
func (c *cluster) createRolesOfOLM(t *testing.T) {
	t.Helper()
	for role, verbs := range map[string][]string{
		"admin": {"*"}, "edit": {"create", "update", "patch", "delete"}, "view": {"get", "list", "watch"},
	} {
		for _, kind := range []string{"windowsinstances", "windowsconfigs", "windowspolicysets"} {
			if _, err := c.admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: kind + "." + group + "-v1alpha1-" + role, Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + role: "true"}},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{kind}, Verbs: verbs}},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		for _, role := range []string{"admin", "edit", "view"} {
			for _, kind := range []string{"windowsinstances", "windowsconfigs", "windowspolicysets"} {
				_ = c.admin.RbacV1().ClusterRoles().Delete(context.Background(), kind+"."+group+"-v1alpha1-"+role, metav1.DeleteOptions{})
			}
		}
	})
}

// testRolesOfOLM compares the users who may write the operator's objects with deploy/README.md, on a cluster where OLM has extended
// Kubernetes' roles.
func (c *cluster) testRolesOfOLM(t *testing.T) {
	const rejected = "who writes them decides what runs on Windows hosts"
	c.createRolesOfOLM(t)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	instance := func(who clients) func(context.Context) error {
		return func(ctx context.Context) error {
			o := object("WindowsInstance", "of-olm", map[string]any{"address": "10.0.0.77", "username": "Administrator"})
			return errOf(instances(who, namespace).Create(ctx, o, dry))
		}
	}
	config := func(who clients) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(configs(who).Create(ctx, object("WindowsConfig", "cluster", map[string]any{}), dry))
		}
	}
	set := func(who clients) func(context.Context) error {
		return func(ctx context.Context) error {
			o := object("WindowsPolicySet", "of-olm", map[string]any{"set": "{}"})
			return errOf(policySets(who).Create(ctx, o, dry))
		}
	}
	for _, tc := range []struct{ role, wantInstance string }{{"edit", rejected}, {"admin", ""}} {
		user := "olm-" + tc.role
		c.bind(t, "", tc.role, userNamed(user))
		who := c.as(t, user)
		// Kubernetes aggregates OLM's roles one after another.
		eventually(t, tc.wantInstance, instance(who))
		eventually(t, rejected, config(who))
		eventually(t, rejected, set(who))
	}
	c.expectTable(t)
	c.permit(t, namespace, userNamed("own-role"), rbacv1.PolicyRule{
		APIGroups: []string{group}, Resources: []string{"windowsinstances", "windowsinstances/manage"}, Verbs: []string{"create", "update"},
	})
	eventually(t, "", instance(c.as(t, "own-role")))
	try(t, []attempt{
		{"create a WindowsInstance as the operator", "", instance(c.asOperator(t))},
		{"create a WindowsPolicySet as the operator", "", set(c.asOperator(t))},
		{"create the WindowsConfig as a cluster administrator", "", config(c.admin)},
	})
}

// expectTable compares the permissions of users with the table in deploy/README.md.
func (c *cluster) expectTable(t *testing.T) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(deployDir, "README.md"))
	must(t, err)
	must(t, rights.Bind(t.Context(), c.config, namespace))
	eventually(t, "", func(ctx context.Context) error {
		if differences := rights.Differences(ctx, c.config, namespace, string(readme)); len(differences) > 0 {
			return errors.New(strings.Join(differences, "\n"))
		}
		return nil
	})
}

// testOperatorCondition grants the account of joining hosts the permissions that OLM grants each account of a bundle.
func (c *cluster) testOperatorCondition(t *testing.T) {
	chart, err := lab.OLMChart(t.Context())
	must(t, err)
	text, err := os.ReadFile(filepath.Join(chart, "crds", "0000_50_olm_00-operatorconditions.crd.yaml"))
	must(t, err)
	kind := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal(text, &kind.Object))
	must(t, manifest.ApplyObjects(t.Context(), c.config, []*unstructured.Unstructured{kind}))
	conditions := schema.GroupVersionResource{Group: "operators.coreos.com", Version: "v2", Resource: "operatorconditions"}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "metadata": map[string]any{"name": "wmco"}, "spec": map[string]any{}}}
	eventually(t, "", func(ctx context.Context) error {
		return errOf(c.admin.dynamic.Resource(conditions).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{}))
	})
	rules := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorconditions"}, ResourceNames: []string{"wmco"}, Verbs: []string{"get", "update", "patch"}}
	blockUpgrades := func(who clients) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(who.dynamic.Resource(conditions).Namespace(namespace).Patch(ctx, "wmco", types.MergePatchType,
				[]byte(`{"spec":{"overrides":[{"type":"Upgradeable","status":"False","reason":"Stopped","message":"x"}]}}`), metav1.PatchOptions{}))
		}
	}
	for _, account := range []string{"windows-node-bootstrapper", "windows-machine-config-operator"} {
		c.permit(t, namespace, accountNamed(account), rules)
	}
	host := c.asAccount(t, "windows-node-bootstrapper")
	eventually(t, "is the identity of a host that joins", blockUpgrades(host))
	eventually(t, "", blockUpgrades(c.asOperator(t)))
}
