//go:build linux

package olm

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab/manifest"
)

//go:embed kinds/*.yaml
var kinds embed.FS

// InstallKinds creates OLM's kinds, so that the API server validates its objects.
func InstallKinds(ctx context.Context, config *rest.Config) error {
	files, err := kinds.ReadDir("kinds")
	if err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	for _, f := range files {
		text, err := kinds.ReadFile("kinds/" + f.Name())
		if err != nil {
			return err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			return fmt.Errorf("reading %s: %w", f.Name(), err)
		}
		objects = append(objects, o)
	}
	return manifest.ApplyObjects(ctx, config, objects)
}

// A Cluster has OLM's kinds.
type Cluster struct {
	Config *rest.Config
	Client client.Client
	Images Images
}

// ownerLabel names the ClusterServiceVersion of what OLM made for it.
const ownerLabel = "olm.owner"

// Follow does what OLM does for a Subscription: it installs the newest bundle of the channel, over the one that is there. It returns the
// bundle.
func (c *Cluster) Follow(ctx context.Context, subscription types.NamespacedName) (*Bundle, error) {
	var s struct {
		Spec struct {
			Channel         string `json:"channel"`
			Name            string `json:"name"`
			Source          string `json:"source"`
			SourceNamespace string `json:"sourceNamespace"`
			Config          Config `json:"config"`
		} `json:"spec"`
	}
	if err := c.read(ctx, "operators.coreos.com/v1alpha1", "Subscription", subscription, &s); err != nil {
		return nil, err
	}
	var source struct {
		Spec struct {
			Image string `json:"image"`
		} `json:"spec"`
	}
	from := types.NamespacedName{Namespace: s.Spec.SourceNamespace, Name: s.Spec.Source}
	if err := c.read(ctx, "operators.coreos.com/v1alpha1", "CatalogSource", from, &source); err != nil {
		return nil, err
	}
	image, err := c.Images.Newest(ctx, source.Spec.Image, s.Spec.Name, s.Spec.Channel)
	if err != nil {
		return nil, err
	}
	b, err := c.Images.ReadBundle(ctx, image)
	if err != nil {
		return nil, err
	}
	return b, c.install(ctx, b, subscription.Namespace, s.Spec.Config)
}

func (c *Cluster) read(ctx context.Context, version, kind string, name types.NamespacedName, into any) error {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	if err := c.Client.Get(ctx, name, o); err != nil {
		return fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into)
}

// install creates everything of a bundle in a namespace.
func (c *Cluster) install(ctx context.Context, b *Bundle, namespace string, config Config) error {
	if err := c.checkTarget(ctx, b, namespace); err != nil {
		return err
	}
	if err := c.checkUpgrade(ctx, b, namespace); err != nil {
		return err
	}
	var objects []*unstructured.Unstructured
	for _, o := range b.objects {
		o = o.DeepCopy()
		mapping, err := c.Client.RESTMapper().RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			o.SetNamespace(namespace) // whatever it says
		}
		objects = append(objects, o)
	}
	csv := b.csv.DeepCopy()
	csv.SetNamespace(namespace)
	annotations := csv.GetAnnotations()
	maps.Copy(annotations, map[string]string{"olm.targetNamespaces": namespace, "olm.operatorNamespace": namespace, "olm.operatorGroup": "windows-machine-config-operator"})
	csv.SetAnnotations(annotations)
	made, err := b.made(namespace, annotations, config)
	if err != nil {
		return err
	}
	if err := manifest.ApplyObjects(ctx, c.Config, []*unstructured.Unstructured{csv}); err != nil {
		return fmt.Errorf("installing %s: %w", b.Name(), err)
	}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(csv), csv); err != nil {
		return err
	}
	objects = append(objects, made...)
	for _, o := range objects {
		if o.GetNamespace() != "" {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: csv.GetAPIVersion(), Kind: csv.GetKind(), Name: csv.GetName(), UID: csv.GetUID()}})
		}
	}
	if err := manifest.ApplyObjects(ctx, c.Config, objects); err != nil {
		return fmt.Errorf("installing %s: %w", b.Name(), err)
	}
	return c.removeFormer(ctx, b, namespace)
}

