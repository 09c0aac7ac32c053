//go:build linux

package deploytest

import (
	"context"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/windows-machine-config/wmco/internal/operator/csr"
)

// newRequest returns a new key and a certificate request for an identity, both as PEM.
func newRequest(t *testing.T, commonName, organization string) (key, request []byte) {
	t.Helper()
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	must(t, err)
	private, err := keyutil.ParsePrivateKeyPEM(key)
	must(t, err)
	request, err = cert.MakeCSR(private, &pkix.Name{CommonName: commonName, Organization: []string{organization}}, nil, nil)
	must(t, err)
	return key, request
}

func createRequest(ctx context.Context, as clients, signer string, request []byte, usages ...certificatesv1.KeyUsage) (*certificatesv1.CertificateSigningRequest, error) {
	return as.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: signer, Usages: usages, ExpirationSeconds: new(int32(86400))},
	}, metav1.CreateOptions{})
}

func approve(ctx context.Context, as clients, request *certificatesv1.CertificateSigningRequest) error {
	_, err := as.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, request.Name, approval(request), metav1.UpdateOptions{})
	return err
}

// approval returns a copy of a request with the operator's approval.
func approval(request *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	approved := request.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "WMCOApprove",
	})
	return approved
}

// host has clients with a bootstrap token from the operator.
type host struct {
	clients
	credentialID string
}

func (c *cluster) newHost(t *testing.T) host {
	t.Helper()
	seconds := int64(15 * 60)
	token, err := c.asOperator(t).CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "windows-node-bootstrapper",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	must(t, err)
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Status.Token, ".")[1])
	must(t, err)
	var claims struct {
		ID string `json:"jti"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.ID == "" {
		t.Fatalf("found no ID in the token (error %v)", err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token.Status.Token
	return host{newClients(t, config), claims.ID}
}

// known returns the operator's knowledge of the cluster while the host joins as win-1.
func (h host) known() csr.Known {
	return csr.Known{
		Namespace: namespace,
		Hosts:     []csr.Host{{Instance: namespace + "/win-1", Node: "win-1", CredentialID: h.credentialID, Registered: true}},
		Nodes:     map[string]csr.Node{"win-1": {OS: "windows"}},
	}
}

// obtain obtains a certificate like a host: it creates the request, has the operator decide and approve, and waits for the
// signature. It returns clients with the certificate.
func (c *cluster) obtain(t *testing.T, as clients, known csr.Known, signer, commonName, organization string) clients {
	t.Helper()
	key, request := newRequest(t, commonName, organization)
	created, err := createRequest(t.Context(), as, signer, request, "digital signature", "client auth")
	must(t, err)
	if d := csr.Decide(created, known); d.Verdict != csr.Approve {
		t.Fatalf("got verdict %v by rule %q (%s), want approval", d.Verdict, d.Rule, d.Message)
	}
	must(t, approve(t.Context(), c.asOperator(t), created))
	config := rest.AnonymousClientConfig(c.config)
	config.CertData, config.KeyData = waitForCertificate(t, as, created.Name), key
	return newClients(t, config)
}

// testHostCertificates uses real requests, because the operator's decision depends on the fields that the API server sets: the
// token's ID, the user and the groups.
func (c *cluster) testHostCertificates(t *testing.T) {
	h := c.newHost(t)
	for _, tc := range []struct{ name, signer, commonName, organization string }{
		{"kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName, "system:node:win-1", "system:nodes"},
		{"WICD", certificatesv1.KubeAPIServerClientSignerName, "system:wicd-node:win-1", "system:wicd-nodes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first := c.obtain(t, h.clients, h.known(), tc.signer, tc.commonName, tc.organization)
			if err := patchNode(t.Context(), first, "win-1", annotate(group+"/version", tc.name)); err != nil {
				t.Errorf("changing its own Node: %v", err)
			}
			joined := h.known()
			joined.Hosts[0].CredentialID, joined.Hosts[0].Registered = "", true
			c.obtain(t, first, joined, tc.signer, tc.commonName, tc.organization)
		})
	}
}

func waitForCertificate(t *testing.T, as clients, name string) (certificate []byte) {
	t.Helper()
	eventually(t, "", func(ctx context.Context) error {
		request, err := as.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if certificate = request.Status.Certificate; len(certificate) == 0 {
			return fmt.Errorf("the request has no certificate: %+v", request.Status)
		}
		return nil
	})
	return certificate
}

// testCertificateRequestSize creates certificate requests that are valid except for their size.
func (c *cluster) testCertificateRequestSize(t *testing.T) {
	kubelet := c.as(t, "system:node:linux-1", "system:nodes")
	long := func(size int) func(*certificatesv1.CertificateSigningRequest) {
		return func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request = append(r.Spec.Request, strings.Repeat("\n", size-len(r.Spec.Request))...)
		}
	}
	annotated := func(count, size int) func(*certificatesv1.CertificateSigningRequest) {
		return func(r *certificatesv1.CertificateSigningRequest) {
			r.Annotations = map[string]string{}
			for n := range count {
				r.Annotations[fmt.Sprintf("example.com/%d", n)] = strings.Repeat("x", size)
			}
		}
	}
	labeled := func(count int) func(*certificatesv1.CertificateSigningRequest) {
		return func(r *certificatesv1.CertificateSigningRequest) {
			r.Labels = map[string]string{}
			for n := range count {
				r.Labels[fmt.Sprintf("example.com/%d", n)] = "x"
			}
		}
	}
	const tooLong, tooMuch = "is longer than 16384 bytes", "has more than 16 labels"
	var attempts []attempt
	for _, tc := range []struct {
		name, want string
		by         clients
		change     func(*certificatesv1.CertificateSigningRequest)
	}{
		{"request of the maximum size by a node", "", kubelet, long(csr.MaxRequest)},
		{"request above the maximum size by a node", tooLong, kubelet, long(csr.MaxRequest + 3)},
		{"request of a megabyte by a node", tooLong, kubelet, long(1 << 20)},
		{"request of a megabyte by a joining host", tooLong, c.newHost(t).clients, long(1 << 20)},
		{"request of a megabyte by WICD", tooLong, c.asWICD(t, "win-1"), long(1 << 20)},
		{"annotations", "", kubelet, annotated(16, 1024)},
		{"annotation that is too long", tooMuch, kubelet, annotated(1, 1025)},
		{"too many annotations", tooMuch, kubelet, annotated(17, 1)},
		{"labels", "", kubelet, labeled(16)},
		{"too many labels", tooMuch, kubelet, labeled(17)},
		{"finalizer", tooMuch, kubelet, func(r *certificatesv1.CertificateSigningRequest) { r.Finalizers = []string{"example.com/stay"} }},
		{"owner", tooMuch, kubelet, func(r *certificatesv1.CertificateSigningRequest) {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "x", UID: "y"}}
		}},
		{"request of a megabyte by an administrator", "", c.admin, long(1 << 20)},
	} {
		attempts = append(attempts, attempt{tc.name, tc.want, func(ctx context.Context) error {
			_, request := newRequest(t, "bob", "devs")
			req := &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{"client auth"},
				},
			}
			tc.change(req)
			return errOf(tc.by.CertificatesV1().CertificateSigningRequests().Create(ctx, req, metav1.CreateOptions{}))
		}})
	}
	try(t, attempts)
}
