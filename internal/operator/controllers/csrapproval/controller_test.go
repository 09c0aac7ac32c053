package csrapproval

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// servingRequest returns the serving certificate request of the kubelet of win-a, the node of a Machine at 10.0.0.1.
func servingRequest(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-1"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    controllertest.CertificateRequest(t, "system:node:win-a", "win-a"),
		SignerName: certificatesv1.KubeletServingSignerName,
		Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		Username:   "system:node:win-a", Groups: []string{"system:nodes", "system:authenticated"},
	}}
}

// servingFor returns a certificate request of the kubelet of win-a with its name and an address.
func servingFor(t *testing.T, address string) []byte {
	t.Helper()
	return controllertest.EncodeRequest(t, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:win-a", Organization: []string{"system:nodes"}},
		DNSNames: []string{"win-a"}, IPAddresses: []net.IP{net.ParseIP(address)},
	})
}

func approval(by string) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: by}
}

// approvers returns a controller in a cluster with a request; concurrently runs between the read of the request and its approval.
func approvers(t *testing.T, request *certificatesv1.CertificateSigningRequest, concurrently func(c client.Client)) (*Controller, client.Client, *controllertest.Recorder) {
	t.Helper()
	i := controllertest.Instance("win-a", "Machine", "openshift-machine-api/win-a", "10.0.0.1")
	i.Status.Hostname, i.Status.NodeRef = "win-a", &v1alpha1.NodeReference{Name: "win-a", UID: "u1"}
	port := int32(6443)
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithStatusSubresource(request).WithObjects(i, request,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-a", UID: "u1", Labels: map[string]string{corev1.LabelOSStable: "windows"}}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}}, Ports: []discoveryv1.EndpointPort{{Port: &port}}},
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}},
	).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, o client.Object, options ...client.SubResourceUpdateOption) error {
			concurrently(c)
			return c.Status().Update(ctx, o, options...) // the fake client supports only the status subresource
		},
	}).Build()
	recorder := &controllertest.Recorder{}
	return New(Options{Namespace: "ns", Client: c, Live: c, Events: kube.NewEvents(recorder), Registry: prometheus.NewRegistry(), Policies: admission.New(c, kube.NewEvents(recorder), nil), Reserved: source.NewReservedAddresses(c, c, cluster.Connection{}, source.NewResolver(nil))}), c, recorder
}

// On OpenShift, the cluster's own approver handles the requests of Machines' kubelets too.
func TestOtherApproverCausesNoError(t *testing.T) {
	const otherApprover = "NodeCSRApprove"
	approvedByOther := func(c client.Client) {
		var now certificatesv1.CertificateSigningRequest
		if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &now); err != nil {
			t.Fatal(err)
		}
		now.Status.Conditions = append(now.Status.Conditions, approval(otherApprover))
		if err := c.Status().Update(t.Context(), &now); err != nil {
			t.Fatal(err)
		}
	}
	unchanged := func(client.Client) {}
	labeled := func(c client.Client) {
		var now certificatesv1.CertificateSigningRequest
		if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &now); err != nil {
			t.Fatal(err)
		}
		if len(now.Labels) == 0 {
			now.Labels = map[string]string{"seen-by": "somebody"}
			if err := c.Update(t.Context(), &now); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := servingRequest(t)
	before.Status.Conditions = append(before.Status.Conditions, approval(otherApprover))
	denied := servingRequest(t)
	denied.Status.Conditions = append(denied.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "Denied"})
	for name, test := range map[string]struct {
		request      *certificatesv1.CertificateSigningRequest
		concurrently func(client.Client)
		reason       string // of the only condition
	}{
		"only approver":              {servingRequest(t), unchanged, api.ApprovalReason},
		"approved earlier":           {before, unchanged, otherApprover},
		"approved concurrently":      {servingRequest(t), approvedByOther, otherApprover},
		"label changed concurrently": {servingRequest(t), labeled, api.ApprovalReason},
		"denied earlier":             {denied, unchanged, "Denied"},
		"deleted concurrently": {servingRequest(t), func(c client.Client) {
			_ = c.Delete(t.Context(), &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-1"}})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			approver, c, recorder := approvers(t, test.request, test.concurrently)
			var seen certificatesv1.CertificateSigningRequest // as the cache has it
			if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &seen); err != nil {
				t.Fatal(err)
			}
			if r, err := approver.Reconcile(t.Context(), &seen); err != nil || r.RequeueAfter != 0 {
				t.Errorf("got %+v, %v; want no error and no other try", r, err)
			}
			if len(recorder.Events) != 0 { // a fleet that joins makes three requests for each host
				t.Errorf("events %q, want none", recorder.Events)
			}
			var after certificatesv1.CertificateSigningRequest
			if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &after); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			var reasons []string
			for _, condition := range after.Status.Conditions {
				reasons = append(reasons, condition.Reason)
			}
			if strings.Join(reasons, " ") != test.reason {
				t.Errorf("approved by %q, want by %q", reasons, test.reason)
			}
		})
	}
}

