//go:build linux

package deploytest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/windows-machine-config/wmco/api"
)

func (c *cluster) testOperatorLimits(t *testing.T) {
	const daemonsOnly = "may permit no more than get and watch ConfigMaps windows-services-<version>"
	const allowedChanges = "allowed: labels, annotations, spec.unschedulable, the value of taint os and the removal of taint startup-taint.cluster-autoscaler.kubernetes.io/windows-images"
	o := c.asOperator(t)
	core := o.CoreV1()
	token := func(in, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(core.ServiceAccounts(in).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
		}
	}
	try(t, []attempt{
		{"read another Secret in its namespace", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets(namespace).Get(ctx, "other", metav1.GetOptions{}))
		}},
		{"list the Secrets in its namespace", forbidden, func(ctx context.Context) error { return errOf(core.Secrets(namespace).List(ctx, metav1.ListOptions{})) }},
		{"list another Secret by name", forbidden, func(ctx context.Context) error { return errOf(core.Secrets(namespace).List(ctx, byName("other"))) }},
		{"list all Secrets", forbidden, func(ctx context.Context) error { return errOf(core.Secrets("").List(ctx, metav1.ListOptions{})) }},
		{"read a Secret with the name of the SSH key in another namespace", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets("default").Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
		{"change the signing key", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets(namespace).Patch(ctx, "windows-settings-signing-key", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}))
		}},
		{"delete the signing key", forbidden, func(ctx context.Context) error {
			return core.Secrets(namespace).Delete(ctx, "windows-settings-signing-key", metav1.DeleteOptions{})
		}},
		{"change the SSH key", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets(namespace).Patch(ctx, "cloud-private-key", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}))
		}},
		{"read a pull secret in another namespace", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets("default").Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"read OpenShift's pull secret without deploy/openshift", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets("openshift-config").Get(ctx, "pull-secret", metav1.GetOptions{}))
		}},
		{"read a ConfigMap in another namespace", forbidden, func(ctx context.Context) error {
			return errOf(core.ConfigMaps("default").Get(ctx, "windows-instances", metav1.GetOptions{}))
		}},
		{"watch the ConfigMaps in Flannel's namespace", forbidden, func(ctx context.Context) error {
			return errOf(core.ConfigMaps("kube-flannel").Watch(ctx, metav1.ListOptions{}))
		}},
		{"change Flannel's configuration", forbidden, func(ctx context.Context) error {
			return errOf(core.ConfigMaps("kube-flannel").Patch(ctx, "kube-flannel-cfg", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}))
		}},
		{"change OpenShift's network configuration", forbidden, func(ctx context.Context) error {
			return errOf(o.dynamic.Resource(operatorNetworks()).Patch(ctx, "cluster", types.MergePatchType, []byte(`{"spec":null}`), metav1.PatchOptions{}))
		}},
		{"grant WICD permissions that it lacks itself", "attempting to grant RBAC permissions not currently held", func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}})
			return errOf(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"let WICD read the SSH key", daemonsOnly, func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Rules[1].ResourceNames = append(role.Rules[1].ResourceNames, "cloud-private-key")
			return errOf(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"let WICD read the ConfigMap of hosts", daemonsOnly, func(ctx context.Context) error {
			return errOf(o.RbacV1().Roles(namespace).Update(ctx, daemonRole("windows-instances"), metav1.UpdateOptions{}))
		}},
		{"let WICD read all ConfigMaps", daemonsOnly, func(ctx context.Context) error {
			return errOf(o.RbacV1().Roles(namespace).Update(ctx, daemonRole(), metav1.UpdateOptions{}))
		}},
		{"let WICD delete settings of nodes", daemonsOnly, func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Rules[0].Verbs = append(role.Rules[0].Verbs, "delete")
			return errOf(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"create another Role", "allowed: windows-instance-config-daemon", func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Name = "other"
			return errOf(o.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}))
		}},
		{"update another Role", forbidden, func(ctx context.Context) error {
			role := daemonRole("windows-services-1")
			role.Name = "windows-machine-config-operator"
			return errOf(o.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{}))
		}},
		{"change the ConfigMap of hosts", forbidden, func(ctx context.Context) error {
			return errOf(core.ConfigMaps(namespace).Patch(ctx, "windows-instances", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{}))
		}},
		{"create a token for its own account", forbidden, token(namespace, "windows-machine-config-operator")},
		{"create a token for another account", forbidden, token(namespace, "default")},
		{"create a token for an account in another namespace", forbidden, token("kube-system", "namespace-controller")},
		{"delete a Linux node", "changes and deletes Windows nodes only", func(ctx context.Context) error {
			return core.Nodes().Delete(ctx, "linux-1", metav1.DeleteOptions{})
		}},
		{"cordon a Linux node", "changes and deletes Windows nodes only", func(ctx context.Context) error {
			return patchNode(ctx, o, "linux-1", map[string]any{"spec": map[string]any{"unschedulable": true}})
		}},
		{"replace the taints of a Windows node", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"taints": []map[string]any{{"key": "a", "effect": "NoExecute"}}}})
		}},
		{"set an unknown value of a Windows node's taint", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", taints(map[string]any{"key": "os", "value": "other", "effect": "NoSchedule"}))
		}},
		{"change the effect of a Windows node's taint", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", taints(map[string]any{"key": "os", "value": "Windows", "effect": "NoExecute"}))
		}},
		{"add a taint together with a new value of a Windows node's taint", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", taints(map[string]any{"key": "os", "value": "windows", "effect": "NoSchedule"}, map[string]any{"key": "a", "effect": "NoSchedule"}))
		}},
		{"add the taint of images to a Windows node", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", taints(map[string]any{"key": "os", "value": "Windows", "effect": "NoSchedule"}, map[string]any{"key": api.TaintImages, "effect": "NoSchedule"}))
		}},
		{"remove the taints of a Windows node", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"taints": nil}})
		}},
		{"remove the taints of a Windows node together with cordoning it", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"unschedulable": true, "taints": nil}})
		}},
		{"set the provider ID of a Windows node", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"spec": map[string]any{"providerID": "x://y"}})
		}},
		{"add a finalizer to a Windows node", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", metadata("finalizers", []string{"example.com/stay"}))
		}},
		{"add an owner to a Windows node", allowedChanges, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", metadata("ownerReferences", []map[string]any{{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}}))
		}},
		{"label a node without operating system", "changes and deletes Windows nodes only", func(ctx context.Context) error {
			return patchNode(ctx, o, "win-bare", metadata("labels", map[string]any{"kubernetes.io/os": "windows"}))
		}},
		{"read one pod", forbidden, func(ctx context.Context) error { return errOf(core.Pods("default").Get(ctx, "a", metav1.GetOptions{})) }},
		{"write the status of a node", forbidden, func(ctx context.Context) error {
			return patchNode(ctx, o, "win-1", map[string]any{"status": map[string]any{"phase": "Running"}}, "status")
		}},
		{"list all Leases", forbidden, func(ctx context.Context) error {
			return errOf(o.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{}))
		}},
		{"read the Lease of another operator", forbidden, func(ctx context.Context) error {
			return errOf(o.CoordinationV1().Leases("default").Get(ctx, "windows-machine-config-operator", metav1.GetOptions{}))
		}},
		{"create an event of API group core", forbidden, func(ctx context.Context) error {
			return errOf(o.CoreV1().Events(namespace).Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "older"}}, metav1.CreateOptions{}))
		}},
		{"update another Lease", forbidden, func(ctx context.Context) error {
			return errOf(o.CoordinationV1().Leases(namespace).Update(ctx, leaseNamed("other"), metav1.UpdateOptions{}))
		}},
		{"list WindowsInstances in other namespaces", forbidden, func(ctx context.Context) error {
			return errOf(instances(o, "default").List(ctx, metav1.ListOptions{}))
		}},
		{"create the WindowsConfig", forbidden, func(ctx context.Context) error {
			return errOf(configs(o).Create(ctx, object("WindowsConfig", "cluster", nil), metav1.CreateOptions{}))
		}},
		{"create a pod", forbidden, func(ctx context.Context) error {
			return errOf(core.Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
		}},
		{"change a Service", forbidden, func(ctx context.Context) error {
			return errOf(core.Services("default").Patch(ctx, "kubernetes", types.MergePatchType, []byte(`{"spec":{"externalIPs":["192.0.2.1"]}}`), metav1.PatchOptions{}))
		}},
		{"change the addresses of API servers", forbidden, func(ctx context.Context) error {
			return errOf(o.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{}, metav1.CreateOptions{}))
		}},
		{"grant itself permissions", forbidden, func(ctx context.Context) error {
			return errOf(o.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
		}},
	})
}

