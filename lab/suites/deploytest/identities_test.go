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
	t.Run("pods get a RuntimeClass", c.testPodsGetAClass) // from here on, all
	t.Run("policies that cannot be evaluated", c.testBrokenPolicies)
	t.Run("namespace can be deleted", c.testNamespaceCanBeDeleted)
}

// testManifests are the tests that do not need deploy/workloads.
func (c *cluster) testManifests(t *testing.T) {
	t.Run("operator does its work", c.testOperatorWorks) // it permits WICD to read what nodes must have
	t.Run("WICD and its own node", c.testWICDOnItsNode)
	t.Run("WICD and the condition of its node", c.testWICDOnItsCondition)
	t.Run("WICD and Flannel", c.testWICDOnFlannel)
	t.Run("WICD and the kubelet at the same time", c.testConditionBesideTheKubelet)
	t.Run("WICD and events", c.testWICDOnEvents)
	t.Run("WICD and everything else", c.testWICDOnOtherObjects)
	t.Run("cloud-node-manager and its own node", c.testNodeManagerOnItsNode)
	t.Run("cloud-node-manager and the status of its node", c.testNodeManagerOnItsStatus)
	t.Run("cloud-node-manager and everything else", c.testNodeManagerOnOtherObjects)
	t.Run("cloud-node-manager gets its identity", c.testNodeManagerGetsItsIdentity)
	t.Run("host gets its identities with a bootstrap token", c.testHostGetsItsIdentities)
	t.Run("WICD watches its settings", c.testWICDWatchesSettings)
	t.Run("kubelet sends the administrator elsewhere", c.testRedirects)
	t.Run("policies affect no other identity", c.testPoliciesAffectNoOther)
	t.Run("policies are type-checked", c.testPoliciesAreTypeChecked)
	t.Run("holder of a bootstrap token", c.testBootstrapper)
	t.Run("identities have no rights beside these", c.testRightsAreComplete)
	t.Run("operator does nothing else", c.testOperatorIsLimited)
	t.Run("nodes that change their label", c.testNodesThatChangeTheirLabel)
	t.Run("operator sees the policies", c.testOperatorSeesThePolicies)
	t.Run("size of certificate requests", c.testSizeOfRequests)
	t.Run("memory of the operator's cache", c.testMemoryOfTheCache)
	t.Run("operator approves for three signers", c.testOperatorApproves)
	t.Run("what nodes obey", c.testServicesAreTheOperators)
	t.Run("what nodes trust", c.testSecretsAreTheOperators)
	t.Run("labels of nodes", c.testKubeletsCannotSetOperatorLabels)
	t.Run("roles of OLM", c.testRolesOfOLMWriteNothing)
	t.Run("OLM's conditions", c.testAJoiningHostStopsNoUpgrade)
	t.Run("Machines", c.testMachines)
	t.Run("monitoring", c.testMonitoring)
	t.Run("users", c.testUsers)
	t.Run("WindowsInstance", c.testWindowsInstance)
	t.Run("examples of documents", c.testExamples)
	t.Run("examples in descriptions of fields", c.testExamplesOfFields)
	t.Run("what kubectl prints", c.testColumns)
	t.Run("fields that pods on Windows cannot have", c.testPodRules)
	t.Run("HostProcess containers that contradict the pod", c.testHostProcess)
	t.Run("RuntimeClasses", c.testRuntimeClasses)
	t.Run("annotations of pods", c.testAnnotationsOfPods)
	t.Run("policies about pods", c.testPodPolicies)
	t.Run("WindowsConfig", c.testWindowsConfig)
	t.Run("kubelet settings by chance", c.testKubeletByChance)
	t.Run("server-side apply after another one", c.testServerSideApply)
	t.Run("operator applies policies", c.testOperatorAppliesPolicies)
}

