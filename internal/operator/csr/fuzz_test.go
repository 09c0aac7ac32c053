package csr

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// FuzzDecide changes every part of a request. Decide must not panic, and every approved request must be one of the few that the test hosts may make,
// according to checks that are independent of the rules.
func FuzzDecide(f *testing.F) {
	for _, r := range []*request{kubeletBootstrap(), kubeletRenewal(), kubeletServing(), wicdBootstrap(), wicdRenewal(), nodeManager()} {
		req := r.build(f)
		group := req.Spec.Groups[0]
		for _, text := range [][]byte{req.Spec.Request, append(req.Spec.Request, 'x'), req.Spec.Request[1:]} {
			f.Add(text, r.signer, r.user, group, r.proof[0], string(r.usages[0]), string(r.usages[1]))
		}
		f.Add(req.Spec.Request, r.signer, "system:node:win-3", group, "JTI=token-3", string(r.usages[0]), "any")
	}
	known := cluster()
	known.NodeManager = true
	f.Fuzz(func(t *testing.T, text []byte, signer, user, group, proof, usage1, usage2 string) {
		req := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "csr-x"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: text, SignerName: signer, Username: user, Groups: []string{group, "system:authenticated"},
				Usages: []certificatesv1.KeyUsage{certificatesv1.KeyUsage(usage1), certificatesv1.KeyUsage(usage2)},
				Extra:  map[string]certificatesv1.ExtraValue{credentialKey: {proof}},
			},
		}
		got := Decide(req, known)
		if len(got.Message) > truncate.Note {
			t.Errorf("message of %d bytes", len(got.Message))
		}
		if got.Verdict == Approve && !mayBeApproved(t, req) {
			t.Errorf("approved: %q %q %q %q %q %q\n%s", signer, user, group, proof, usage1, usage2, text)
		}
	})
}

// shape identifies a request of a host: requester and requested identity.
type shape struct{ signer, user, group, proof, commonName, organization, purpose string }

func mayBeApproved(t *testing.T, req *certificatesv1.CertificateSigningRequest) bool {
	t.Helper()
	block, _ := pem.Decode(req.Spec.Request)
	cert, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || cert.CheckSignature() != nil || len(cert.Subject.Names) != 2 || len(cert.Subject.Organization) != 1 {
		return false
	}
	const (
		kubelet, serving, wicd = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client"
		node2, wicd2           = "system:node:win-2", "system:wicd-node:win-2"
	)
	purpose := slices.DeleteFunc(slices.Clone(req.Spec.Usages), func(u certificatesv1.KeyUsage) bool { return u == "digital signature" })
	if len(purpose) != 1 {
		return false
	}
	s := shape{
		req.Spec.SignerName, req.Spec.Username, req.Spec.Groups[0], req.Spec.Extra[credentialKey][0],
		cert.Subject.CommonName, cert.Subject.Organization[0], string(purpose[0]),
	}
	if s.user == bootstrapUser {
		s.group = "" // the name is sufficient
	} else {
		s.proof = "" // the API server has checked the certificate
	}
	certified := len(cert.DNSNames) + len(cert.IPAddresses) + len(cert.EmailAddresses) + len(cert.URIs)
	if s.signer == serving {
		named := len(cert.DNSNames) == 0 || slices.Equal(cert.DNSNames, []string{"win-2"})
		placed := len(cert.IPAddresses) == 0 || len(cert.IPAddresses) == 1 && cert.IPAddresses[0].String() == "10.0.0.12"
		return certified > 0 && named && placed && s == shape{serving, node2, "system:nodes", "", node2, "system:nodes", "server auth"}
	}
	return certified == 0 && slices.Contains([]shape{
		{kubelet, bootstrapUser, "", "JTI=token-1", "system:node:win-1", "system:nodes", "client auth"},
		{kubelet, bootstrapUser, "", "JTI=token-3", "system:node:win-3", "system:nodes", "client auth"},
		{wicd, bootstrapUser, "", "JTI=token-1", "system:wicd-node:win-1", "system:wicd-nodes", "client auth"},
		{wicd, bootstrapUser, "", "JTI=token-3", "system:wicd-node:win-3", "system:wicd-nodes", "client auth"},
		{kubelet, node2, "system:nodes", "", node2, "system:nodes", "client auth"},
		{wicd, wicd2, "system:wicd-nodes", "", wicd2, "system:wicd-nodes", "client auth"},
		{wicd, wicd2, "system:wicd-nodes", "", "system:windows-cloud-node-manager:win-2", "system:windows-cloud-node-managers", "client auth"},
	}, s)
}
