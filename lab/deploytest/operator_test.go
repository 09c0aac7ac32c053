//go:build linux

package deploytest

import (
	"context"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// found is for what this cluster may not have: that it is not there was allowed to be seen.
func found[T any](_ T, err error) error {
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

func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func (c *cluster) testOperatorWorks(t *testing.T) {
	o := c.asOperator(t)
	core, own := o.CoreV1(), instances(o, namespace)
	host := object("WindowsInstance", "by-operator", map[string]any{"address": "10.0.0.1", "username": "Administrator"})
	try(t, []attempt{
		{"creates a WindowsInstance", "", func(ctx context.Context) error { return drop(own.Create(ctx, host, metav1.CreateOptions{})) }},
		{"patches it", "", func(ctx context.Context) error {
			return drop(own.Patch(ctx, "by-operator", types.MergePatchType, []byte(`{"spec":{"username":"other"}}`), metav1.PatchOptions{}))
		}},
		{"patches its status", "", func(ctx context.Context) error {
			return drop(own.Patch(ctx, "by-operator", types.MergePatchType, []byte(`{"status":{"hostname":"win-1"}}`), metav1.PatchOptions{}, "status"))
		}},
		{"lists WindowsInstances", "", func(ctx context.Context) error { return drop(own.List(ctx, metav1.ListOptions{})) }},
		{"deletes it", "", func(ctx context.Context) error { return own.Delete(ctx, "by-operator", metav1.DeleteOptions{}) }},
		{"lists WindowsConfigs", "", func(ctx context.Context) error { return drop(configs(o).List(ctx, metav1.ListOptions{})) }},
		{"labels and annotates a node", "", func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"metadata": map[string]any{
				"labels": map[string]any{"node-role.kubernetes.io/worker": ""}, "annotations": map[string]any{group + "/desired-version": "2"},
			}})
		}},
		{"lists nodes", "", func(ctx context.Context) error { return drop(core.Nodes().List(ctx, metav1.ListOptions{})) }},
		{"lists certificate requests", "", func(ctx context.Context) error {
			return drop(o.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{}))
		}},
		{"reads the pull secret of its namespace", "", func(ctx context.Context) error {
			return found(core.Secrets(namespace).Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"reads the SSH key", "", func(ctx context.Context) error {
			return drop(core.Secrets(namespace).Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
		{"lists the SSH key by name", "", func(ctx context.Context) error {
			return drop(core.Secrets(namespace).List(ctx, byName("cloud-private-key")))
		}},
		{"watches the ConfigMaps of its namespace", "", func(ctx context.Context) error {
			w, err := core.ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{})
			if err == nil {
				w.Stop()
			}
			return err
		}},
		{"publishes what nodes must have, and takes it back", "", func(ctx context.Context) error {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "windows-services-1"}}
			if _, err := core.ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				return err
			}
			return core.ConfigMaps(namespace).Delete(ctx, cm.Name, metav1.DeleteOptions{})
		}},
		{"publishes the secrets of nodes", "", func(ctx context.Context) error {
			secret, err := core.Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "windows-node-secrets"}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			return drop(core.Secrets(namespace).Update(ctx, secret, metav1.UpdateOptions{}))
		}},
		{"makes the key that it signs with, and reads it", "", func(ctx context.Context) error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "windows-settings-signing-key"}, Immutable: new(true), Type: corev1.SecretTypeOpaque}
			if _, err := core.Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
				return err
			}
			if err := found(core.Secrets(namespace).List(ctx, byName(secret.Name))); err != nil {
				return err
			}
			return found(core.Secrets(namespace).Get(ctx, secret.Name, metav1.GetOptions{}))
		}},
		{"lets its daemons read both", "", func(ctx context.Context) error {
			role, err := o.RbacV1().Roles(namespace).Create(ctx, daemonRole("windows-services-1"), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			role.Rules = daemonRole("windows-services-1", "windows-services-2").Rules
			return drop(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"reads OpenShift's proxy", "", func(ctx context.Context) error {
			return found(o.dynamic.Resource(openshift("proxies")).Get(ctx, "cluster", metav1.GetOptions{}))
		}},
		{"reads what OpenShift's network is", "", func(ctx context.Context) error {
			return found(o.dynamic.Resource(openshift("networks")).Get(ctx, "cluster", metav1.GetOptions{}))
		}},
		{"reads what OpenShift's network is to be", "", func(ctx context.Context) error {
			return found(o.dynamic.Resource(networksToBe()).Get(ctx, "cluster", metav1.GetOptions{}))
		}},
		{"watches Flannel's configuration", "", func(ctx context.Context) error {
			w, err := core.ConfigMaps("kube-flannel").Watch(ctx, byName("kube-flannel-cfg"))
			if err == nil {
				w.Stop()
			}
			return err
		}},
		{"reads the API server's authority", "", func(ctx context.Context) error {
			return found(core.ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}))
		}},
		{"reads the kubelets' clients' authority", "", func(ctx context.Context) error {
			return drop(core.ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{}))
		}},
		{"reads cluster-info", "", func(ctx context.Context) error {
			return found(core.ConfigMaps("kube-public").Get(ctx, "cluster-info", metav1.GetOptions{}))
		}},
		{"reads the cluster's DNS service", "", func(ctx context.Context) error {
			return found(core.Services("kube-system").Get(ctx, "kube-dns", metav1.GetOptions{}))
		}},
		{"reads OpenShift's DNS service", "", func(ctx context.Context) error {
			return found(core.Services("openshift-dns").Get(ctx, "dns-default", metav1.GetOptions{}))
		}},
		{"reads the API servers' addresses", "", func(ctx context.Context) error {
			return found(o.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{}))
		}},
		{"reads the service range", "", func(ctx context.Context) error {
			return drop(o.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{}))
		}},
		{"reads the cluster's identity", "", func(ctx context.Context) error {
			return drop(core.Namespaces().Get(ctx, "kube-system", metav1.GetOptions{}))
		}},
		{"makes a bootstrap token", "", func(ctx context.Context) error {
			return drop(core.ServiceAccounts(namespace).CreateToken(ctx, "windows-node-bootstrapper", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
		}},
		{"takes its lease", "", func(ctx context.Context) error {
			leases := o.CoordinationV1().Leases(namespace)
			lease, err := leases.Create(ctx, leaseNamed("windows-machine-config-operator"), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if _, err := leases.Get(ctx, lease.Name, metav1.GetOptions{}); err != nil {
				return err
			}
			return drop(leases.Update(ctx, lease, metav1.UpdateOptions{}))
		}},
		{"tells of an instance", "", func(ctx context.Context) error {
			return drop(o.EventsV1().Events(namespace).Create(ctx, eventAbout("a", namespace), metav1.CreateOptions{}))
		}},
		{"tells of a node", "", func(ctx context.Context) error {
			return drop(o.EventsV1().Events("default").Create(ctx, eventAbout("b", "default"), metav1.CreateOptions{}))
		}},
		{"counts an event", "", func(ctx context.Context) error {
			return drop(o.EventsV1().Events("default").Patch(ctx, "b", types.MergePatchType, []byte(`{"series":{"count":2,"lastObservedTime":"2030-01-01T00:00:00.000000Z"}}`), metav1.PatchOptions{}))
		}},
		{"cordons a Windows node and brings it back", "", func(ctx context.Context) error {
			return errors.Join(patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"unschedulable": true}}),
				patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"unschedulable": nil}}))
		}},
		{"lists the pods of a node", "", func(ctx context.Context) error {
			return drop(core.Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=win-1"}))
		}},
		{"evicts a pod", "not found", func(ctx context.Context) error {
			return core.Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gone"}})
		}},
		{"deletes a pod that did not leave", "not found", func(ctx context.Context) error {
			return core.Pods("default").Delete(ctx, "gone", metav1.DeleteOptions{})
		}},
		{"asks who reads its metrics", "", func(ctx context.Context) error {
			if _, err := o.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}}, metav1.CreateOptions{}); err != nil {
				return err
			}
			return drop(o.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "bob", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
			}}, metav1.CreateOptions{}))
		}},
	})
}

