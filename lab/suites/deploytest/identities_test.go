//go:build linux

package deploytest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/lab/cluster/rights"
)

// TestManifests starts one control plane for all subtests.
func TestManifests(t *testing.T) {
	c := startCluster(t)
	c.testManifests(t)
	t.Run("default RuntimeClass", c.testDefaultRuntimeClass) // applies deploy/workloads, which affects the following tests
	t.Run("policies that cannot be evaluated", c.testBrokenPolicies)
	t.Run("deletion of the namespace", c.testNamespaceDeletion)
}

// testManifests runs the tests that do not need deploy/workloads.
func (c *cluster) testManifests(t *testing.T) {
	t.Run("operator permissions", c.testOperatorPermissions) // creates the Role with which WICD reads settings
	t.Run("WICD permissions for its own Node", c.testWICDNodePermissions)
	t.Run("WICD permissions for its conditions", c.testWICDStatusPermissions)
	t.Run("WICD permissions for Flannel", c.testWICDFlannelPermissions)
	t.Run("WICD and kubelet write concurrently", c.testConcurrentStatusWrites)
	t.Run("WICD permissions for events", c.testWICDEventPermissions)
	t.Run("WICD limits", c.testWICDLimits)
	t.Run("cloud-node-manager permissions for its own Node", c.testNodeManagerNodePermissions)
	t.Run("cloud-node-manager permissions for its status", c.testNodeManagerStatusPermissions)
	t.Run("cloud-node-manager limits", c.testNodeManagerLimits)
	t.Run("cloud-node-manager obtains a certificate", c.testNodeManagerCertificate)
	t.Run("host obtains certificates with a bootstrap token", c.testHostCertificates)
	t.Run("WICD watches its settings", c.testWICDWatchesSettings)
	t.Run("kubectl windows follows no redirects", c.testRedirects)
	t.Run("policies ignore other identities", c.testPoliciesIgnoreOtherIdentities)
	t.Run("policies are type-checked", c.testPoliciesAreTypeChecked)
	t.Run("bootstrap token permissions", c.testBootstrapTokenPermissions)
	t.Run("identities have no other permissions", c.testPermissionsAreExact)
	t.Run("operator limits", c.testOperatorLimits)
	t.Run("relabeled nodes", c.testRelabeledNodes)
	t.Run("operator compares policies", c.testOperatorComparesPolicies)
	t.Run("size of certificate requests", c.testCertificateRequestSize)
	t.Run("memory of the operator's cache", c.testCacheMemory)
	t.Run("operator approvals", c.testOperatorApprovals)
	t.Run("writers of node settings", c.testSettingsWriters)
	t.Run("writers of node secrets", c.testSecretsWriters)
	t.Run("labels of nodes", c.testNodeLabels)
	t.Run("roles of OLM", c.testRolesOfOLM)
	t.Run("OperatorCondition", c.testOperatorCondition)
	t.Run("Machines", c.testMachines)
	t.Run("monitoring", c.testMonitoring)
	t.Run("users", c.testUsers)
	t.Run("WindowsInstance", c.testWindowsInstance)
	t.Run("examples in documents", c.testExamples)
	t.Run("examples in field descriptions", c.testFieldExamples)
	t.Run("printer columns", c.testColumns)
	t.Run("pod rules", c.testPodRules)
	t.Run("HostProcess containers", c.testHostProcess)
	t.Run("RuntimeClasses", c.testRuntimeClasses)
	t.Run("pod annotations", c.testPodAnnotations)
	t.Run("pod policies", c.testPodPolicies)
	t.Run("WindowsConfig", c.testWindowsConfig)
	t.Run("random kubelet settings", c.testRandomKubeletSettings)
	t.Run("server-side apply after client-side apply", c.testServerSideApply)
	t.Run("operator applies policies", c.testOperatorAppliesPolicies)
}