// TestTokenOfDeletedInstanceIsRefused: a host uses its token after its instance was deleted.
func TestTokenOfDeletedInstanceIsRefused(t *testing.T) {
	request := servingRequest(t)
	request.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	request.Spec.Request = controllertest.CertificateRequest(t, "system:node:win-a")
	request.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	request.Spec.Username = "system:serviceaccount:ns:" + api.BootstrapServiceAccount
	request.Spec.Extra = map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=one"}}
	for name, isDeleted := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			approver, c, recorder := approvers(t, request.DeepCopy(), func(client.Client) {})
			var i v1alpha1.WindowsInstance
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "win-a"}, &i); err != nil {
				t.Fatal(err)
			}
			i.Finalizers, i.Status.BootstrapCredentialID = []string{api.Finalizer}, "one"
			if err := c.Update(t.Context(), &i); err != nil {
				t.Fatal(err)
			}
			if isDeleted {
				if err := c.Delete(t.Context(), &i); err != nil {
					t.Fatal(err)
				}
			}
			var seen certificatesv1.CertificateSigningRequest
			if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &seen); err != nil {
				t.Fatal(err)
			}
			if _, err := approver.Reconcile(t.Context(), &seen); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &seen); err != nil {
				t.Fatal(err)
			}
			if isApproved := len(seen.Status.Conditions) > 0; isApproved == isDeleted {
				t.Errorf("approved: %v; events %q", isApproved, recorder.Events)
			}
			if isDeleted && !strings.Contains(strings.Join(recorder.Events, "\n"), "InstanceLeaving") {
				t.Errorf("events %q, want one that names rule InstanceLeaving", recorder.Events)
			}
		})
	}
}

// TestNodeClaimingHostAddressIsReported: a Node lists the address at which another host was reached. That host still gets its certificate.
func TestNodeClaimingHostAddressIsReported(t *testing.T) {
	request := servingRequest(t)
	request.Spec.Request = servingFor(t, "10.0.0.1")
	approver, c, recorder := approvers(t, request, func(client.Client) {})
	claimant := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Labels: map[string]string{corev1.LabelOSStable: "linux"}}, Status: corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	if err := c.Create(t.Context(), claimant); err != nil {
		t.Fatal(err)
	}
	if _, err := approver.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var after certificatesv1.CertificateSigningRequest
	if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &after); err != nil || len(after.Status.Conditions) != 1 {
		t.Errorf("conditions %+v (%v), want the approval; events %q", after.Status.Conditions, err, recorder.Events)
	}
	if reported := strings.Join(recorder.Events, "\n"); strings.Count(reported, api.EventAddressDisputed) != 1 || !strings.Contains(reported, "linux-1") {
		t.Errorf("events %q, want one on linux-1", reported)
	}
}