// testNodesThatChangeTheirLabel has kubelets that label their Nodes as those of another system, which Kubernetes lets them.
func (c *cluster) testNodesThatChangeTheirLabel(t *testing.T) {
	o := c.asOperator(t)
	linux := metadata("labels", map[string]any{"kubernetes.io/os": "linux"})
	for node, tc := range map[string]struct{ system, want string }{
		"win-relabelled": {"windows", ""},
		"win-hidden":     {"linux", "changes and deletes Windows nodes only"},
	} {
		c.newNode(t, node)
		kubelet := c.as(t, "system:node:"+node, "system:nodes")
		if err := patchNode(t.Context(), kubelet, node, linux); err != nil {
			t.Fatal(err)
		}
		if err := patchStatus(t.Context(), kubelet, node, types.MergePatchType, map[string]any{"status": map[string]any{"nodeInfo": map[string]any{"operatingSystem": tc.system}}}); err != nil {
			t.Fatal(err)
		}
		try(t, []attempt{
			{node + " is labeled", tc.want, func(ctx context.Context) error {
				return patchNode(ctx, o, node, metadata("labels", map[string]any{"node-role.kubernetes.io/worker": ""}))
			}},
			{node + " is cordoned", tc.want, func(ctx context.Context) error {
				return patchNode(ctx, o, node, map[string]any{"spec": map[string]any{"unschedulable": true}})
			}},
			{node + " is deleted", tc.want, func(ctx context.Context) error { return o.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}) }},
		})
	}
}