func (c *cluster) testWICDNodePermissions(t *testing.T) {
	wicd := c.asWICD(t, "win-1")
	patch := func(value map[string]any) func(context.Context) error {
		return func(ctx context.Context) error { return patchNode(ctx, wicd, "win-1", value) }
	}
	const policy = "ValidatingAdmissionPolicy 'windows-instance-config-daemon'"
	try(t, []attempt{
		{"set its version", "", patch(annotate(group+"/version", "1"))},
		{"change its version", "", patch(annotate(group+"/version", "2"))},
		{"remove its version", "", patch(annotate(group+"/version", nil))},
		{"read its Node", "", func(ctx context.Context) error {
			return errOf(wicd.CoreV1().Nodes().Get(ctx, "win-1", metav1.GetOptions{}))
		}},
		{"watch its Node", "", func(ctx context.Context) error { return watchErr(wicd.CoreV1().Nodes().Watch(ctx, byName("win-1"))) }},
		{"report a collection", "", patch(annotate(group+"/collected", strings.Repeat("x", 1024)))},
		{"report a collection in more than 1024 bytes", policy, patch(annotate(group+"/collected", strings.Repeat("x", 1025)))},
		{"report its services", "", patch(annotate(group+"/services", strings.Repeat("x", 2048)))},
		{"report its services in more than 2048 bytes", policy, patch(annotate(group+"/services", strings.Repeat("x", 2049)))},
		{"report its boot ID", "", patch(annotate(group+"/boot-id", strings.Repeat("1", 64)))},
		{"report a boot ID of more than 64 bytes", policy, patch(annotate(group+"/boot-id", strings.Repeat("1", 65)))},
		{"remove its report of a collection", "", patch(annotate(group+"/collected", nil))},
		{"request a collection", policy, patch(annotate(group+"/collect", "x"))},
		{"change its desired version", policy, patch(annotate(group+"/desired-version", "3"))},
		{"remove its desired version", policy, patch(annotate(group+"/desired-version", nil))},
		{"set a version order", policy, patch(annotate(group+"/version-order", "1.AAAA"))},
		{"set a version order together with its version", policy, patch(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			group + "/version": "1", group + "/desired-version": "3", group + "/version-order": "1.AAAA",
		}}})},
		{"change its SSH host key", policy, patch(annotate(group+"/ssh-host-key", "AAAA"))},
		{"add another annotation", policy, patch(annotate("example.com/new", "x"))},
		{"change another annotation", policy, patch(annotate("example.com/other", "y"))},
		{"remove another annotation", policy, patch(annotate("example.com/other", nil))},
		{"remove all annotations", policy, patch(metadata("annotations", nil))},
		{"change another annotation together with its version", policy, patch(map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{group + "/version": "3", "example.com/other": "y"}},
		})},
		{"add a label", policy, patch(metadata("labels", map[string]any{"node-role.kubernetes.io/control-plane": ""}))},
		{"add a label of the operator", policy, patch(metadata("labels", map[string]any{group + "/byoh": "true"}))},
		{"remove its labels", policy, patch(metadata("labels", nil))},
		{"add a finalizer", policy, patch(metadata("finalizers", []string{"example.com/stay"}))},
		{"add an owner", policy, patch(metadata("ownerReferences", []map[string]any{{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}}))},
		{"remove its taints", policy, patch(map[string]any{"spec": map[string]any{"taints": nil}})},
		{"cordon its Node", policy, patch(map[string]any{"spec": map[string]any{"unschedulable": true}})},
		{"delete its Node", forbidden, func(ctx context.Context) error {
			return wicd.CoreV1().Nodes().Delete(ctx, "win-1", metav1.DeleteOptions{})
		}},
	})
	bare := c.asWICD(t, "win-bare")
	try(t, []attempt{
		{"set the version of a Node without annotations", "", func(ctx context.Context) error {
			return patchNode(ctx, bare, "win-bare", annotate(group+"/version", "1"))
		}},
		{"label a Node without labels", policy, func(ctx context.Context) error {
			return patchNode(ctx, bare, "win-bare", metadata("labels", map[string]any{"a": "b"}))
		}},
	})
}

