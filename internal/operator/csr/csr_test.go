package csr

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	bootstrapUser = "system:serviceaccount:wmco:windows-node-bootstrapper"
	anyoneElse    = "alice"
)

// cluster has one Linux control plane node, one Windows host that is joining, one that has joined, and a second one that is joining.
func cluster() Known {
	return Known{
		Namespace: "wmco",
		Hosts: []Host{
			{Instance: "wmco/joining", Node: "win-1", Addresses: []string{"10.0.0.11", "192.168.7.1"}, CredentialID: "token-1"},
			{Instance: "wmco/joined", Node: "win-2", DNSName: "win-2.example.com", Addresses: []string{"10.0.0.12"}, Registered: true},
			{Instance: "wmco/another", Node: "win-3", Addresses: []string{"10.0.0.13"}, CredentialID: "token-3"},
			{Instance: "wmco/unseen"},
		},
		Nodes: map[string]Node{
			"linux-1": {OS: "linux", Ready: true, Addresses: []string{"10.0.0.1"}},
			"win-2":   {OS: "windows", Ready: true, Addresses: []string{"10.0.0.12"}},
		},
		Cluster: taken(),
	}
}

// taken returns the cluster's own addresses.
func taken() addresses.Cluster {
	c := addresses.Cluster{
		Servers:  []netip.Addr{netip.MustParseAddr("10.0.0.100")},
		Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
		Pods:     []netip.Prefix{netip.MustParsePrefix("10.132.0.0/14")},
	}
	c.AddServer("api-int.lab.example.com")
	return c
}

// request is the test's editable form of a request.
type request struct {
	subject pkix.Name
	dns     []string
	ips     []net.IP
	uris    []*url.URL
	emails  []string
	extra   []pkix.Extension
	key     string // a kind that newKey accepts; P-256 if empty

	signer string
	user   string
	groups []string
	proof  []string // credential-id
	usages []certificatesv1.KeyUsage
	// seconds is spec.expirationSeconds.
	seconds *int32

	after func(*certificatesv1.CertificateSigningRequest)
	known Known
}

// The requests of real hosts. Each test changes one part of them.
func kubeletBootstrap() *request {
	return &request{
		subject: pkix.Name{CommonName: "system:node:win-1", Organization: []string{"system:nodes"}},
		signer:  "kubernetes.io/kube-apiserver-client-kubelet",
		user:    bootstrapUser,
		groups:  []string{"system:serviceaccounts", "system:serviceaccounts:wmco", "system:authenticated"},
		proof:   []string{"JTI=token-1"},
		usages:  []certificatesv1.KeyUsage{"digital signature", "client auth"},
		known:   cluster(),
	}
}

func kubeletRenewal() *request {
	r := kubeletBootstrap()
	r.subject.CommonName, r.user = "system:node:win-2", "system:node:win-2"
	r.groups = []string{"system:nodes", "system:authenticated"}
	r.proof = []string{"X509SHA256=00"}
	return r
}

func kubeletServing() *request {
	r := kubeletRenewal()
	r.signer = "kubernetes.io/kubelet-serving"
	r.usages = []certificatesv1.KeyUsage{"digital signature", "server auth"}
	r.dns, r.ips = []string{"win-2"}, []net.IP{net.IPv4(10, 0, 0, 12)}
	return r
}

func wicdBootstrap() *request {
	r := kubeletBootstrap()
	r.signer = "kubernetes.io/kube-apiserver-client"
	r.subject = pkix.Name{CommonName: "system:wicd-node:win-1", Organization: []string{"system:wicd-nodes"}}
	lasting(24 * time.Hour)(r)
	return r
}

// lasting requests a certificate that is valid for a given time, forever one with the signer's default.
func lasting(life time.Duration) func(*request) {
	return func(r *request) { r.seconds = new(int32(life.Seconds())) }
}

func forever(r *request) { r.seconds = nil }

func wicdRenewal() *request {
	r := wicdBootstrap()
	r.subject.CommonName, r.user = "system:wicd-node:win-2", "system:wicd-node:win-2"
	r.groups = []string{"system:wicd-nodes", "system:authenticated"}
	r.proof = []string{"X509SHA256=00"}
	return r
}

