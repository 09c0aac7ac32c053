package ovn

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A Verdict is the decision of the approver about a certificate request.
type Verdict string

// The verdicts.
const (
	LeftAlone Verdict = "left alone"
	Approved  Verdict = "approved"
	Denied    Verdict = "denied"
)

// maxExpirationSeconds is the longest validity that the approver accepts: a year.
const maxExpirationSeconds = 365 * 24 * 60 * 60

// Decide returns the verdict on a certificate request, and the reason if it is denied.
func Decide(r *certificatesv1.CertificateSigningRequest) (Verdict, string) {
	name, organization, ok := subject(r)
	if !ok || len(r.Status.Conditions) > 0 || len(r.Status.Certificate) > 0 {
		return LeftAlone, ""
	}
	prefix, node := cutLast(name)
	if node == "" {
		return LeftAlone, ""
	}
	if prefix+":" != UserPrefix {
		return Denied, fmt.Sprintf("the common name %q is not that of a node", name)
	}
	if reason := checkRequester(r); reason != "" {
		return Denied, reason
	}
	_, requester := cutLast(r.Spec.Username)
	switch {
	case name != UserPrefix+requester:
		return Denied, fmt.Sprintf("%s requests the name of another node: %q", r.Spec.Username, name)
	case !slices.Equal(organization, []string{Group}):
		return Denied, fmt.Sprintf("the organizations are %q", organization)
	case r.Spec.ExpirationSeconds == nil:
		return Denied, "the request has no expirationSeconds"
	case *r.Spec.ExpirationSeconds > maxExpirationSeconds:
		return Denied, fmt.Sprintf("expirationSeconds %d is more than a year", *r.Spec.ExpirationSeconds)
	}
	return Approved, ""
}

// checkRequester returns the reason to deny a request for its requester or its usages, or "".
func checkRequester(r *certificatesv1.CertificateSigningRequest) string {
	prefix, node := cutLast(r.Spec.Username)
	switch {
	case node == "":
		return fmt.Sprintf("the requester %q is not a node", r.Spec.Username)
	case prefix != "system:node" && prefix+":" != UserPrefix:
		return fmt.Sprintf("the requester %q is not a node", r.Spec.Username)
	case len(validation.IsDNS1123Subdomain(node)) > 0:
		return fmt.Sprintf("%q is not the name of a node", node)
	case !sets.New(r.Spec.Usages...).Equal(sets.New(certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth)):
		return fmt.Sprintf("the usages are %q", r.Spec.Usages)
	case !sets.New("system:nodes", Group, "system:authenticated").HasAll(r.Spec.Groups...):
		return fmt.Sprintf("the groups of the requester are %q", r.Spec.Groups)
	}
	return ""
}

// subject returns the subject of a request. ok is false if the approver does not handle the request.
func subject(r *certificatesv1.CertificateSigningRequest) (name string, organization []string, ok bool) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return "", nil, false
	}
	requested, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", nil, false
	}
	name = requested.Subject.CommonName
	ok = strings.HasPrefix(name, strings.TrimSuffix(UserPrefix, ":")) && r.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName
	return name, requested.Subject.Organization, ok
}

// cutLast cuts a name at its last colon.
func cutLast(name string) (before, after string) {
	i := strings.LastIndex(name, ":")
	if i < 0 {
		return name, ""
	}
	return name[:i], name[i+1:]
}
