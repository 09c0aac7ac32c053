package csrapproval

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/operator/csr"
)

// TestRelevantRequestsAreCached: requests of nodes are kept for any signer, so that one for a signer that hosts do not need is reported.
func TestRelevantRequestsAreCached(t *testing.T) {
	for name, c := range map[string]struct {
		signer, user string
		decided      bool
		want         bool
	}{
		"kubelet signer, from a node":     {certificatesv1.KubeletServingSignerName, csr.NodeUserPrefix + "win-1", false, true},
		"client signer, from any user":    {certificatesv1.KubeAPIServerClientSignerName, "user", false, true},
		"another signer, from a node":     {"example.com/any", csr.NodeUserPrefix + "win-1", false, true},
		"another signer, from a workload": {"example.com/any", "system:serviceaccount:mesh:agent", false, false},
		"decided":                         {certificatesv1.KubeletServingSignerName, csr.NodeUserPrefix + "win-1", true, false},
	} {
		r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "1"}}
		r.Spec = certificatesv1.CertificateSigningRequestSpec{SignerName: c.signer, Username: c.user, Request: []byte("request")}
		if c.decided {
			r.Status.Certificate = []byte("certificate")
		}
		kept, err := Requests().Transform(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(kept.(*certificatesv1.CertificateSigningRequest).Spec.Request) > 0; got != c.want {
			t.Errorf("%s: cached is %t, want %t", name, got, c.want)
		}
	}
}