// wicdByKubelet is the request of a host whose WICD could not reach the cluster until its certificate expired.
func wicdByKubelet() *request {
	r := wicdRenewal()
	r.user, r.groups = "system:node:win-2", []string{"system:nodes", "system:authenticated"}
	return r
}

// overlayByKubelet is the request of hybrid-overlay-node with the kubelet's identity.
func overlayByKubelet() *request {
	r := wicdByKubelet()
	r.subject = pkix.Name{CommonName: "system:ovn-node:win-2", Organization: []string{"system:ovn-nodes"}}
	return r
}

// newKey generates a key of a kind, including kinds that are refused.
func newKey(t testing.TB, kind string) (key crypto.Signer) {
	t.Helper()
	var err error
	switch kind {
	case "P-224":
		key, err = ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	case "P-521":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "RSA-1024":
		t.Setenv("GODEBUG", "rsa1024min=0") // allows this test to generate the weak key that the rules refuse
		key, err = rsa.GenerateKey(rand.Reader, 1024)
	case "RSA-2048":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "Ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (r *request) build(t testing.TB) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: r.subject, DNSNames: r.dns, IPAddresses: r.ips, URIs: r.uris, EmailAddresses: r.emails, ExtraExtensions: r.extra,
	}, newKey(t, r.key))
	if err != nil {
		t.Fatal(err)
	}
	req := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-x"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName:        r.signer,
			Usages:            r.usages,
			ExpirationSeconds: r.seconds,
			Username:          r.user,
			Groups:            r.groups,
			Extra:             map[string]certificatesv1.ExtraValue{credentialKey: r.proof},
		},
	}
	if r.after != nil {
		r.after(req)
	}
	return req
}

// change returns a request with one thing changed.
func change(r *request, with func(*request)) *request {
	with(r)
	return r
}

type testCase struct {
	name string
	*request
	rule string // the rule that must be broken; "approve" and "leave" are the other verdicts
}

func runCases(t *testing.T, cases []testCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			req := tc.build(t)
			before := req.DeepCopy()
			got := Decide(req, tc.known)
			if diff := cmp.Diff(before, req); diff != "" {
				t.Errorf("the request was changed:\n%s", diff)
			}
			want := Decision{Verdict: Refuse, Rule: tc.rule}
			switch tc.rule {
			case "approve":
				want = Decision{Verdict: Approve}
			case "leave":
				want = Decision{}
			}
			if got.Verdict != want.Verdict || got.Rule != want.Rule {
				t.Fatalf("verdict %q, rule %q, want verdict %q, rule %q; message: %s", got.Verdict, got.Rule, want.Verdict, want.Rule, got.Message)
			}
			if got.Verdict == Refuse && !strings.HasPrefix(got.Message, "certificate request csr-x: ") {
				t.Errorf("message %q does not name the request", got.Message)
			}
			if len(got.Message) > truncate.Note || strings.ContainsFunc(got.Message, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("message of %d bytes is not fit for an event: %q", len(got.Message), got.Message)
			}
		})
	}
}

