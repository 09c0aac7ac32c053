package csrapproval

import (
	"context"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// published maps instance names to the addresses and names of their Machines.
type published map[string][]string

func (p published) AddressesOf(_ context.Context, i *v1alpha1.WindowsInstance) []string {
	return p[i.Name]
}

// TestCloudNamesNeedMachineOrUserConfirmation: a kubelet requests a certificate with another name than its node's.
func TestCloudNamesNeedMachineOrUserConfirmation(t *testing.T) {
	const name = "ip-10-0-0-1.internal"
	tests := map[string]struct {
		asksFor  string
		machines published
		spec     []string
		approved bool
	}{
		"unconfirmed":             {name, nil, nil, false},
		"Machine":                 {name, published{"win-a": {"10.0.0.1", name}}, nil, true},
		"Machine in capitals":     {"IP-10-0-0-1.internal", published{"win-a": {"ip-10-0-0-1.INTERNAL"}}, nil, true},
		"Machine of another host": {name, published{"win-b": {name}}, nil, false},
		"user":                    {name, nil, []string{"203.0.113.7", name}, true},
		"invalid names":           {name, published{"win-a": {"*." + name, "", "a b"}}, nil, false},
		"wildcard":                {"*.internal", published{"win-a": {"*.internal"}}, []string{"*.internal"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			request := servingRequest(t)
			request.Spec.Request = controllertest.CertificateRequest(t, "system:node:win-a", test.asksFor)
			approver, c, recorder := approvers(t, request, func(client.Client) {})
			approver.Machines = []Machines{test.machines}
			var i v1alpha1.WindowsInstance
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "win-a"}, &i); err != nil {
				t.Fatal(err)
			}
			i.Spec.AdditionalAddresses = test.spec
			if err := c.Update(t.Context(), &i); err != nil {
				t.Fatal(err)
			}
			if _, err := approver.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			var after certificatesv1.CertificateSigningRequest
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(request), &after); err != nil {
				t.Fatal(err)
			}
			ok := slices.ContainsFunc(after.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
				return c.Type == certificatesv1.CertificateApproved
			})
			if ok != test.approved {
				t.Errorf("approved: %v, want %v; events %q", ok, test.approved, recorder.Events)
			}
		})
	}
}

// TestMachineWithoutAddressesKeepsNodeCertificate: VMware Tools no longer report addresses to vSphere, and the kubelet renews its certificate.
func TestMachineWithoutAddressesKeepsNodeCertificate(t *testing.T) {
	request := servingRequest(t)
	request.Spec.Request = servingFor(t, "10.0.0.1")
	approver, c, recorder := approvers(t, request, func(client.Client) {})
	approver.Machines = []Machines{published{"win-a": nil}}
	if _, err := approver.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var after certificatesv1.CertificateSigningRequest
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(request), &after); err != nil {
		t.Fatal(err)
	}
	if len(after.Status.Conditions) != 1 || after.Status.Conditions[0].Type != certificatesv1.CertificateApproved {
		t.Errorf("the request has conditions %+v; events %q", after.Status.Conditions, recorder.Events)
	}
}
