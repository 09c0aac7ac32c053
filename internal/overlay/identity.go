package overlay

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// The identity of nodes to OVN-Kubernetes, which approves such requests and lets a node change its own annotations.
const (
	userPrefix = "system:ovn-node:"
	userGroup  = "system:ovn-nodes"
)

// identity is a certificate with its key.
type identity struct {
	certificate tls.Certificate
	leaf        *x509.Certificate
}

// readIdentity returns the certificate in a file when it is valid now, and the node's.
func readIdentity(name, node string, now time.Time) (identity, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return identity{}, err
	}
	return parseIdentity(b, node, now)
}

// parseIdentity reads certificate and key from PEM and checks whose they are, and that they are valid now.
func parseIdentity(b []byte, node string, now time.Time) (identity, error) {
	pair, err := tls.X509KeyPair(b, b)
	if err != nil {
		return identity{}, err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return identity{}, err
	}
	if leaf.Subject.CommonName != userPrefix+node || !slices.Equal(leaf.Subject.Organization, []string{userGroup}) {
		return identity{}, fmt.Errorf("the certificate is for %q of %q, and should be for %q of %q",
			leaf.Subject.CommonName, leaf.Subject.Organization, userPrefix+node, userGroup)
	}
	if !now.Before(leaf.NotAfter) {
		return identity{}, fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return identity{certificate: pair, leaf: leaf}, nil
}

// pending is a certificate request that waits to be issued.
type pending struct {
	// key and request are PEM.
	key, request []byte
	// name of the CertificateSigningRequest: the same for the same key, so that a restart finds it again.
	name string
}

// pendingRequest returns the request that is under way, or makes one with a new key.
func pendingRequest(file, node string) (pending, error) {
	if b, err := os.ReadFile(file); err == nil {
		if p, err := parsePending(b, node); err == nil {
			return p, nil
		}
	}
	b, err := newPending(node)
	if err != nil {
		return pending{}, err
	}
	if err := writeFile(file, b); err != nil {
		return pending{}, fmt.Errorf("keeping the key of the next certificate: %w", err)
	}
	return parsePending(b, node)
}

func newPending(node string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	subject := pkix.Name{CommonName: userPrefix + node, Organization: []string{userGroup}}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})...), nil
}

func parsePending(b []byte, node string) (pending, error) {
	key, rest := pem.Decode(b)
	request, _ := pem.Decode(rest)
	if key == nil || request == nil {
		return pending{}, errors.New("a pending request has a key and a request")
	}
	parsed, err := x509.ParseCertificateRequest(request.Bytes)
	if err != nil {
		return pending{}, err
	}
	if user := userPrefix + node; parsed.Subject.CommonName != user {
		return pending{}, fmt.Errorf("the request is for %q, and should be for %q", parsed.Subject.CommonName, user)
	}
	sum := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	return pending{
		key:     pem.EncodeToMemory(key),
		request: pem.EncodeToMemory(request),
		name:    "hybrid-overlay-node-" + hex.EncodeToString(sum[:16]),
	}, nil
}