func (c *cluster) testOperatorIsLimited(t *testing.T) {
	const daemonsOnly = "may let nobody do more than get and watch ConfigMaps windows-services-<version>"
	const onlyMarks = "allowed are labels, annotations and spec.unschedulable"
	o := c.asOperator(t)
	core := o.CoreV1()
	token := func(in, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return drop(core.ServiceAccounts(in).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
		}
	}
	try(t, []attempt{
		{"reads another Secret of its namespace", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets(namespace).Get(ctx, "other", metav1.GetOptions{}))
		}},
		{"lists the Secrets of its namespace", forbidden, func(ctx context.Context) error { return drop(core.Secrets(namespace).List(ctx, metav1.ListOptions{})) }},
		{"lists another Secret by name", forbidden, func(ctx context.Context) error { return drop(core.Secrets(namespace).List(ctx, byName("other"))) }},
		{"lists all Secrets", forbidden, func(ctx context.Context) error { return drop(core.Secrets("").List(ctx, metav1.ListOptions{})) }},
		{"reads a Secret of the same name elsewhere", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets("default").Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
		{"changes the key that it signs with", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets(namespace).Patch(ctx, "windows-settings-signing-key", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}))
		}},
		{"deletes the key that it signs with", forbidden, func(ctx context.Context) error {
			return core.Secrets(namespace).Delete(ctx, "windows-settings-signing-key", metav1.DeleteOptions{})
		}},
		{"writes the SSH key", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets(namespace).Patch(ctx, "cloud-private-key", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}))
		}},
		{"reads a pull secret elsewhere", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets("default").Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"reads OpenShift's pull secret without deploy/openshift", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets("openshift-config").Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"reads a ConfigMap of another namespace", forbidden, func(ctx context.Context) error {
			return drop(core.ConfigMaps("default").Get(ctx, "windows-instances", metav1.GetOptions{}))
		}},
		{"watches the ConfigMaps of Flannel's namespace", forbidden, func(ctx context.Context) error {
			return drop(core.ConfigMaps("kube-flannel").Watch(ctx, metav1.ListOptions{}))
		}},
		{"changes Flannel's configuration", forbidden, func(ctx context.Context) error {
			return drop(core.ConfigMaps("kube-flannel").Patch(ctx, "kube-flannel-cfg", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}))
		}},
		{"changes what OpenShift's network is to be", forbidden, func(ctx context.Context) error {
			return drop(o.dynamic.Resource(networksToBe()).Patch(ctx, "cluster", types.MergePatchType, []byte(`{"spec":null}`), metav1.PatchOptions{}))
		}},
		{"gives its daemons more than it has", "attempting to grant RBAC permissions not currently held", func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}})
			return drop(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"lets its daemons read the SSH key", daemonsOnly, func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Rules[1].ResourceNames = append(role.Rules[1].ResourceNames, "cloud-private-key")
			return drop(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"lets its daemons read the hosts", daemonsOnly, func(ctx context.Context) error {
			return drop(o.RbacV1().Roles(namespace).Update(ctx, daemonRole("windows-instances"), metav1.UpdateOptions{}))
		}},
		{"lets its daemons read all ConfigMaps", daemonsOnly, func(ctx context.Context) error {
			return drop(o.RbacV1().Roles(namespace).Update(ctx, daemonRole(), metav1.UpdateOptions{}))
		}},
		{"lets its daemons delete what nodes must have", daemonsOnly, func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Rules[0].Verbs = append(role.Rules[0].Verbs, "delete")
			return drop(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"makes another Role", "allowed is windows-instance-config-daemon", func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Name = "other"
			return drop(o.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}))
		}},
		{"writes another Role", forbidden, func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Name = "windows-machine-config-operator"
			return drop(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"writes the ConfigMap of hosts", forbidden, func(ctx context.Context) error {
			return drop(core.ConfigMaps(namespace).Patch(ctx, "windows-instances", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}))
		}},
		{"makes itself a token", forbidden, token(namespace, "windows-machine-config-operator")},
		{"makes a token of another account", forbidden, token(namespace, "default")},
		{"makes a token of another namespace", forbidden, token("kube-system", "namespace-controller")},
		{"deletes a Linux node", "changes and deletes Windows nodes only", func(ctx context.Context) error {
			return core.Nodes().Delete(ctx, "linux-1", metav1.DeleteOptions{})
		}},
		{"cordons a Linux node", "changes and deletes Windows nodes only", func(ctx context.Context) error {
			return patchNode(ctx, o, "linux-1", map[string]any{"spec": map[string]any{"unschedulable": true}})
		}},
		{"taints a Windows node", onlyMarks, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"taints": []map[string]any{{"key": "a", "effect": "NoExecute"}}}})
		}},
		{"takes the taints of a Windows node away", onlyMarks, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"taints": nil}})
		}},
		{"taints a Windows node behind its cordon", onlyMarks, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"unschedulable": true, "taints": nil}})
		}},
		{"says which machine a Windows node is", onlyMarks, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"providerID": "x://y"}})
		}},
		{"holds a Windows node", onlyMarks, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", metadata("finalizers", []string{"example.com/stay"}))
		}},
		{"gives a Windows node an owner", onlyMarks, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", metadata("ownerReferences", []map[string]any{{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}}))
		}},
		{"labels a node that says nothing of its system", "changes and deletes Windows nodes only", func(ctx context.Context) error {
			return patchNode(ctx, o, "win-bare", metadata("labels", map[string]any{"kubernetes.io/os": "windows"}))
		}},
		{"reads one pod", forbidden, func(ctx context.Context) error { return drop(core.Pods("default").Get(ctx, "a", metav1.GetOptions{})) }},
		{"writes a node's status", forbidden, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"status": map[string]any{"phase": "Running"}}, "status")
		}},
		{"takes another lease", forbidden, func(ctx context.Context) error {
			return drop(o.CoordinationV1().Leases(namespace).Update(ctx, leaseNamed("other"), metav1.UpdateOptions{}))
		}},
		{"reads WindowsInstances of other namespaces", forbidden, func(ctx context.Context) error {
			return drop(instances(o, "default").List(ctx, metav1.ListOptions{}))
		}},
		{"writes the user's WindowsConfig", forbidden, func(ctx context.Context) error {
			return drop(configs(o).Create(ctx, object("WindowsConfig", "cluster", nil), metav1.CreateOptions{}))
		}},
		{"creates a pod", forbidden, func(ctx context.Context) error {
			return drop(core.Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
		}},
		{"lists the services of the cluster", forbidden, func(ctx context.Context) error { return drop(core.Services("").List(ctx, metav1.ListOptions{})) }},
		{"changes the API servers' addresses", forbidden, func(ctx context.Context) error {
			return drop(o.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{}, metav1.CreateOptions{}))
		}},
		{"gives itself rights", forbidden, func(ctx context.Context) error {
			return drop(o.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
		}},
	})
}