// Remove does what OLM's finalizer does when a ClusterServiceVersion was deleted: it deletes what is in no namespace, and so is not deleted
// with its owner.
func (c *Cluster) Remove(ctx context.Context, name string) error {
	return c.deleteMade(ctx, name, map[string]string{"ClusterRole": "", "ClusterRoleBinding": ""})
}

// deleteMade deletes what OLM made for a ClusterServiceVersion: of kinds of RBAC, by kind the namespace.
func (c *Cluster) deleteMade(ctx context.Context, name string, kinds map[string]string) error {
	for kind, in := range kinds {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
		if err := c.Client.DeleteAllOf(ctx, o, client.InNamespace(in), client.MatchingLabels{ownerLabel: name}); err != nil {
			return fmt.Errorf("deleting each %s of %s: %w", kind, name, err)
		}
	}
	return nil
}

// checkTarget is OLM's check of the OperatorGroup: one in the namespace, which selects only it.
func (c *Cluster) checkTarget(ctx context.Context, b *Bundle, namespace string) error {
	groups := &unstructured.UnstructuredList{}
	groups.SetGroupVersionKind(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1", Kind: "OperatorGroupList"})
	if err := c.Client.List(ctx, groups, client.InNamespace(namespace)); err != nil {
		return err
	}
	if len(groups.Items) != 1 {
		return fmt.Errorf("namespace %s has %d OperatorGroups, want 1", namespace, len(groups.Items))
	}
	targets, _, err := unstructured.NestedStringSlice(groups.Items[0].Object, "spec", "targetNamespaces")
	if err != nil || len(targets) != 1 || targets[0] != namespace {
		return fmt.Errorf("the OperatorGroup selects %v (%w); %s supports only its own namespace", targets, err, b.Name())
	}
	for _, mode := range b.version.Spec.InstallModes {
		if mode.Type == "OwnNamespace" && mode.Supported {
			return nil
		}
	}
	return errors.New("the bundle does not support OwnNamespace")
}

// checkUpgrade refuses what OLM refuses: an upgrade while the operator reports that it is not upgradeable, and kinds that would lose what
// is stored.
func (c *Cluster) checkUpgrade(ctx context.Context, b *Bundle, namespace string) error {
	if former := b.version.Spec.Replaces; former != "" {
		var condition struct {
			Spec struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"spec"`
		}
		err := c.read(ctx, "operators.coreos.com/v2", "OperatorCondition", types.NamespacedName{Namespace: namespace, Name: former}, &condition)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if is := meta.FindStatusCondition(condition.Spec.Conditions, "Upgradeable"); is != nil && is.Status == metav1.ConditionFalse {
			return fmt.Errorf("%s is not upgradeable: %s", former, is.Message)
		}
	}
	for _, next := range b.objects {
		if next.GetKind() != "CustomResourceDefinition" {
			continue
		}
		is := &unstructured.Unstructured{}
		is.SetGroupVersionKind(next.GroupVersionKind())
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(next), is)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = checkKindUpgrade(is, next)
		}
		if err != nil {
			return fmt.Errorf("upgrading CustomResourceDefinition %s: %w", next.GetName(), err)
		}
	}
	return nil
}

// made are the objects that OLM makes for a ClusterServiceVersion: accounts and their permissions, the OperatorCondition, and Deployments.
func (b *Bundle) made(namespace string, annotations map[string]string, config Config) ([]*unstructured.Unstructured, error) {
	m := maker{labels: map[string]string{ownerLabel: b.Name()}}
	accounts := map[string]bool{}
	install := b.version.Spec.Install.Spec
	for scope, permissions := range map[string][]permission{"": install.ClusterPermissions, namespace: install.Permissions} {
		for _, p := range permissions {
			if !accounts[p.ServiceAccountName] {
				accounts[p.ServiceAccountName] = true
				m.add("v1", "ServiceAccount", namespace, p.ServiceAccountName, nil)
			}
			m.permit(namespace, scope, b.Name()+"-"+shortHash(p), p.ServiceAccountName, p.Rules)
		}
	}
	var names, operators []any
	for _, d := range install.Deployments {
		names, operators = append(names, d.Name), append(operators, d.Spec.Template.Spec.ServiceAccountName)
	}
	m.add("operators.coreos.com/v2", "OperatorCondition", namespace, b.Name(), map[string]any{"spec": map[string]any{"deployments": names, "serviceAccounts": operators}})
	for _, account := range operators {
		m.permit(namespace, namespace, b.Name(), account.(string), []rbacv1.PolicyRule{{
			APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorconditions"}, ResourceNames: []string{b.Name()}, Verbs: []string{"get", "update", "patch"},
		}})
	}
	for _, d := range install.Deployments {
		spec := d.Spec.DeepCopy()
		spec.RevisionHistoryLimit = new(int32(1))
		if spec.Template.Annotations == nil {
			spec.Template.Annotations = map[string]string{}
		}
		maps.Copy(spec.Template.Annotations, annotations)
		config.merge(&spec.Template.Spec)
		for i := range spec.Template.Spec.Containers {
			container := &spec.Template.Spec.Containers[i]
			container.Env = setEnv(container.Env, corev1.EnvVar{Name: "OPERATOR_CONDITION_NAME", Value: b.Name()})
		}
		m.add("apps/v1", "Deployment", namespace, d.Name, map[string]any{"spec": spec})
	}
	return m.objects, m.err
}

// maker collects objects.
type maker struct {
	labels  map[string]string
	objects []*unstructured.Unstructured
	err     error
}

func (m *maker) add(version, kind, namespace, name string, content map[string]any) {
	all := map[string]any{"apiVersion": version, "kind": kind}
	maps.Copy(all, content)
	text, err := json.Marshal(all)
	o := &unstructured.Unstructured{}
	if err == nil {
		err = o.UnmarshalJSON(text)
	}
	m.err = errors.Join(m.err, err)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(m.labels)
	m.objects = append(m.objects, o)
}

// permit gives an account of a namespace a role: in a scope, which is a namespace, or "" for the whole cluster.
func (m *maker) permit(namespace, scope, name, account string, rules []rbacv1.PolicyRule) {
	kind := "Role"
	if scope == "" {
		kind = "ClusterRole"
	}
	m.add(rbacv1.SchemeGroupVersion.String(), kind, scope, name, map[string]any{"rules": rules})
	m.add(rbacv1.SchemeGroupVersion.String(), kind+"Binding", scope, name, map[string]any{
		"roleRef":  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name},
		"subjects": []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	})
}

func shortHash(p permission) string {
	text, err := json.Marshal(p)
	if err != nil {
		return "x"
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// removeFormer deletes what OLM made for the version before; what both versions have was changed in place.
func (c *Cluster) removeFormer(ctx context.Context, b *Bundle, namespace string) error {
	former := b.version.Spec.Replaces
	if former == "" {
		return nil
	}
	if err := errors.Join(c.Remove(ctx, former), c.deleteMade(ctx, former, map[string]string{"Role": namespace, "RoleBinding": namespace})); err != nil {
		return err
	}
	for kind, version := range map[string]string{"OperatorCondition": "operators.coreos.com/v2", "ClusterServiceVersion": "operators.coreos.com/v1alpha1"} {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(version)
		o.SetKind(kind)
		o.SetNamespace(namespace)
		o.SetName(former)
		if err := c.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %s: %w", kind, former, err)
		}
	}
	return nil
}
