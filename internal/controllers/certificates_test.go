package controllers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/csr"
)

// servingRequest is what the kubelet of node win-a, a Machine's, asks for at 10.0.0.1.
func servingRequest(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-1"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    requestFor(t, "system:node:win-a", "win-a"),
		SignerName: certificatesv1.KubeletServingSignerName,
		Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		Username:   "system:node:win-a", Groups: []string{"system:nodes", "system:authenticated"},
	}}
}

// requestFor is what a kubelet has certified: its name, and DNS names where there are any.
func requestFor(t *testing.T, name string, dnsNames ...string) []byte {
	t.Helper()
	return certificateRequest(t, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}}, DNSNames: dnsNames,
	})
}

// servingFor is what the kubelet of win-a has certified: its name and an address.
func servingFor(t *testing.T, address string) []byte {
	t.Helper()
	return certificateRequest(t, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:win-a", Organization: []string{"system:nodes"}},
		DNSNames: []string{"win-a"}, IPAddresses: []net.IP{net.ParseIP(address)},
	})
}

func certificateRequest(t *testing.T, request *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, request, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func approval(by string) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: by}
}

// approvers is a cluster with a request, in which meanwhile runs between the look at the request and its approval.
func approvers(t *testing.T, request *certificatesv1.CertificateSigningRequest, meanwhile func(c client.Client)) (*certificates, client.Client, *told) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	i := anInstance("win-a", "Machine", "openshift-machine-api/win-a", "10.0.0.1")
	i.Status.Hostname, i.Status.NodeRef = "win-a", &v1alpha1.NodeReference{Name: "win-a"}
	port := int32(6443)
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(request).WithObjects(i, request,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-a", Labels: map[string]string{corev1.LabelOSStable: "windows"}}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}}, Ports: []discoveryv1.EndpointPort{{Port: &port}}},
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}},
	).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, o client.Object, options ...client.SubResourceUpdateOption) error {
			meanwhile(c)
			return c.Status().Update(ctx, o, options...) // the fake knows no subresource but status
		},
	}).Build()
	recorder := &told{}
	return newCertificates(common{Options: Options{Namespace: "ns"}, policies: &policies{}, client: c, live: c, recorder: recorder, reserved: &reserved{}, resolver: newResolver(nil)}), c, recorder
}

// TestTheCacheKeepsLittleOfARequest has a node make a request of a megabyte.
func TestTheCacheKeepsLittleOfARequest(t *testing.T) {
	var transform func(any) (any, error)
	for o, by := range Cache("ns").ByObject {
		if _, ok := o.(*certificatesv1.CertificateSigningRequest); ok {
			transform = by.Transform
		}
	}
	if transform == nil {
		t.Fatal("the cache keeps requests as they are")
	}
	for size, want := range map[int]int{1000: 1000, csr.MaxRequest: csr.MaxRequest, 1 << 20: csr.MaxRequest + 1} {
		request := servingRequest(t)
		request.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		request.Spec.Request = make([]byte, size)
		kept, err := transform(request)
		if err != nil {
			t.Fatal(err)
		}
		is := kept.(*certificatesv1.CertificateSigningRequest)
		if len(is.Spec.Request) != want || cap(is.Spec.Request) > 2*csr.MaxRequest && size != want || is.ManagedFields != nil || is.Spec.Username == "" {
			t.Errorf("of %d bytes it keeps %d (%d), want %d, and who asked; %+v", size, len(is.Spec.Request), cap(is.Spec.Request), want, is.ManagedFields)
		}
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "x"}
	if kept, err := transform(gone); err != nil || kept != any(gone) {
		t.Errorf("of a request whose end was missed it makes %v, %v", kept, err)
	}
}

// On OpenShift the cluster's own approver looks at the requests of Machines' kubelets as well.
func TestTwoApproversDoNotFight(t *testing.T) {
	const theirs = "NodeCSRApprove"
	byThem := func(c client.Client) {
		var now certificatesv1.CertificateSigningRequest
		if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &now); err != nil {
			t.Fatal(err)
		}
		now.Status.Conditions = append(now.Status.Conditions, approval(theirs))
		if err := c.Status().Update(t.Context(), &now); err != nil {
			t.Fatal(err)
		}
	}
	nobody := func(client.Client) {}
	labelled := func(c client.Client) {
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
	before.Status.Conditions = append(before.Status.Conditions, approval(theirs))
	denied := servingRequest(t)
	denied.Status.Conditions = append(denied.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "Denied"})
	for name, test := range map[string]struct {
		request   *certificatesv1.CertificateSigningRequest
		meanwhile func(client.Client)
		reason    string // of the only condition
	}{
		"ours alone":                      {servingRequest(t), nobody, api.ApprovalReason},
		"theirs came before":              {before, nobody, theirs},
		"theirs came in between":          {servingRequest(t), byThem, theirs},
		"somebody changed something else": {servingRequest(t), labelled, api.ApprovalReason},
		"somebody denied it":              {denied, nobody, "Denied"},
		"it was taken back": {servingRequest(t), func(c client.Client) {
			_ = c.Delete(t.Context(), &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-1"}})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			approver, c, recorder := approvers(t, test.request, test.meanwhile)
			var seen certificatesv1.CertificateSigningRequest // as the cache has it
			if err := c.Get(t.Context(), client.ObjectKey{Name: "csr-1"}, &seen); err != nil {
				t.Fatal(err)
			}
			if r, err := approver.Reconcile(t.Context(), &seen); err != nil || r.RequeueAfter != 0 {
				t.Errorf("got %+v, %v; want no error and no other try", r, err)
			}
			if len(recorder.events) != 0 { // a fleet that joins makes three requests for each host
				t.Errorf("events %q, want none", recorder.events)
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

// TestATokenIsWorthNothingOnceItsInstanceIsDeleted has a host that asks with the token it was handed after somebody deleted its instance.
func TestATokenIsWorthNothingOnceItsInstanceIsDeleted(t *testing.T) {
	request := servingRequest(t)
	request.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	request.Spec.Request = requestFor(t, "system:node:win-a")
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
			i.Finalizers, i.Status.BootstrapCredentialID, i.Status.NodeRef = []string{api.Finalizer}, "one", nil
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
				t.Errorf("approved: %v; events %q", isApproved, recorder.events)
			}
			if isDeleted && !strings.Contains(strings.Join(recorder.events, "\n"), "InstanceLeaving") {
				t.Errorf("events %q, want one that names rule InstanceLeaving", recorder.events)
			}
		})
	}
}

// TestANodeThatClaimsAnotherHostsAddressIsNamed has a Node that lists the address at which another host was reached: that host gets its
// certificate all the same.
func TestANodeThatClaimsAnotherHostsAddressIsNamed(t *testing.T) {
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
		t.Errorf("conditions %+v (%v), want the approval; events %q", after.Status.Conditions, err, recorder.events)
	}
	if told := strings.Join(recorder.events, "\n"); strings.Count(told, api.EventAddressDisputed) != 1 || !strings.Contains(told, "linux-1") {
		t.Errorf("events %q, want one on linux-1", told)
	}
}