func (c *cluster) testWICDLimits(t *testing.T) {
	wicd := c.asWICD(t, "win-1")
	member := c.as(t, "alice", "system:wicd-nodes")
	longer := c.asWICD(t, "win")
	version := annotate(group+"/version", "1")
	_, pem := newRequest(t, "system:wicd-node:win-1", "system:wicd-nodes")
	request := func(signer string, usage certificatesv1.KeyUsage) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(createRequest(ctx, wicd, signer, pem, "digital signature", usage))
		}
	}
	core := wicd.CoreV1()
	try(t, []attempt{
		{"patch another Windows node", "is not the node of user system:wicd-node:win-1", func(ctx context.Context) error {
			return patchNode(ctx, wicd, "win-2", version)
		}},
		{"patch a Linux node", "is not the node of user system:wicd-node:win-1", func(ctx context.Context) error {
			return patchNode(ctx, wicd, "linux-1", version)
		}},
		{"patch a Node whose name starts with its own", "is not the node of user system:wicd-node:win", func(ctx context.Context) error {
			return patchNode(ctx, longer, "win-1", version)
		}},
		{"patch a Node as another member of the group", "is not the node of user alice", func(ctx context.Context) error {
			return patchNode(ctx, member, "win-1", version)
		}},
		{"create a Node", forbidden, func(ctx context.Context) error {
			return errOf(core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-3"}}, metav1.CreateOptions{}))
		}},
		{"read a Secret", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets(namespace).Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
		{"read a ConfigMap", forbidden, func(ctx context.Context) error {
			return errOf(core.ConfigMaps(namespace).Get(ctx, "windows-instances", metav1.GetOptions{}))
		}},
		{"follow the policies of a namespace", "", func(ctx context.Context) error {
			if _, err := policySets(wicd).List(ctx, byName("shop")); err != nil {
				return err
			}
			return watchErr(policySets(wicd).Watch(ctx, byName("shop")))
		}},
		{"write the policies of a namespace", forbidden, func(ctx context.Context) error {
			return errOf(policySets(wicd).Create(ctx, object("WindowsPolicySet", "shop", map[string]any{"set": "{}"}), metav1.CreateOptions{}))
		}},
		{"read settings of nodes", "", func(ctx context.Context) error {
			return allowMissing(core.ConfigMaps(namespace).Get(ctx, "windows-services-1", metav1.GetOptions{}))
		}},
		{"watch settings of nodes", "", func(ctx context.Context) error {
			return watchErr(core.ConfigMaps(namespace).Watch(ctx, byName("windows-services-1")))
		}},
		{"read settings of an unknown version", forbidden, func(ctx context.Context) error {
			return errOf(core.ConfigMaps(namespace).Get(ctx, "windows-services-3", metav1.GetOptions{}))
		}},
		{"read secrets of nodes", "", func(ctx context.Context) error {
			return allowMissing(core.Secrets(namespace).Get(ctx, "windows-node-secrets", metav1.GetOptions{}))
		}},
		{"read the signing key", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets(namespace).Get(ctx, "windows-settings-signing-key", metav1.GetOptions{}))
		}},
		{"list secrets of nodes", forbidden, func(ctx context.Context) error {
			return errOf(core.Secrets(namespace).List(ctx, byName("windows-node-secrets")))
		}},
		{"list ConfigMaps", forbidden, func(ctx context.Context) error { return errOf(core.ConfigMaps("").List(ctx, metav1.ListOptions{})) }},
		{"list Pods", forbidden, func(ctx context.Context) error { return errOf(core.Pods("").List(ctx, metav1.ListOptions{})) }},
		{"request its certificate", "", request(certificatesv1.KubeAPIServerClientSignerName, "client auth")},
		{"request a kubelet's certificate", "allowed: kubernetes.io/kube-apiserver-client", request(certificatesv1.KubeAPIServerClientKubeletSignerName, "client auth")},
		{"request a serving certificate", "allowed: kubernetes.io/kube-apiserver-client", request(certificatesv1.KubeletServingSignerName, "server auth")},
	})
}

