//go:build linux

package deploytest

import (
	"context"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// allowMissing ignores that an object does not exist in this cluster: the request was permitted.
func allowMissing[T any](_ T, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func instances(as clients, in string) dynamic.ResourceInterface {
	return as.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "windowsinstances"}).Namespace(in)
}

func configs(as clients) dynamic.ResourceInterface {
	return as.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "windowsconfigs"})
}

func policySets(as clients) dynamic.ResourceInterface {
	return as.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "windowspolicysets"}).Namespace(namespace)
}

func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func (c *cluster) testOperatorPermissions(t *testing.T) {
	o := c.asOperator(t)
	core, own := o.CoreV1(), instances(o, namespace)
	host := object("WindowsInstance", "by-operator", map[string]any{"address": "10.0.0.1", "username": "Administrator"})
	try(t, []attempt{
		{"create a WindowsInstance", "", func(ctx context.Context) error { return errOf(own.Create(ctx, host, metav1.CreateOptions{})) }},
		{"patch a WindowsInstance", "", func(ctx context.Context) error {
			return errOf(own.Patch(ctx, "by-operator", types.MergePatchType, []byte(`{"spec":{"username":"other"}}`), metav1.PatchOptions{}))
		}},
		{"patch the status of a WindowsInstance", "", func(ctx context.Context) error {
			return errOf(own.Patch(ctx, "by-operator", types.MergePatchType, []byte(`{"status":{"hostname":"win-1"}}`), metav1.PatchOptions{}, "status"))
		}},
		{"list WindowsInstances", "", func(ctx context.Context) error { return errOf(own.List(ctx, metav1.ListOptions{})) }},
		{"delete a WindowsInstance", "", func(ctx context.Context) error { return own.Delete(ctx, "by-operator", metav1.DeleteOptions{}) }},
		{"list WindowsConfigs", "", func(ctx context.Context) error { return errOf(configs(o).List(ctx, metav1.ListOptions{})) }},
		{"label and annotate a Node", "", func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"metadata": map[string]any{
				"labels": map[string]any{"node-role.kubernetes.io/worker": ""}, "annotations": map[string]any{group + "/desired-version": "2"},
			}})
		}},
		{"list Nodes", "", func(ctx context.Context) error { return errOf(core.Nodes().List(ctx, metav1.ListOptions{})) }},
		{"list NetworkPolicies of all namespaces", "", func(ctx context.Context) error {
			return errOf(o.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{}))
		}},
		{"list the pods of a node in pages", "", func(ctx context.Context) error {
			return errOf(core.Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=win-1", Limit: 25}))
		}},
		{"list certificate requests", "", func(ctx context.Context) error {
			return errOf(o.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{}))
		}},
		{"read the pull secret in its namespace", "", func(ctx context.Context) error {
			return allowMissing(core.Secrets(namespace).Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"read the SSH key", "", func(ctx context.Context) error {
			return errOf(core.Secrets(namespace).Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
		{"list the SSH key by name", "", func(ctx context.Context) error {
			return errOf(core.Secrets(namespace).List(ctx, byName("cloud-private-key")))
		}},
		{"watch the ConfigMaps in its namespace", "", func(ctx context.Context) error {
			return watchErr(core.ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{}))
		}},
		{"create and delete settings of nodes", "", func(ctx context.Context) error {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "windows-services-1"}}
			if _, err := core.ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				return err
			}
			return core.ConfigMaps(namespace).Delete(ctx, cm.Name, metav1.DeleteOptions{})
		}},
		{"create and update secrets of nodes", "", func(ctx context.Context) error {
			secret, err := core.Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "windows-node-secrets"}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			return errOf(core.Secrets(namespace).Update(ctx, secret, metav1.UpdateOptions{}))
		}},
		{"create and read the signing key", "", func(ctx context.Context) error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "windows-settings-signing-key"}, Immutable: new(true), Type: corev1.SecretTypeOpaque}
			if _, err := core.Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
				return err
			}
			if err := allowMissing(core.Secrets(namespace).List(ctx, byName(secret.Name))); err != nil {
				return err
			}
			return allowMissing(core.Secrets(namespace).Get(ctx, secret.Name, metav1.GetOptions{}))
		}},
		{"let WICD read settings and secrets of nodes", "", func(ctx context.Context) error {
			role, err := o.RbacV1().Roles(namespace).Create(ctx, daemonRole("windows-services-1"), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			role.Rules = daemonRole("windows-services-1", "windows-services-2").Rules
			return errOf(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"read OpenShift's TLS security profile", "", func(ctx context.Context) error {
			return allowMissing(o.dynamic.Resource(configOf("apiservers")).Get(ctx, "cluster", metav1.GetOptions{}))
		}},
		{"read OpenShift's proxy", "", func(ctx context.Context) error {
			return allowMissing(o.dynamic.Resource(configOf("proxies")).Get(ctx, "cluster", metav1.GetOptions{}))
		}},
		{"read OpenShift's network status", "", func(ctx context.Context) error {
			return allowMissing(o.dynamic.Resource(configOf("networks")).Get(ctx, "cluster", metav1.GetOptions{}))
		}},
		{"read OpenShift's network configuration", "", func(ctx context.Context) error {
			return allowMissing(o.dynamic.Resource(operatorNetworks()).Get(ctx, "cluster", metav1.GetOptions{}))
		}},
		{"watch Flannel's configuration", "", func(ctx context.Context) error {
			return watchErr(core.ConfigMaps("kube-flannel").Watch(ctx, byName("kube-flannel-cfg")))
		}},
		{"read the API server's CA certificate", "", func(ctx context.Context) error {
			return allowMissing(core.ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}))
		}},
		{"read the client CA certificate of kubelets", "", func(ctx context.Context) error {
			return errOf(core.ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{}))
		}},
		{"read cluster-info", "", func(ctx context.Context) error {
			return allowMissing(core.ConfigMaps("kube-public").Get(ctx, "cluster-info", metav1.GetOptions{}))
		}},
		{"read the DNS settings of kubelets", "", func(ctx context.Context) error {
			return allowMissing(core.ConfigMaps("kube-system").Get(ctx, "kubelet-config", metav1.GetOptions{}))
		}},
		{"list the cluster's DNS Service by its label", "", func(ctx context.Context) error {
			return errOf(core.Services("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "k8s-app in (kube-dns, coredns)"}))
		}},
		{"read the cluster's DNS Service", "", func(ctx context.Context) error {
			return allowMissing(core.Services("kube-system").Get(ctx, "kube-dns", metav1.GetOptions{}))
		}},
		{"read OpenShift's DNS Service", "", func(ctx context.Context) error {
			return allowMissing(core.Services("openshift-dns").Get(ctx, "dns-default", metav1.GetOptions{}))
		}},
		{"list Services", "", func(ctx context.Context) error { return errOf(core.Services("").List(ctx, metav1.ListOptions{})) }},
		{"read the addresses of API servers", "", func(ctx context.Context) error {
			return allowMissing(o.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
		}},
		{"read the ServiceCIDR", "", func(ctx context.Context) error {
			return errOf(o.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{}))
		}},
		{"read namespace kube-system", "", func(ctx context.Context) error {
			return errOf(core.Namespaces().Get(ctx, "kube-system", metav1.GetOptions{}))
		}},
		{"create a bootstrap token", "", func(ctx context.Context) error {
			return errOf(core.ServiceAccounts(namespace).CreateToken(ctx, "windows-node-bootstrapper", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
		}},
		{"list the Leases of other operators", "", func(ctx context.Context) error {
			return errOf(o.CoordinationV1().Leases("").List(ctx, byName("windows-machine-config-operator")))
		}},
		{"create and update its Lease", "", func(ctx context.Context) error {
			leases := o.CoordinationV1().Leases(namespace)
			lease, err := leases.Create(ctx, leaseNamed("windows-machine-config-operator"), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if _, err := leases.Get(ctx, lease.Name, metav1.GetOptions{}); err != nil {
				return err
			}
			return errOf(leases.Update(ctx, lease, metav1.UpdateOptions{}))
		}},
		{"create an event about an instance", "", func(ctx context.Context) error {
			return errOf(o.EventsV1().Events(namespace).Create(ctx, eventAbout("a", namespace), metav1.CreateOptions{}))
		}},
		{"create an event about a node", "", func(ctx context.Context) error {
			return errOf(o.EventsV1().Events("default").Create(ctx, eventAbout("b", "default"), metav1.CreateOptions{}))
		}},
		{"update the count of an event", "", func(ctx context.Context) error {
			return errOf(o.EventsV1().Events("default").Patch(ctx, "b", types.MergePatchType, []byte(`{"series":{"count":2,"lastObservedTime":"2030-01-01T00:00:00.000000Z"}}`), metav1.PatchOptions{}))
		}},
		{"cordon and uncordon a Windows node", "", func(ctx context.Context) error {
			return errors.Join(patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"unschedulable": true}}),
				patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"unschedulable": nil}}))
		}},
		{"change the value of a Windows node's taint", "", func(ctx context.Context) error {
			return errors.Join(setTaint(ctx, o, "win-1", "windows"), setTaint(ctx, o, "win-1", "Windows"))
		}},
		{"list the pods of a node", "", func(ctx context.Context) error {
			return errOf(core.Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=win-1"}))
		}},
		{"evict a pod", `pods "gone" not found`, func(ctx context.Context) error {
			return core.Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gone"}})
		}},
		{"delete a pod that was not evicted", `pods "gone" not found`, func(ctx context.Context) error {
			return core.Pods("default").Delete(ctx, "gone", metav1.DeleteOptions{})
		}},
		{"authenticate and authorize clients of its metrics", "", func(ctx context.Context) error {
			if _, err := o.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}}, metav1.CreateOptions{}); err != nil {
				return err
			}
			return errOf(o.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "bob", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
			}}, metav1.CreateOptions{}))
		}},
	})
}

