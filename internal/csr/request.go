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
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// The size of RSA keys, in bits. Fewer can be broken; more only cost time to verify.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// MaxRequest is how long spec.request may be, in bytes of PEM. That of the longest key allowed has 3,000. A longer one is not looked at: anybody
// with a node's identity may make requests, of as much as the API server takes.
const MaxRequest = 16384

// credentialKey is the key in a request's spec.extra under which the API server says which token or certificate the
// requester showed: "JTI=<id>" or "X509SHA256=<digest>" (k8s.io/apiserver/pkg/authentication/user, CredentialIDKey).
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

// candidate is a request, taken apart for the rules.
type candidate struct {
	req   *certificatesv1.CertificateSigningRequest
	known Known
	// cert is what is to be certified; never nil, empty when it cannot be read.
	cert *x509.CertificateRequest
	// malformed says what is wrong with the encoding; "" when nothing is.
	malformed string
	// commonName is the one a signer would take; commonNames and organizations are all there are.
	commonName    string
	commonNames   []string
	organizations []string
	// node is the name after the prefix in commonName; "" when it has none of the prefixes.
	node string
	// host is the host that node names; nil when there is none.
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

// decode reads the one PEM block a request must be. Where there is more, it still returns what a signer would
// read, so that we know whom it is about.
func decode(data []byte) (cert *x509.CertificateRequest, malformed string) {
	if len(data) > MaxRequest {
		return &x509.CertificateRequest{}, fmt.Sprintf("spec.request is longer than %d bytes", MaxRequest)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return &x509.CertificateRequest{}, "spec.request is not PEM; allowed is one block CERTIFICATE REQUEST"
	}
	cert, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return &x509.CertificateRequest{}, fmt.Sprintf("spec.request cannot be parsed (%s); allowed is a PKCS #10 request", quote(err.Error()))
	}
	exact := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: block.Bytes})
	if !bytes.Equal(bytes.TrimSpace(data), bytes.TrimSpace(exact)) {
		malformed = "spec.request has something before, in or after its PEM block; allowed is one block CERTIFICATE REQUEST without headers"
	}
	return cert, malformed
}

// bootstraps says that the requester shows one of our bootstrap tokens; else it must show a certificate.
func (c candidate) bootstraps() bool { return c.req.Spec.Username == c.known.bootstrapper() }

// credential is what the requester showed, or "" when the API server names none or several.
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

// weakness says what is wrong with a public key; "" when it may be certified.
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
		return "of an unknown kind"
	}
}

// altNameTags returns the kind of each alternative name, also of kinds that crypto/x509 passes over.
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

// The lengths to which what a requester wrote is cut in messages: bytes of a value, values of a list.
const (
	maxQuoted = 80
	maxListed = 4
)

// quote makes a value of a requester fit for a message: plain ASCII on one line, short, with its ends visible.
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
	return "[" + shorten.List(quoted, maxListed, ", ") + "]"
}