func TestRequestsOfHostsAreApproved(t *testing.T) {
	encipher := func(r *request) { r.usages = append(r.usages, "key encipherment") }
	runCases(t, []testCase{
		{"kubelet bootstraps with the token of its host", kubeletBootstrap(), "approve"},
		{"kubelet renews its client certificate", kubeletRenewal(), "approve"},
		{"kubelet requests a serving certificate", kubeletServing(), "approve"},
		{"WICD bootstraps with the token of its host before its Node exists", wicdBootstrap(), "approve"},
		{"WICD renews its certificate", wicdRenewal(), "approve"},
		{"kubelet requests a certificate for WICD of its host", wicdByKubelet(), "approve"},
		{"kubelet renews while the policies are not in force", change(kubeletRenewal(), func(r *request) { r.known.PoliciesFault = "x" }), "approve"},
		{"kubelet client with key encipherment", change(kubeletBootstrap(), encipher), "approve"},
		{"kubelet serving with key encipherment", change(kubeletServing(), encipher), "approve"},
		{"WICD with key encipherment", change(wicdBootstrap(), encipher), "approve"},
		{"RSA key of 2048 bits", change(kubeletBootstrap(), func(r *request) { r.key = "RSA-2048" }), "approve"},
		{"Ed25519 key", change(wicdBootstrap(), func(r *request) { r.key = "Ed25519" }), "approve"},
		{"P-521 key", change(wicdBootstrap(), func(r *request) { r.key = "P-521" }), "approve"},
		{"kubelet requests a year", change(kubeletBootstrap(), lasting(366*24*time.Hour)), "approve"},
		{"kubelet leaves the lifetime to the signer", change(kubeletRenewal(), forever), "approve"},
		{"WICD requests an hour", change(wicdRenewal(), lasting(time.Hour)), "approve"},
		{"kubelet of a leaving host renews", change(kubeletRenewal(), func(r *request) { r.known.Hosts[1].Leaving = true }), "approve"},
		{"WICD of a leaving host renews", change(wicdRenewal(), func(r *request) { r.known.Hosts[1].Leaving = true }), "approve"},
		{"serving certificate for the name only", change(kubeletServing(), func(r *request) { r.ips = nil }), "approve"},
		{"serving certificate for the address only", change(kubeletServing(), func(r *request) { r.dns = nil }), "approve"},
		{"serving certificate for the instance's DNS name", change(kubeletServing(), func(r *request) { r.dns = []string{"win-2.example.com"} }), "approve"},
		{"serving certificate before the Node exists", change(kubeletServing(), func(r *request) { delete(r.known.Nodes, "win-2") }), "approve"},
		{"host joins again while its Node is still Ready", change(kubeletBootstrap(), func(r *request) {
			r.known.Nodes["win-1"] = Node{OS: "windows", Ready: true, Addresses: []string{"10.0.0.11"}}
			r.known.Hosts[0].Registered = true
		}), "approve"},
		{"registered host joins again with a new address", change(kubeletBootstrap(), func(r *request) {
			r.known.Nodes["win-1"] = Node{OS: "windows", Ready: true, Addresses: []string{"10.0.0.99"}}
			r.known.Hosts[0].Registered = true
		}), "approve"},
		{"newcomer with the name of a registered host", change(kubeletRenewal(), func(r *request) {
			r.known.Hosts = slices.Insert(r.known.Hosts, 0, Host{Instance: "wmco/newcomer", Node: "win-2", CredentialID: "token-9"})
		}), "approve"},
		{"newcomer without a credential and the name of a joining host", change(kubeletBootstrap(), func(r *request) {
			r.known.Hosts = slices.Insert(r.known.Hosts, 0, Host{Instance: "wmco/newcomer", Node: "win-1"})
		}), "approve"},
		{"newcomer without a credential and the name of an unregistered host", change(kubeletServing(), func(r *request) {
			r.known.Hosts[1].Registered, r.known.Hosts[1].CredentialID = false, "token-2"
			delete(r.known.Nodes, "win-2")
			r.known.Hosts = slices.Insert(r.known.Hosts, 0, Host{Instance: "wmco/newcomer", Node: "win-2"})
		}), "approve"},
		{"address that a dead Node had before", change(kubeletServing(), func(r *request) {
			r.known.Nodes["win-old"] = Node{OS: "windows", Addresses: []string{"10.0.0.12"}}
		}), "approve"},
	})
}