// testRelabeledNodes has kubelets change the operating system label of their Nodes, which Kubernetes permits.
func (c *cluster) testRelabeledNodes(t *testing.T) {
	o := c.asOperator(t)
	linux := metadata("labels", map[string]any{"kubernetes.io/os": "linux"})
	for node, tc := range map[string]struct{ system, want string }{
		"win-relabelled": {"windows", ""},
		"win-hidden":     {"linux", "changes and deletes Windows nodes only"},
	} {
		c.newNode(t, node)
		kubelet := c.as(t, "system:node:"+node, "system:nodes")
		must(t, patchNode(t.Context(), kubelet, node, linux))
		must(t, patchStatus(t.Context(), kubelet, node, types.MergePatchType, map[string]any{"status": map[string]any{"nodeInfo": map[string]any{"operatingSystem": tc.system}}}))
		try(t, []attempt{
			{"label " + node, tc.want, func(ctx context.Context) error {
				return patchNode(ctx, o, node, metadata("labels", map[string]any{"node-role.kubernetes.io/worker": ""}))
			}},
			{"cordon " + node, tc.want, func(ctx context.Context) error {
				return patchNode(ctx, o, node, map[string]any{"spec": map[string]any{"unschedulable": true}})
			}},
			{"delete " + node, tc.want, func(ctx context.Context) error { return o.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}) }},
		})
	}
}

// daemonRole returns the Role that the operator creates for WICD.
func daemonRole(configMaps ...string) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "windows-instance-config-daemon"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: configMaps, Verbs: []string{"get", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"windows-node-secrets"}, Verbs: []string{"get"}},
		},
	}
}

func configOf(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: resource}
}

// operatorNetworks is the resource with the configuration of OpenShift's network operator.
func operatorNetworks() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "operator.openshift.io", Version: "v1", Resource: "networks"}
}