func (c *cluster) testOperatorApproves(t *testing.T) {
	o := c.asOperator(t)
	host, daemon, kubelet := c.newHost(t).clients, c.asWICD(t, "win-1"), c.as(t, "system:node:win-1", "system:nodes")
	const (
		kubelets = certificatesv1.KubeAPIServerClientKubeletSignerName
		serving  = certificatesv1.KubeletServingSignerName
		daemons  = certificatesv1.KubeAPIServerClientSignerName
		day      = int32(86400)
		others   = "certificate request is by somebody else"
	)
	client, server := certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth
	var attempts []attempt
	for _, tc := range []struct {
		name    string
		by      clients
		signer  string
		usage   certificatesv1.KeyUsage
		seconds *int32
		change  func(*certificatesv1.CertificateSigningRequest)
		want    string
	}{
		{"a kubelet's first", host, kubelets, client, nil, nil, ""},
		{"a kubelet's first for a year", host, kubelets, client, new(366 * day), nil, ""},
		{"a kubelet's first for longer", host, kubelets, client, new(366*day + 1), nil, "approves at most 31622400"},
		{"a kubelet's next", kubelet, kubelets, client, nil, nil, ""},
		{"a kubelet's for serving", kubelet, serving, server, nil, nil, ""},
		{"WICD's first", host, daemons, client, new(day), nil, ""},
		{"WICD's next", daemon, daemons, client, new(day), nil, ""},
		{"WICD's by the kubelet", kubelet, daemons, client, new(day), nil, ""},
		{"WICD's for longer than a day", daemon, daemons, client, new(day + 1), nil, "spec.expirationSeconds of the certificate request is 86401"},
		{"WICD's for as long as it gets", host, daemons, client, nil, nil, "spec.expirationSeconds of the certificate request is not set"},
		{"WICD's for serving", daemon, daemons, server, new(day), nil, "spec.usages of the certificate request are digital signature, server auth"},
		{"an administrator's", c.admin, daemons, client, new(day), nil, others},
		// Not an administrator's: Kubernetes' own approver approves that, for an administrator may ask for any node.
		{"somebody's as kubelet", c.mayAsk(t, c.as(t, "bob"), "bob"), kubelets, client, nil, nil, others},
		{"the operator's own", c.mayAsk(t, o, "system:serviceaccount:"+namespace+":windows-machine-config-operator"), daemons, client, new(day), nil, others},
		{"that of a bootstrap account elsewhere", c.mayAsk(t, c.as(t, "system:serviceaccount:default:windows-node-bootstrapper"), "system:serviceaccount:default:windows-node-bootstrapper"),
			daemons, client, new(day), nil, others},
		{"one of a user with a node's name", c.mayAsk(t, c.as(t, "system:node:win-1"), "system:node:win-1"), kubelets, client, nil, nil, others},
		{"another signer's", kubelet, "example.com/any", client, nil, nil, "user not permitted to approve requests with signerName \"example.com/any\""},
		{"denied", host, kubelets, client, nil, func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions[0].Type = certificatesv1.CertificateDenied
		}, "adds condition Approved"},
		{"for another reason", host, kubelets, client, nil, func(r *certificatesv1.CertificateSigningRequest) { r.Status.Conditions[0].Reason = "x" }, "adds condition Approved"},
		{"with something beside it", host, kubelets, client, nil, func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: "x", Status: corev1.ConditionTrue})
		}, "adds condition Approved"},
	} {
		attempts = append(attempts, attempt{tc.name, tc.want, func(ctx context.Context) error {
			_, request := newRequest(t, "bob", "devs")
			if tc.signer != daemons { // kubelets' signers look at the subject before they take a request
				_, request = newRequest(t, "system:node:win-1", "system:nodes")
			}
			made, err := tc.by.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					Request: request, SignerName: tc.signer, Usages: []certificatesv1.KeyUsage{"digital signature", tc.usage}, ExpirationSeconds: tc.seconds,
				},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			approved := approval(made)
			if tc.change != nil {
				tc.change(approved)
			}
			return drop(o.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, made.Name, approved, metav1.UpdateOptions{}))
		}})
	}
	try(t, attempts)
	// Requests of this signer cannot be made any more; old ones may be there.
	review, err := o.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "approve", Group: "certificates.k8s.io", Resource: "signers", Name: "kubernetes.io/legacy-unknown",
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if review.Status.Allowed {
		t.Error("the operator may approve requests of signer kubernetes.io/legacy-unknown")
	}
}

// mayAsk lets a user make certificate requests.
func (c *cluster) mayAsk(t *testing.T, as clients, user string) clients {
	t.Helper()
	_, err := c.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "may-ask-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, request := newRequest(t, "bob", "devs")
	eventually(t, "", func(ctx context.Context) error {
		return drop(as.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{"client auth"}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
	})
	return as
}

// bind gives a user one of Kubernetes' roles in the operator's namespace, or in the whole cluster for cluster-admin.
func (c *cluster) bind(t *testing.T, user, role string) {
	t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	name := metav1.ObjectMeta{Name: user, Namespace: namespace}
	var err error
	if role == "cluster-admin" {
		name.Namespace = ""
		_, err = c.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = c.admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// daemonRole is the Role that the operator makes for its daemons.
func daemonRole(configMaps ...string) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "windows-instance-config-daemon"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: configMaps, Verbs: []string{"get", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"windows-node-secrets"}, Verbs: []string{"get"}},
		},
	}
}

func openshift(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "config.openshift.io", Version: "v1", Resource: resource}
}

// networksToBe is what OpenShift's network operator is told.
func networksToBe() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "operator.openshift.io", Version: "v1", Resource: "networks"}
}
