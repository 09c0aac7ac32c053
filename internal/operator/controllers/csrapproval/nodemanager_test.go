package csrapproval

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// declared reports service cloud-node-manager as published or not, or returns an error.
type declared struct {
	result bool
	err    error
}

func (d declared) Declares(_ context.Context, service string) (bool, error) {
	return d.result && service == "cloud-node-manager", d.err
}

// TestNodeManagerIdentityRequiresDeclaredService: WICD of win-a requests the identity.
func TestNodeManagerIdentityRequiresDeclaredService(t *testing.T) {
	for name, test := range map[string]struct {
		settings         declared
		approved, failed bool
	}{
		"service is declared":      {declared{result: true}, true, false},
		"service is not declared":  {declared{}, false, false},
		"settings are unavailable": {declared{result: true, err: errors.New("away")}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			request := servingRequest(t)
			request.Spec.Request = controllertest.EncodeRequest(t, &x509.CertificateRequest{Subject: pkix.Name{
				CommonName: "system:windows-cloud-node-manager:win-a", Organization: []string{"system:windows-cloud-node-managers"},
			}})
			request.Spec.SignerName, request.Spec.ExpirationSeconds = certificatesv1.KubeAPIServerClientSignerName, new(int32(86400))
			request.Spec.Usages[1] = certificatesv1.UsageClientAuth
			request.Spec.Username, request.Spec.Groups = "system:wicd-node:win-a", []string{"system:wicd-nodes", "system:authenticated"}
			approver, c, recorder := approvers(t, request, func(client.Client) {})
			approver.Settings = test.settings
			if _, err := approver.Reconcile(t.Context(), request); (err != nil) != test.failed {
				t.Fatalf("error %v, want one: %v", err, test.failed)
			}
			var after certificatesv1.CertificateSigningRequest
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(request), &after); err != nil {
				t.Fatal(err)
			}
			if ok := len(after.Status.Conditions) == 1; ok != test.approved {
				t.Errorf("approved: %v, want %v; events %q", ok, test.approved, recorder.Events)
			}
		})
	}
}