func (c *cluster) testWICDOnItsNode(t *testing.T) {
	wicd := c.asWICD(t, "win-1")
	patch := func(value map[string]any) func(context.Context) error {
		return func(ctx context.Context) error { return patchNode(ctx, wicd, "win-1", value) }
	}
	const policy = "ValidatingAdmissionPolicy 'windows-instance-config-daemon'"
	try(t, []attempt{
		{"sets its version", "", patch(annotate(group+"/version", "1"))},
		{"changes its version", "", patch(annotate(group+"/version", "2"))},
		{"takes its version away", "", patch(annotate(group+"/version", nil))},
		{"reads its node", "", func(ctx context.Context) error {
			return drop(wicd.CoreV1().Nodes().Get(ctx, "win-1", metav1.GetOptions{}))
		}},
		{"watches its node", "", func(ctx context.Context) error { return watched(wicd.CoreV1().Nodes().Watch(ctx, byName("win-1"))) }},
		{"reports a collection", "", patch(annotate(group+"/collected", strings.Repeat("x", 1024)))},
		{"reports a collection at length", policy, patch(annotate(group+"/collected", strings.Repeat("x", 1025)))},
		{"reports its services", "", patch(annotate(group+"/services", strings.Repeat("x", 2048)))},
		{"reports its services at length", policy, patch(annotate(group+"/services", strings.Repeat("x", 2049)))},
		{"says of which start it speaks", "", patch(annotate(group+"/boot-id", strings.Repeat("1", 64)))},
		{"says so at length", policy, patch(annotate(group+"/boot-id", strings.Repeat("1", 65)))},
		{"takes its report away", "", patch(annotate(group+"/collected", nil))},
		{"asks itself for a collection", policy, patch(annotate(group+"/collect", "x"))},
		{"changes the version it shall have", policy, patch(annotate(group+"/desired-version", "3"))},
		{"takes away the version it shall have", policy, patch(annotate(group+"/desired-version", nil))},
		{"orders itself a version", policy, patch(annotate(group+"/version-order", "1.AAAA"))},
		{"orders itself a version with what it may write", policy, patch(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			group + "/version": "1", group + "/desired-version": "3", group + "/version-order": "1.AAAA",
		}}})},
		{"changes its SSH host key", policy, patch(annotate(group+"/ssh-host-key", "AAAA"))},
		{"adds an annotation of others", policy, patch(annotate("example.com/new", "x"))},
		{"changes an annotation of others", policy, patch(annotate("example.com/other", "y"))},
		{"takes away an annotation of others", policy, patch(annotate("example.com/other", nil))},
		{"takes away all annotations", policy, patch(metadata("annotations", nil))},
		{"hides another change behind its version", policy, patch(map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{group + "/version": "3", "example.com/other": "y"}},
		})},
		{"adds a label", policy, patch(metadata("labels", map[string]any{"node-role.kubernetes.io/control-plane": ""}))},
		{"adds a label of ours", policy, patch(metadata("labels", map[string]any{group + "/byoh": "true"}))},
		{"takes away its labels", policy, patch(metadata("labels", nil))},
		{"adds a finalizer", policy, patch(metadata("finalizers", []string{"example.com/stay"}))},
		{"adds an owner", policy, patch(metadata("ownerReferences", []map[string]any{{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}}))},
		{"takes away its taints", policy, patch(map[string]any{"spec": map[string]any{"taints": nil}})},
		{"makes itself unschedulable", policy, patch(map[string]any{"spec": map[string]any{"unschedulable": true}})},
		{"deletes its node", forbidden, func(ctx context.Context) error {
			return wicd.CoreV1().Nodes().Delete(ctx, "win-1", metav1.DeleteOptions{})
		}},
	})
	bare := c.asWICD(t, "win-bare")
	try(t, []attempt{
		{"sets the version of a node without annotations", "", func(ctx context.Context) error {
			return patchNode(ctx, bare, "win-bare", annotate(group+"/version", "1"))
		}},
		{"labels a node without labels", policy, func(ctx context.Context) error {
			return patchNode(ctx, bare, "win-bare", metadata("labels", map[string]any{"a": "b"}))
		}},
	})
}

