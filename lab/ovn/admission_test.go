package ovn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// A certificateCase is a request and what the approver did with it.
type certificateCase struct {
	Note         string                    `json:"note"`
	User         string                    `json:"user"`
	Groups       []string                  `json:"groups"`
	Organization []string                  `json:"organization,omitempty"`
	CommonName   string                    `json:"commonName"`
	Signer       string                    `json:"signer"`
	Usages       []certificatesv1.KeyUsage `json:"usages"`
	Expiration   *int32                    `json:"expiration,omitempty"`
	Verdict      Verdict                   `json:"verdict"`
}

// A writeCase is a write through nodes/status, and with which of the webhook's three configurations it was admitted.
type writeCase struct {
	Node     string            `json:"node"`
	Before   map[string]string `json:"before"`
	User     string            `json:"user"`
	Patch    map[string]any    `json:"patch"`
	Admitted [3]bool           `json:"admitted"`
}

// guards are the configurations of the webhook in the order of the recording.
func guards() [3]Guard {
	return [3]Guard{{HybridOverlay: true}, {}, {HybridOverlay: true, Users: []string{"system:serviceaccount:ovn-kubernetes:ovnkube-cluster-manager"}}}
}

func TestTestdataIsWhatTheApproverWasRecordedToDo(t *testing.T) {
	var r struct {
		Steps []struct {
			Requests []struct {
				Note     string
				Identity struct {
					User   string
					Groups []string
				}
				Subject *struct {
					Organizations []string
					CommonName    string
				}
				Spec struct {
					SignerName        string
					Usages            []certificatesv1.KeyUsage
					ExpirationSeconds *int32
				}
				Result string
			}
		}
	}
	readJSON(t, filepath.Join(recordings(t), "12-approver.json"), &r)
	var lines []string
	for _, q := range r.Steps[0].Requests { // the second step is that nobody approves without the program
		if q.Result == "not created" { // the API server refused it
			continue
		}
		lines = append(lines, line(t, certificateCase{
			q.Note, q.Identity.User, q.Identity.Groups, q.Subject.Organizations, q.Subject.CommonName,
			q.Spec.SignerName, q.Spec.Usages, q.Spec.ExpirationSeconds, Verdict(q.Result),
		}))
	}
	compare(t, "12-approver", []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"))
}

func TestTestdataIsWhatTheWebhookWasRecordedToDo(t *testing.T) {
	var r struct {
		Steps []struct {
			Decisions []struct {
				Node                string
				AnnotationsBefore   map[string]string
				Identity            struct{ User string }
				Resource, RefusedBy string
				Patch               map[string]any
				Admitted            bool
			}
		}
	}
	readJSON(t, filepath.Join(recordings(t), "12-webhook.json"), &r)
	var lines []string
	for i, d := range r.Steps[0].Decisions {
		// The webhook is not asked about nodes, and not when something else has refused.
		if d.Resource != "nodes/status" || d.RefusedBy != "" && d.RefusedBy != "webhook" {
			continue
		}
		c := writeCase{d.Node, d.AnnotationsBefore, d.Identity.User, d.Patch, [3]bool{}}
		for j := range c.Admitted {
			c.Admitted[j] = r.Steps[j].Decisions[i].Admitted
		}
		lines = append(lines, line(t, c))
	}
	compare(t, "12-webhook", []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"))
}

func line(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestApproverJudgesAsRecorded(t *testing.T) {
	var cases []certificateCase
	readJSON(t, "testdata/12-approver.json", &cases)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Verdict]int{}
	for _, c := range cases {
		subject := pkix.Name{Organization: c.Organization, CommonName: c.CommonName}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
		if err != nil {
			t.Fatal(err)
		}
		r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: c.Signer, Usages: c.Usages,
			Username: c.User, Groups: c.Groups, ExpirationSeconds: c.Expiration,
		}}
		got, reason := Judge(r)
		if got != c.Verdict || (got == Denied) != (reason != "") {
			t.Errorf("%s: %s (%s), recorded %s", c.Note, got, reason, c.Verdict)
		}
		seen[got]++
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		if got, _ := Judge(r); got != LeftAlone {
			t.Errorf("%s: %s after it was denied", c.Note, got)
		}
	}
	if seen[Approved] == 0 || seen[Denied] == 0 || seen[LeftAlone] == 0 {
		t.Errorf("the cases have %v", seen)
	}
}

func TestWebhookAdmitsAsRecorded(t *testing.T) {
	var cases []writeCase
	readJSON(t, "testdata/12-webhook.json", &cases)
	for i, g := range guards() {
		admitted := 0
		for _, c := range cases {
			before := &corev1.Node{}
			before.Name, before.Annotations = c.Node, c.Before
			// The patch of a case "a status without annotations" has what the Node has.
			before.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.77.0.21"}, {Type: corev1.NodeHostName, Address: c.Node}}
			err := g.Admit(c.User, before, patched(t, before, c.Patch))
			if (err == nil) != c.Admitted[i] {
				t.Errorf("configuration %d: %s writes %v on %s with %v: %v, recorded %t", i, c.User, c.Patch, c.Node, c.Before, err, c.Admitted[i])
			}
			if err == nil {
				admitted++
			}
		}
		if admitted == 0 || admitted == len(cases) {
			t.Errorf("configuration %d admits %d of %d", i, admitted, len(cases))
		}
	}
}

// patched is a Node after a merge patch.
func patched(t *testing.T, n *corev1.Node, patch map[string]any) *corev1.Node {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(line(t, n)), &object); err != nil {
		t.Fatal(err)
	}
	merge(object, patch)
	after := &corev1.Node{}
	if err := json.Unmarshal([]byte(line(t, object)), after); err != nil {
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