// testPoliciesIgnoreOtherIdentities checks that identities other than hosts can still change Nodes and create certificate requests.
func (c *cluster) testPoliciesIgnoreOtherIdentities(t *testing.T) {
	kubelet := c.as(t, "system:node:win-2", "system:nodes")
	_, request := newRequest(t, "bob", "devs")
	try(t, []attempt{
		{"kubelet annotates its node", "", func(ctx context.Context) error {
			return patchNode(ctx, kubelet, "win-2", annotate("example.com/kubelet", "x"))
		}},
		{"kubelet changes the status of its node", "", func(ctx context.Context) error {
			return patchNode(ctx, kubelet, "win-2", map[string]any{"status": map[string]any{"phase": "Running"}}, "status")
		}},
		{"administrator creates an event about a node", "", func(ctx context.Context) error {
			return createEvent(ctx, c.admin, eventOf("win-2"))
		}},
		{"administrator labels a node", "", func(ctx context.Context) error {
			return patchNode(ctx, c.admin, "win-2", metadata("labels", map[string]any{"a": "b"}))
		}},
		{"administrator cordons a node", "", func(ctx context.Context) error {
			return patchNode(ctx, c.admin, "win-2", map[string]any{"spec": map[string]any{"unschedulable": true}})
		}},
		{"administrator requests a certificate of any signer", "", func(ctx context.Context) error {
			return errOf(createRequest(ctx, c.admin, "example.com/any", request, "client auth"))
		}},
	})
}

