package bundle

import (
	"fmt"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/release/manifests"
)

// parts are the manifests by their place in a bundle.
type parts struct {
	namespace  *unstructured.Unstructured
	deployment appsv1.Deployment
	// cluster and own are the permissions of ServiceAccounts in the whole cluster and in the operator's namespace.
	cluster, own []v1alpha1.StrategyDeploymentPermissions
	// objects are those outside of the CSV.
	objects []*unstructured.Unstructured
}

// divide sorts manifests. OLM creates the ServiceAccounts that have permissions, and their roles. Everything bound to them is therefore
// part of the CSV, where it is valid in every namespace. The operator applies the policies.
func divide(objects []*unstructured.Unstructured) (p parts, err error) {
	d := permissionCollector{objects: objects, consumed: map[string]bool{}}
	for _, o := range objects {
		if kind := o.GetKind(); kind == "ClusterRoleBinding" || kind == "RoleBinding" {
			if err := d.bind(o); err != nil {
				return p, fmt.Errorf("reading %s: %w", manifests.Key(o), err)
			}
		}
	}
	p.cluster, p.own = d.cluster, d.own
	for _, o := range objects {
		switch kind := o.GetKind(); {
		case d.consumed[manifests.Key(o)], kind == "ValidatingAdmissionPolicy", kind == "ValidatingAdmissionPolicyBinding":
		case kind == "Namespace":
			p.namespace = o
		case kind == "Deployment":
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &p.deployment, true); err != nil {
				return p, fmt.Errorf("reading %s: %w", manifests.Key(o), err)
			}
		default:
			without := o.DeepCopy()
			without.SetNamespace("")
			p.objects = append(p.objects, without)
		}
	}
	if p.namespace == nil || p.deployment.Name == "" {
		return p, fmt.Errorf("the manifests have no Namespace or no Deployment")
	}
	return p, nil
}

// permissionCollector collects the permissions of ServiceAccounts.
type permissionCollector struct {
	objects      []*unstructured.Unstructured
	consumed     map[string]bool // keys of the objects in the CSV
	cluster, own []v1alpha1.StrategyDeploymentPermissions
}

// bind adds a binding to the permissions of its ServiceAccount. Bindings to groups, and to accounts of other
// namespaces, remain objects.
func (d *permissionCollector) bind(o *unstructured.Unstructured) error {
	var binding struct {
		RoleRef  rbacv1.RoleRef   `json:"roleRef"`
		Subjects []rbacv1.Subject `json:"subjects"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding); err != nil {
		return err
	}
	if len(binding.Subjects) != 1 {
		return fmt.Errorf("it has %d subjects, but a bundle supports one per binding", len(binding.Subjects))
	}
	subject := binding.Subjects[0]
	if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != api.DefaultNamespace {
		return nil // includes that of OpenShift's Prometheus
	}
	rules, role, err := d.rules(binding.RoleRef)
	if err != nil {
		return err
	}
	for _, key := range []string{manifests.Key(o), role, rbacv1.ServiceAccountKind + "/" + subject.Namespace + "/" + subject.Name} {
		d.consumed[key] = true
	}
	if o.GetKind() == "RoleBinding" {
		d.own = grant(d.own, subject.Name, rules)
	} else {
		d.cluster = grant(d.cluster, subject.Name, rules)
	}
	return nil
}

func grant(all []v1alpha1.StrategyDeploymentPermissions, account string, rules []rbacv1.PolicyRule) []v1alpha1.StrategyDeploymentPermissions {
	for i := range all {
		if all[i].ServiceAccountName == account {
			all[i].Rules = append(all[i].Rules, rules...)
			return all
		}
	}
	return append(all, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: rules})
}

// rules returns those of a role in the manifests or of a Kubernetes role.
func (d *permissionCollector) rules(ref rbacv1.RoleRef) (rules []rbacv1.PolicyRule, key string, err error) {
	if rules := kubernetesRoles()[ref.Name]; ref.Kind == "ClusterRole" && rules != nil {
		return rules, "", nil
	}
	for _, o := range d.objects {
		if o.GetKind() != ref.Kind || o.GetName() != ref.Name {
			continue
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			return nil, "", err
		}
		return role.Rules, manifests.Key(o), nil
	}
	return nil, "", fmt.Errorf("%s %s is not in the manifests", ref.Kind, ref.Name)
}

// kubernetesRoles returns the ClusterRoles of Kubernetes that the manifests bind, because a CSV has rules instead of references
// (plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go of Kubernetes; lab/suites/olm compares them with those of an API server).
func kubernetesRoles() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"system:auth-delegator": {
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
			{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		},
		"system:node-bootstrapper": {
			{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
		},
	}
}