func (c *cluster) testWICDOnOtherObjects(t *testing.T) {
	wicd := c.asWICD(t, "win-1")
	member := c.as(t, "alice", "system:wicd-nodes")
	longer := c.asWICD(t, "win")
	version := annotate(group+"/version", "1")
	_, request := newRequest(t, "system:wicd-node:win-1", "system:wicd-nodes")
	ask := func(signer string, usage certificatesv1.KeyUsage) func(context.Context) error {
		return func(ctx context.Context) error {
			return drop(createRequest(ctx, wicd, signer, request, "digital signature", usage))
		}
	}
	core := wicd.CoreV1()
	try(t, []attempt{
		{"patches another Windows node", "is not the node of user system:wicd-node:win-1", func(ctx context.Context) error {
			return patchNode(ctx, wicd, "win-2", version)
		}},
		{"patches a Linux node", "is not the node of user system:wicd-node:win-1", func(ctx context.Context) error {
			return patchNode(ctx, wicd, "linux-1", version)
		}},
		{"patches a node whose name begins with its own", "is not the node of user system:wicd-node:win", func(ctx context.Context) error {
			return patchNode(ctx, longer, "win-1", version)
		}},
		{"member of the group with another name patches a node", "is not the node of user alice", func(ctx context.Context) error {
			return patchNode(ctx, member, "win-1", version)
		}},
		{"creates a node", forbidden, func(ctx context.Context) error {
			return drop(core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-3"}}, metav1.CreateOptions{}))
		}},
		{"reads a Secret", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets(namespace).Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
		{"reads a ConfigMap", forbidden, func(ctx context.Context) error {
			return drop(core.ConfigMaps(namespace).Get(ctx, "windows-instances", metav1.GetOptions{}))
		}},
		{"reads what nodes must have", "", func(ctx context.Context) error {
			return found(core.ConfigMaps(namespace).Get(ctx, "windows-services-1", metav1.GetOptions{}))
		}},
		{"watches what nodes must have", "", func(ctx context.Context) error {
			return watched(core.ConfigMaps(namespace).Watch(ctx, byName("windows-services-1")))
		}},
		{"reads what nodes of a version that is not there must have", forbidden, func(ctx context.Context) error {
			return drop(core.ConfigMaps(namespace).Get(ctx, "windows-services-3", metav1.GetOptions{}))
		}},
		{"reads the secrets of nodes", "", func(ctx context.Context) error {
			return found(core.Secrets(namespace).Get(ctx, "windows-node-secrets", metav1.GetOptions{}))
		}},
		{"reads the key that what nodes must have is signed with", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets(namespace).Get(ctx, "windows-settings-signing-key", metav1.GetOptions{}))
		}},
		{"lists the secrets of nodes", forbidden, func(ctx context.Context) error {
			return drop(core.Secrets(namespace).List(ctx, byName("windows-node-secrets")))
		}},
		{"lists ConfigMaps", forbidden, func(ctx context.Context) error { return drop(core.ConfigMaps("").List(ctx, metav1.ListOptions{})) }},
		{"lists Pods", forbidden, func(ctx context.Context) error { return drop(core.Pods("").List(ctx, metav1.ListOptions{})) }},
		{"asks for its certificate", "", ask(certificatesv1.KubeAPIServerClientSignerName, "client auth")},
		{"asks for a kubelet's certificate", "allowed are kubernetes.io/kube-apiserver-client", ask(certificatesv1.KubeAPIServerClientKubeletSignerName, "client auth")},
		{"asks for a serving certificate", "allowed are kubernetes.io/kube-apiserver-client", ask(certificatesv1.KubeletServingSignerName, "server auth")},
	})
}