func (c *cluster) testBootstrapTokenPermissions(t *testing.T) {
	host := c.newHost(t).clients
	_, pem := newRequest(t, "system:node:win-1", "system:nodes")
	request := func(signer string, usage certificatesv1.KeyUsage) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(createRequest(ctx, host, signer, pem, "digital signature", usage))
		}
	}
	const allowed = "allowed: kubernetes.io/kube-apiserver-client-kubelet, kubernetes.io/kube-apiserver-client"
	created, err := createRequest(t.Context(), host, certificatesv1.KubeAPIServerClientKubeletSignerName, pem, "digital signature", "client auth")
	must(t, err)
	try(t, []attempt{
		{"request a kubelet's certificate", "", request(certificatesv1.KubeAPIServerClientKubeletSignerName, "client auth")},
		{"request WICD's certificate", "", request(certificatesv1.KubeAPIServerClientSignerName, "client auth")},
		{"wait for its certificate like the kubelet", "", func(ctx context.Context) error {
			if _, err := host.CertificatesV1().CertificateSigningRequests().List(ctx, byName(created.Name)); err != nil {
				return err
			}
			return watchErr(host.CertificatesV1().CertificateSigningRequests().Watch(ctx, byName(created.Name)))
		}},
		{"request a serving certificate", allowed, request(certificatesv1.KubeletServingSignerName, "server auth")},
		{"request a certificate of another signer", allowed, request("example.com/any", "client auth")},
		{"approve its request", forbidden, func(ctx context.Context) error { return approve(ctx, host, created) }},
		{"read a Node", forbidden, func(ctx context.Context) error {
			return errOf(host.CoreV1().Nodes().Get(ctx, "win-1", metav1.GetOptions{}))
		}},
		{"read the SSH key", forbidden, func(ctx context.Context) error {
			return errOf(host.CoreV1().Secrets(namespace).Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
		{"create a new token", forbidden, func(ctx context.Context) error {
			return errOf(host.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "windows-node-bootstrapper", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
		}},
	})
}

// testPermissionsAreExact compares the permissions that an identity has in addition to those of every user.
func (c *cluster) testPermissionsAreExact(t *testing.T) {
	basic := rightsOf(t, c.as(t, "basic"))
	account := rightsOf(t, c.asAccount(t, "basic"))
	for _, tc := range []struct {
		name       string
		have, base []string
		want       []string
	}{
		{"bootstrap ServiceAccount", rightsOf(t, c.asAccount(t, "windows-node-bootstrapper")), account, []string{
			"create certificates.k8s.io/certificatesigningrequests", "get certificates.k8s.io/certificatesigningrequests",
			"list certificates.k8s.io/certificatesigningrequests", "watch certificates.k8s.io/certificatesigningrequests",
		}},
		{"WICD", rightsOf(t, c.asWICD(t, "win-1")), basic, []string{
			"create certificates.k8s.io/certificatesigningrequests", "get certificates.k8s.io/certificatesigningrequests",
			"list certificates.k8s.io/certificatesigningrequests", "watch certificates.k8s.io/certificatesigningrequests",
			"get /nodes", "list /nodes", "watch /nodes", "patch /nodes", "patch /nodes/status", "create events.k8s.io/events",
			"list /services", "watch /services", "list discovery.k8s.io/endpointslices", "watch discovery.k8s.io/endpointslices",
			"list networking.k8s.io/servicecidrs", "watch networking.k8s.io/servicecidrs",
			"list windowsmachineconfig.openshift.io/windowspolicysets", "watch windowsmachineconfig.openshift.io/windowspolicysets",
			"get /configmaps windows-services-1,windows-services-2", "watch /configmaps windows-services-1,windows-services-2",
			"get /secrets windows-node-secrets",
		}},
		{"cloud-node-manager", rightsOf(t, c.asNodeManager(t, "win-1")), basic, []string{
			"get /nodes", "list /nodes", "watch /nodes", "update /nodes", "patch /nodes/status",
		}},
	} {
		got := slices.DeleteFunc(tc.have, func(right string) bool { return slices.Contains(tc.base, right) })
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("got permissions of %s\n%s\nwant\n%s", tc.name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}

func rightsOf(t *testing.T, as clients) []string {
	t.Helper()
	all, err := rights.Of(t.Context(), as, namespace)
	must(t, err)
	return all
}

func (c *cluster) testUsers(t *testing.T) {
	for _, tc := range []struct {
		role        string
		may, mayNot []string // verb and resource
	}{
		{"view", []string{"get windowsinstances", "watch windowsinstances"}, []string{"create windowsinstances", "update windowsconfigs"}},
		{"edit", []string{"get windowsinstances"}, []string{"create windowsinstances", "delete windowsinstances", "update windowsconfigs"}},
		{"admin", []string{"get windowsinstances", "create windowsinstances", "delete windowsinstances"}, []string{"patch windowsinstances/status", "update windowsconfigs"}},
		{"cluster-admin", []string{"create windowsinstances", "update windowsconfigs"}, nil},
	} {
		in := namespace
		if tc.role == "cluster-admin" {
			in = ""
		}
		c.bind(t, in, tc.role, userNamed("user-"+tc.role))
		who := c.as(t, "user-"+tc.role)
		for _, right := range tc.may { // Kubernetes aggregates ClusterRoles asynchronously
			eventually(t, "", func(ctx context.Context) error {
				allowed, err := isAllowed(ctx, who, right)
				if err == nil && !allowed {
					err = fmt.Errorf("role %s may not %s", tc.role, right)
				}
				return err
			})
		}
		for _, right := range tc.mayNot {
			if allowed, err := isAllowed(t.Context(), who, right); err != nil || allowed {
				t.Errorf("got permission of role %s to %s: %t (error %v), want false", tc.role, right, allowed, err)
			}
		}
	}
	c.expectTable(t)
}

// isAllowed reports whether a user has a permission, in the form "verb resource", in the operator's namespace.
func isAllowed(ctx context.Context, who clients, right string) (bool, error) {
	verb, resource, _ := strings.Cut(right, " ")
	resource, subresource, _ := strings.Cut(resource, "/")
	review, err := who.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

func leaseNamed(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
}

func eventAbout(name, in string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: in},
		EventTime:  metav1.NowMicro(), ReportingController: "windows-machine-config-operator", ReportingInstance: "x",
		Action: "Test", Reason: "Test", Type: "Normal", Regarding: corev1.ObjectReference{Kind: "Node", Name: "win-1", Namespace: in},
	}
}
