package ovn_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn/story"
)

func mustMarshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestApproverJudgesAsRecorded(t *testing.T) {
	cases, err := story.Certificates()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[ovn.Verdict]int{}
	for _, c := range cases {
		request, err := cert.MakeCSR(key, &pkix.Name{Organization: c.Organization, CommonName: c.CommonName}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: c.Signer, Usages: c.Usages,
			Username: c.User, Groups: c.Groups, ExpirationSeconds: c.Expiration,
		}}
		got, reason := ovn.Decide(r)
		if got != c.Verdict || (got == ovn.Denied) != (reason != "") {
			t.Errorf("%s: got verdict %s (reason %q), want the recorded %s", c.Note, got, reason, c.Verdict)
		}
		seen[got]++
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		if got, _ := ovn.Decide(r); got != ovn.LeftAlone {
			t.Errorf("%s: got verdict %s for a denied request, want %s", c.Note, got, ovn.LeftAlone)
		}
	}
	if seen[ovn.Approved] == 0 || seen[ovn.Denied] == 0 || seen[ovn.LeftAlone] == 0 {
		t.Errorf("got verdicts %v, want each at least once", seen)
	}
}

func TestWebhookAdmitsAsRecorded(t *testing.T) {
	cases, err := story.Writes()
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range story.Guards() {
		admitted := 0
		for _, c := range cases {
			before := &corev1.Node{}
			before.Name, before.Annotations = c.Node, c.Before
			// The patch of case "a status without annotations" contains the same addresses.
			before.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.77.0.21"}, {Type: corev1.NodeHostName, Address: c.Node}}
			err := g.Admit(c.User, before, patched(t, before, c.Patch))
			if (err == nil) != c.Admitted[i] {
				t.Errorf("configuration %d: %s writes %v on %s with %v: got error %v, want admitted %t",
					i, c.User, c.Patch, c.Node, c.Before, err, c.Admitted[i])
			}
			if err == nil {
				admitted++
			}
		}
		if admitted == 0 || admitted == len(cases) {
			t.Errorf("configuration %d admitted %d of %d requests, want some but not all", i, admitted, len(cases))
		}
	}
}

// patched returns a Node after a merge patch.
func patched(t *testing.T, n *corev1.Node, patch map[string]any) *corev1.Node {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(mustMarshal(t, n)), &object); err != nil {
		t.Fatal(err)
	}
	merge(object, patch)
	after := &corev1.Node{}
	if err := json.Unmarshal([]byte(mustMarshal(t, object)), after); err != nil {
		t.Fatal(fmt.Errorf("%v: %w", patch, err))
	}
	return after
}

func merge(object, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case isMap:
			child, _ := object[key].(map[string]any)
			if child == nil {
				child = map[string]any{}
			}
			merge(child, inner)
			object[key] = child
		default:
			object[key] = value
		}
	}
}
