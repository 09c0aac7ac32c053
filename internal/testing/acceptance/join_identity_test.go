package acceptance

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// TestOnlyOverlayIdentityOfNodeIsApproved rejects requests of the kubelet, WICD and unknown clients.
func TestOnlyOverlayIdentityOfNodeIsApproved(t *testing.T) {
	type request = certificatesv1.CertificateSigningRequest
	for name, test := range map[string]struct {
		user, group string
		edit        func(*request)
		want        bool
	}{
		"of the node":      {user: "system:ovn-node:win-1", group: "system:ovn-nodes", want: true},
		"its renewal":      {user: "system:ovn-node:win-1", group: "system:ovn-nodes", edit: func(r *request) { r.Spec.Username = "system:ovn-node:win-1" }, want: true},
		"of another":       {user: "system:ovn-node:win-2", group: "system:ovn-nodes"},
		"by another":       {user: "system:ovn-node:win-1", group: "system:ovn-nodes", edit: func(r *request) { r.Spec.Username = "system:node:win-2" }},
		"with more rights": {user: "system:ovn-node:win-1", group: "system:masters"},
		"of the kubelet":   {user: "system:node:win-1", group: "system:nodes"},
		"another signer": {user: "system:ovn-node:win-1", group: "system:ovn-nodes", edit: func(r *request) {
			r.Spec.SignerName = certificatesv1.KubeletServingSignerName
		}},
		"denied": {user: "system:ovn-node:win-1", group: "system:ovn-nodes", edit: func(r *request) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}},
		"no request": {user: "system:ovn-node:win-1", group: "system:ovn-nodes", edit: func(r *request) { r.Spec.Request = []byte("x") }},
	} {
		t.Run(name, func(t *testing.T) {
			_, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: test.user, Organization: []string{test.group}}}, key)
			if err != nil {
				t.Fatal(err)
			}
			r := request{Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), Username: "system:node:win-1",
				SignerName: certificatesv1.KubeAPIServerClientSignerName,
			}}
			if test.edit != nil {
				test.edit(&r)
			}
			if got := isOverlayRequest(r, "win-1"); got != test.want {
				t.Errorf("approved: %v, want %v", got, test.want)
			}
		})
	}
}