// TestServiceClaimDoesNotBlockCertificate: a Service has the address of a host. A node still gets its certificates; a host that is not a node yet
// does not, even if the cache does not have the Service yet.
func TestServiceClaimDoesNotBlockCertificate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(i *v1alpha1.WindowsInstance)
		stale  bool
		want   int
	}{
		"joined host":  {func(*v1alpha1.WindowsInstance) {}, false, 1},
		"joining host": {func(i *v1alpha1.WindowsInstance) { i.Status.NodeRef, i.Status.BootstrapCredentialID = nil, "x" }, false, 0},
		"joining host with a pinned host key": {func(i *v1alpha1.WindowsInstance) {
			i.Status.NodeRef, i.Status.BootstrapCredentialID, i.Spec.HostKey = nil, "x", "ssh-ed25519 AAAA"
		}, false, 1},
		"joining host with a stale cache": {func(i *v1alpha1.WindowsInstance) { i.Status.NodeRef, i.Status.BootstrapCredentialID = nil, "x" }, true, 0},
		"an address of the cloud only": {func(i *v1alpha1.WindowsInstance) {
			i.Spec.Address, i.Spec.AdditionalAddresses = "10.0.0.2", []string{"10.0.0.1"}
		}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			request := servingRequest(t)
			request.Spec.Request = servingFor(t, "10.0.0.1")
			approver, c, recorder := approvers(t, request, func(client.Client) {})
			var i v1alpha1.WindowsInstance
			err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "win-a"}, &i)
			test.change(&i)
			i.Status.NodeIP = i.Spec.Address
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-a"}}
			err = errors.Join(err, c.Update(t.Context(), &i), c.Get(t.Context(), client.ObjectKeyFromObject(&node), &node))
			node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: i.Spec.Address}}
			err = errors.Join(err, c.Status().Update(t.Context(), &node))
			if test.stale { // the cached Services are reused for a second
				_, known := approver.Known(t.Context(), "")
				err = errors.Join(err, known)
			}
			err = errors.Join(err, c.Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "web"}, Spec: corev1.ServiceSpec{ExternalIPs: []string{"10.0.0.1"}},
			}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := approver.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			var after certificatesv1.CertificateSigningRequest
			if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &after); err != nil || len(after.Status.Conditions) != test.want {
				t.Errorf("conditions %+v (%v), want %d; events %q", after.Status.Conditions, err, test.want, recorder.Events)
			}
			if reported := strings.Join(recorder.Events, "\n"); test.want == 0 && !strings.Contains(reported, "spec.externalIPs of Service tenant/web") {
				t.Errorf("events %q do not name the Service", reported)
			}
		})
	}
}

// TestMissingPolicyPreventsIdentity decides a request while one of the policies is missing.
func TestMissingPolicyPreventsIdentity(t *testing.T) {
	request := servingRequest(t)
	request.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
	approver, _, _ := approvers(t, request, func(client.Client) {})
	guards, cluster := controllertest.IncompleteGuards(t)
	approver.Policies = admission.New(cluster, kube.NewEvents(&controllertest.Recorder{}), guards)
	known, err := approver.Known(t.Context(), "")
	if err != nil || !strings.Contains(known.PoliciesFault, "not found") {
		t.Errorf("requests are decided with %q (%v), want the missing binding", known.PoliciesFault, err)
	}
}

func TestDecisionsAreCounted(t *testing.T) {
	good := servingRequest(t)
	bad := servingRequest(t)
	bad.Spec.Request = controllertest.CertificateRequest(t, "system:node:win-a", "another-name")
	for name, test := range map[string]struct {
		request *certificatesv1.CertificateSigningRequest
		result  string
	}{"a good request": {good, "approved"}, "another name": {bad, "refused"}} {
		t.Run(name, func(t *testing.T) {
			approver, _, _ := approvers(t, test.request, func(client.Client) {})
			if _, err := approver.Reconcile(t.Context(), test.request); err != nil {
				t.Fatal(err)
			}
			families, err := approver.Registry.(*prometheus.Registry).Gather()
			if err != nil || len(families) != 1 || len(families[0].Metric) != 1 {
				t.Fatalf("the metrics are %v (%v)", families, err)
			}
			labels := map[string]string{}
			for _, l := range families[0].Metric[0].Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["result"] != test.result || labels["signer"] != certificatesv1.KubeletServingSignerName || (labels["rule"] == "") != (test.result == "approved") {
				t.Errorf("labels are %v, want result %s", labels, test.result)
			}
		})
	}
	approver, _, _ := approvers(t, good, func(client.Client) {})
	approver.count("example.com/mine", "refused", "x")
	families, err := approver.Registry.(*prometheus.Registry).Gather()
	if err != nil || !strings.Contains(families[0].String(), `"other"`) {
		t.Errorf("an unknown signer becomes %v (%v)", families, err)
	}
}