func (c *cluster) testOperatorApprovals(t *testing.T) {
	o := c.asOperator(t)
	host, daemon, kubelet := c.newHost(t).clients, c.asWICD(t, "win-1"), c.as(t, "system:node:win-1", "system:nodes")
	const (
		kubelets = certificatesv1.KubeAPIServerClientKubeletSignerName
		serving  = certificatesv1.KubeletServingSignerName
		daemons  = certificatesv1.KubeAPIServerClientSignerName
		day      = int32(86400)
		byOthers = "certificate request is by another user"
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
		{"first kubelet certificate", host, kubelets, client, nil, nil, ""},
		{"first kubelet certificate for a year", host, kubelets, client, new(366 * day), nil, ""},
		{"first kubelet certificate for more than a year", host, kubelets, client, new(366*day + 1), nil, "approves at most 31622400"},
		{"renewed kubelet certificate", kubelet, kubelets, client, nil, nil, ""},
		{"kubelet serving certificate", kubelet, serving, server, nil, nil, ""},
		{"first WICD certificate", host, daemons, client, new(day), nil, ""},
		{"renewed WICD certificate", daemon, daemons, client, new(day), nil, ""},
		{"WICD certificate requested by the kubelet", kubelet, daemons, client, new(day), nil, ""},
		{"WICD certificate for more than a day", daemon, daemons, client, new(day + 1), nil, "spec.expirationSeconds of the certificate request is 86401"},
		{"WICD certificate without expirationSeconds", host, daemons, client, nil, nil, "spec.expirationSeconds of the certificate request is not set"},
		{"WICD serving certificate", daemon, daemons, server, new(day), nil, "spec.usages of the certificate request are digital signature, server auth"},
		{"WICD certificate requested by an administrator", c.admin, daemons, client, new(day), nil, byOthers},
		// There is no such case for an administrator, because Kubernetes' own approver lets administrators request certificates
		// for any node.
		{"kubelet certificate requested by another user", c.mayRequest(t, c.as(t, "bob"), "bob"), kubelets, client, nil, nil, byOthers},
		{"certificate requested by the operator", c.mayRequest(t, o, "system:serviceaccount:"+namespace+":windows-machine-config-operator"),
			daemons, client, new(day), nil, byOthers},
		{"certificate requested by a bootstrap account in another namespace", c.mayRequest(t, c.as(t, "system:serviceaccount:default:windows-node-bootstrapper"), "system:serviceaccount:default:windows-node-bootstrapper"),
			daemons, client, new(day), nil, byOthers},
		{"kubelet certificate requested by a user with a node's name", c.mayRequest(t, c.as(t, "system:node:win-1"), "system:node:win-1"),
			kubelets, client, nil, nil, byOthers},
		{"certificate of another signer", kubelet, "example.com/any", client, nil, nil, "user not permitted to approve requests with signerName \"example.com/any\""},
		{"denial", host, kubelets, client, nil, func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions[0].Type = certificatesv1.CertificateDenied
		}, "adds condition Approved"},
		{"approval for another reason", host, kubelets, client, nil, func(r *certificatesv1.CertificateSigningRequest) { r.Status.Conditions[0].Reason = "x" }, "adds condition Approved"},
		{"approval with another condition", host, kubelets, client, nil, func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: "x", Status: corev1.ConditionTrue})
		}, "adds condition Approved"},
	} {
		attempts = append(attempts, attempt{tc.name, tc.want, func(ctx context.Context) error {
			_, request := newRequest(t, "bob", "devs")
			if tc.signer != daemons { // kubelets' signers check the subject before they accept a request
				_, request = newRequest(t, "system:node:win-1", "system:nodes")
			}
			created, err := tc.by.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					Request: request, SignerName: tc.signer, Usages: []certificatesv1.KeyUsage{"digital signature", tc.usage}, ExpirationSeconds: tc.seconds,
				},
			}, metav1.CreateOptions{})
			must(t, err)
			approved := approval(created)
			if tc.change != nil {
				tc.change(approved)
			}
			return errOf(o.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, created.Name, approved, metav1.UpdateOptions{}))
		}})
	}
	try(t, attempts)
	// Requests for this signer can no longer be created, but old ones can exist.
	review, err := o.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "approve", Group: "certificates.k8s.io", Resource: "signers", Name: "kubernetes.io/legacy-unknown",
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	if review.Status.Allowed {
		t.Error("the operator can approve requests of signer kubernetes.io/legacy-unknown")
	}
}

// mayRequest permits a user to create certificate requests, and returns its clients.
func (c *cluster) mayRequest(t *testing.T, as clients, user string) clients {
	t.Helper()
	c.bind(t, "", "system:node-bootstrapper", userNamed(user))
	_, request := newRequest(t, "bob", "devs")
	eventually(t, "", func(ctx context.Context) error {
		return errOf(as.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{"client auth"}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
	})
	return as
}

// setTaint sets the value of a Windows node's taint, and keeps the other taints, which Kubernetes adds to a node without a kubelet.
func setTaint(ctx context.Context, as clients, name, value string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := as.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "os" })
		if i < 0 {
			return fmt.Errorf("node %s has taints %v, want taint os", name, node.Spec.Taints)
		}
		node.Spec.Taints[i].Value = value
		return patchNode(ctx, as, name, map[string]any{
			"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": node.Spec.Taints},
		})
	})
}

// taints returns a patch that replaces the taints of a node.
func taints(list ...map[string]any) map[string]any {
	return map[string]any{"spec": map[string]any{"taints": list}}
}