// Identities other than hosts can change nodes and requests as before.
func (c *cluster) testPoliciesAffectNoOther(t *testing.T) {
	kubelet := c.as(t, "system:node:win-2", "system:nodes")
	_, request := newRequest(t, "bob", "devs")
	try(t, []attempt{
		{"kubelet annotates its node", "", func(ctx context.Context) error {
			return patchNode(ctx, kubelet, "win-2", annotate("example.com/kubelet", "x"))
		}},
		{"kubelet changes the status of its node", "", func(ctx context.Context) error {
			return patchNode(ctx, kubelet, "win-2", map[string]any{"status": map[string]any{"phase": "Running"}}, "status")
		}},
		{"administrator tells an event of a node", "", func(ctx context.Context) error {
			return createEvent(ctx, c.admin, eventOf("win-2"))
		}},
		{"administrator labels a node", "", func(ctx context.Context) error {
			return patchNode(ctx, c.admin, "win-2", metadata("labels", map[string]any{"a": "b"}))
		}},
		{"administrator makes a node unschedulable", "", func(ctx context.Context) error {
			return patchNode(ctx, c.admin, "win-2", map[string]any{"spec": map[string]any{"unschedulable": true}})
		}},
		{"administrator asks any signer", "", func(ctx context.Context) error {
			return drop(createRequest(ctx, c.admin, "example.com/any", request, "client auth"))
		}},
	})
}

func (c *cluster) testBootstrapper(t *testing.T) {
	host := c.newHost(t).clients
	_, request := newRequest(t, "system:node:win-1", "system:nodes")
	ask := func(signer string, usage certificatesv1.KeyUsage) func(context.Context) error {
		return func(ctx context.Context) error {
			return drop(createRequest(ctx, host, signer, request, "digital signature", usage))
		}
	}
	const allowed = "allowed are kubernetes.io/kube-apiserver-client-kubelet, kubernetes.io/kube-apiserver-client"
	made, err := createRequest(t.Context(), host, certificatesv1.KubeAPIServerClientKubeletSignerName, request, "digital signature", "client auth")
	must(t, err)
	try(t, []attempt{
		{"asks for a kubelet's certificate", "", ask(certificatesv1.KubeAPIServerClientKubeletSignerName, "client auth")},
		{"asks for WICD's certificate", "", ask(certificatesv1.KubeAPIServerClientSignerName, "client auth")},
		{"waits for its certificate as the kubelet does", "", func(ctx context.Context) error {
			if _, err := host.CertificatesV1().CertificateSigningRequests().List(ctx, byName(made.Name)); err != nil {
				return err
			}
			return watched(host.CertificatesV1().CertificateSigningRequests().Watch(ctx, byName(made.Name)))
		}},
		{"asks for a serving certificate", allowed, ask(certificatesv1.KubeletServingSignerName, "server auth")},
		{"asks the signer of others", allowed, ask("example.com/any", "client auth")},
		{"approves its request", forbidden, func(ctx context.Context) error { return approve(ctx, host, made) }},
		{"reads a node", forbidden, func(ctx context.Context) error {
			return drop(host.CoreV1().Nodes().Get(ctx, "win-1", metav1.GetOptions{}))
		}},
		{"reads the SSH key", forbidden, func(ctx context.Context) error {
			return drop(host.CoreV1().Secrets(namespace).Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
		{"makes itself a new token", forbidden, func(ctx context.Context) error {
			return drop(host.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "windows-node-bootstrapper", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
		}},
	})
}

// testRightsAreComplete compares all permissions of an identity with those of every user.
func (c *cluster) testRightsAreComplete(t *testing.T) {
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
			t.Errorf("rights of %s are\n%s\nwant\n%s", tc.name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
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
		for _, right := range tc.may { // Kubernetes adds our rules to its roles asynchronously
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
				t.Errorf("role %s may %s: %t, %v, want false", tc.role, right, allowed, err)
			}
		}
	}
	c.expectTable(t)
}

// isAllowed reports whether a user has a permission, given as verb and resource, in the operator's namespace.
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
