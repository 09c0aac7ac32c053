package csr

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Limits of RSA keys, in bits. Shorter keys are weak; longer ones only take time to verify.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// MaxRequest is the maximum length of spec.request, in bytes of PEM. With the longest allowed key, a request has 3,000. Longer requests are not
// parsed, because anyone with a node's identity may create requests as large as the API server accepts.
const MaxRequest = 16384

// credentialKey is the key in spec.extra under which the API server records the requester's token or certificate: "JTI=<id>" or "X509SHA256=<digest>"
// (k8s.io/apiserver/pkg/authentication/user, CredentialIDKey).
const credentialKey = "authentication.kubernetes.io/credential-id"

// Object identifiers of X.520 and RFC 5280.
func oidCommonName() asn1.ObjectIdentifier   { return asn1.ObjectIdentifier{2, 5, 4, 3} }
func oidOrganization() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{2, 5, 4, 10} }
func oidAltNames() asn1.ObjectIdentifier     { return asn1.ObjectIdentifier{2, 5, 29, 17} }

// Tags of general names in the extension for alternative names, RFC 5280 section 4.2.1.6.
const (
	tagDNSName   = 2
	tagIPAddress = 7
)

type candidate struct {
	req   *certificatesv1.CertificateSigningRequest
	known Known
	// cert is the decoded PKCS #10 request; never nil, empty if it cannot be parsed.
	cert *x509.CertificateRequest
	// malformed describes an encoding error; "" if there is none.
	malformed string
	// commonName is the common name that a signer would use; commonNames and organizations are all that the subject has.
	commonName    string
	commonNames   []string
	organizations []string
	// node is the name after the prefix in commonName; "" without a known prefix.
	node string
	// host is the host with that node name; nil if there is none.
	host *Host
}

func read(req *certificatesv1.CertificateSigningRequest, known Known) candidate {
	c := candidate{req: req, known: known}
	c.cert, c.malformed = decode(req.Spec.Request)
	for _, attribute := range c.cert.Subject.Names {
		value, isText := attribute.Value.(string)
		switch {
		case !isText:
		case attribute.Type.Equal(oidCommonName()):
			c.commonNames = append(c.commonNames, value)
		case attribute.Type.Equal(oidOrganization()):
			c.organizations = append(c.organizations, value)
		}
	}
	c.commonName = c.cert.Subject.CommonName
	for _, prefix := range []string{NodeUserPrefix, api.WICDUserPrefix, api.NodeManagerUserPrefix} {
		if name, ok := strings.CutPrefix(c.commonName, prefix); ok {
			c.node = name
		}
	}
	c.host = known.host(c.node, c.credential())
	return c
}

// decode parses a request, which must be exactly one PEM block. If there is more, it also returns what a signer would read, to identify the host.
func decode(data []byte) (cert *x509.CertificateRequest, malformed string) {
	if len(data) > MaxRequest {
		return &x509.CertificateRequest{}, fmt.Sprintf("spec.request is longer than %d bytes", MaxRequest)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return &x509.CertificateRequest{}, "spec.request is not PEM; allowed: one CERTIFICATE REQUEST block"
	}
	cert, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return &x509.CertificateRequest{}, fmt.Sprintf("spec.request cannot be parsed (%s); allowed: a PKCS #10 request", quote(err.Error()))
	}
	exact := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: block.Bytes})
	if !bytes.Equal(bytes.TrimSpace(data), bytes.TrimSpace(exact)) {
		malformed = "spec.request has headers or other data in or around its PEM block; allowed: one CERTIFICATE REQUEST block without headers"
	}
	return cert, malformed
}

// usesBootstrapToken reports whether the requester used one of the operator's bootstrap tokens; otherwise it must use a certificate.
func (c candidate) usesBootstrapToken() bool { return c.req.Spec.Username == c.known.bootstrapper() }

// credential returns the requester's credential ID; "" unless the API server recorded exactly one.
func (c candidate) credential() string {
	if values := c.req.Spec.Extra[credentialKey]; len(values) == 1 {
		return values[0]
	}
	return ""
}

func (c candidate) instance() string {
	if c.host == nil {
		return ""
	}
	return c.host.Instance
}

// weakness describes why a public key is not allowed; "" if it is allowed.
func weakness(key any) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Sprintf("RSA with %d bits", bits)
		}
		return ""
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return ""
		}
		return "ECDSA on curve " + k.Params().Name
	case ed25519.PublicKey:
		return ""
	default:
		return "of unknown type"
	}
}

// altNameTags returns the kind of each alternative name, including kinds that crypto/x509 ignores.
func altNameTags(cert *x509.CertificateRequest) ([]int, error) {
	var tags []int
	for _, extension := range cert.Extensions {
		if !extension.Id.Equal(oidAltNames()) {
			continue
		}
		var names []asn1.RawValue
		if _, err := asn1.Unmarshal(extension.Value, &names); err != nil {
			return nil, fmt.Errorf("parsing the alternative names: %w", err)
		}
		for _, name := range names {
			tags = append(tags, name.Tag)
		}
	}
	return tags, nil
}

// Limits for the requester's values in messages: bytes of a value, values of a list.
const (
	maxQuoted = 80
	maxListed = 4
)

// quote makes a requester's value safe for a message: ASCII, one line, short, with visible ends.
func quote(value string) string {
	quoted := strconv.QuoteToASCII(value)
	if len(quoted) > maxQuoted {
		return quoted[:maxQuoted] + `..."`
	}
	return quoted
}

// list is quote for several values.
func list[T ~string](values []T) string {
	var quoted []string
	for _, value := range values {
		quoted = append(quoted, quote(string(value)))
	}
	return "[" + truncate.List(quoted, maxListed, ", ") + "]"
}