func TestForeignRequestsAreIgnored(t *testing.T) {
	status := func(change func(*certificatesv1.CertificateSigningRequestStatus)) *request {
		r := kubeletBootstrap()
		r.after = func(req *certificatesv1.CertificateSigningRequest) { change(&req.Status) }
		return r
	}
	condition := func(kind certificatesv1.RequestConditionType) *request {
		return status(func(s *certificatesv1.CertificateSigningRequestStatus) {
			s.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: "True"}}
		})
	}
	kubeadm := func(r *request) {
		r.subject.CommonName, r.user, r.groups = "system:node:linux-2", "system:bootstrap:abcdef", []string{"system:bootstrappers", "system:authenticated"}
	}
	runCases(t, []testCase{
		{"Linux node that joins with kubeadm's token", change(kubeletBootstrap(), kubeadm), "leave"},
		{"Linux node that renews", change(kubeletRenewal(), func(r *request) { r.subject.CommonName, r.user = "system:node:linux-1", "system:node:linux-1" }), "leave"},
		{"Linux node with the name of a Windows host", change(kubeletRenewal(), func(r *request) {
			r.subject.CommonName, r.user = "system:node:linux-1", "system:node:linux-1"
			r.known.Hosts[0].Node = "linux-1"
		}), "leave"},
		{"user requests a client certificate", change(wicdBootstrap(), func(r *request) { r.subject, r.user = pkix.Name{CommonName: "bob"}, anyoneElse }), "leave"},
		{"unrelated signer", change(kubeletServing(), func(r *request) {
			r.signer, r.user, r.subject.CommonName = "example.com/ingress", anyoneElse, "shop.example.com"
		}), "leave"},
		{"identity in OVN-Kubernetes", overlayByKubelet(), "leave"},
		{"node without a name", change(kubeletBootstrap(), func(r *request) { r.subject.CommonName, r.user = "system:node:", anyoneElse }), "leave"},
		{"bootstrap ServiceAccount of another namespace", change(kubeletBootstrap(), func(r *request) {
			r.user, r.subject.CommonName = "system:serviceaccount:other:windows-node-bootstrapper", "system:node:win-9"
		}), "leave"},
		{"unreadable request of an unrelated user", change(kubeletBootstrap(), func(r *request) {
			r.user = anyoneElse
			r.after = func(req *certificatesv1.CertificateSigningRequest) { req.Spec.Request = []byte("nonsense") }
		}), "leave"},
		{"approved already", condition(certificatesv1.CertificateApproved), "leave"},
		{"denied already", condition(certificatesv1.CertificateDenied), "leave"},
		{"failed already", condition(certificatesv1.CertificateFailed), "leave"},
		{"issued already", status(func(s *certificatesv1.CertificateSigningRequestStatus) { s.Certificate = []byte("x") }), "leave"},
	})
}

func TestRefusalMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("\x00\u200b", 5000)
	runCases(t, []testCase{
		{"common name", change(kubeletBootstrap(), func(r *request) { r.subject.CommonName = "system:node:" + strings.Repeat("x", 10000) }), "InstanceUnknown"},
		{"organizations", change(kubeletBootstrap(), func(r *request) { r.subject.Organization = slices.Repeat([]string{strings.Repeat("é", 50)}, 100) }), "OrganizationsNotExact"},
		{"usages", change(kubeletBootstrap(), func(r *request) {
			r.usages = slices.Repeat([]certificatesv1.KeyUsage{certificatesv1.KeyUsage(long)}, 20)
		}), "UsagesNotExact"},
		{"credential", change(kubeletBootstrap(), func(r *request) { r.proof = []string{long, long, long, long, long, long} }), "CredentialNotOfInstance"},
		{"user", change(wicdRenewal(), func(r *request) { r.user = "system:wicd-node:" + long }), "RequesterNotAllowed"},
		{"signer", change(kubeletBootstrap(), func(r *request) { r.signer = long }), "SignerNotAllowed"},
	})
}

func TestRefusalNamesFoundAndAllowedValues(t *testing.T) {
	r := change(kubeletBootstrap(), func(r *request) { r.subject.CommonName = "system:node:win-3" })
	got := Decide(r.build(t), r.known)
	want := Decision{
		Verdict:  Refuse,
		Rule:     "CredentialNotOfInstance",
		Instance: "wmco/another",
		Message: `certificate request csr-x: spec.extra[authentication.kubernetes.io/credential-id] is ["JTI=token-1"], the token of instance wmco/joining; ` +
			`allowed: the token handed to instance wmco/another, whose node is win-3`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r = kubeletServing()
	got = Decide(r.build(t), r.known)
	want = Decision{Verdict: Approve, Instance: "wmco/joined"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
