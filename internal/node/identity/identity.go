// Package identity obtains and renews the certificate of a program on a host. WICD and hybrid-overlay-node share it; each has its own files and
// client of the API server.
package identity

import (
	"context"
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
	"time"
)

// RefusedPause is the wait after a refusal before the next request, and the minimum wait before a certificate is renewed.
const RefusedPause = 5 * time.Minute

// Name is a user and group known to the API server.
type Name struct{ User, Group string }

// Identity is a certificate with its key.
type Identity struct {
	Certificate tls.Certificate
	Leaf        *x509.Certificate
}

// Parse reads certificate and key from PEM, and checks them as CheckLeaf does.
func Parse(b []byte, of Name, now time.Time) (Identity, error) {
	pair, err := tls.X509KeyPair(b, b)
	if err != nil {
		return Identity{}, err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return Identity{}, err
	}
	if err := CheckLeaf(leaf, of.User, now); err != nil {
		return Identity{}, err
	}
	if o := leaf.Subject.Organization; len(o) != 1 || o[0] != of.Group {
		return Identity{}, fmt.Errorf("the certificate's organizations are %q, and should be %q", o, of.Group)
	}
	return Identity{Certificate: pair, Leaf: leaf}, nil
}

// CheckLeaf checks that a certificate is for a user and has not expired. One that is not valid yet is accepted: a host whose clock is behind would
// otherwise refuse every certificate that the cluster issues, and request them forever. The API server decides by its own clock.
func CheckLeaf(leaf *x509.Certificate, user string, now time.Time) error {
	if leaf.Subject.CommonName != user {
		return fmt.Errorf("the certificate is for %q, and should be for %q", leaf.Subject.CommonName, user)
	}
	if !now.Before(leaf.NotAfter) {
		return fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// Pending is a certificate request that waits to be issued.
type Pending struct {
	// Key and Request are PEM.
	Key, Request []byte
	// Name is the name of the CertificateSigningRequest. It is derived from the key, so that it is found again after a restart.
	Name string
}

// pendingRequest returns the pending request, or creates one with a new key.
func (m *Manager) pendingRequest() (Pending, error) {
	if b, err := m.Store.Read(m.Pending); err == nil {
		if p, err := parsePending(b, m.Name, m.Prefix); err == nil {
			return p, nil
		}
	}
	b, err := newPending(m.Name)
	if err != nil {
		return Pending{}, err
	}
	if err := m.Store.Write(m.Pending, b); err != nil {
		return Pending{}, fmt.Errorf("storing the key of the next certificate: %w", err)
	}
	return parsePending(b, m.Name, m.Prefix)
}

// newPending creates a key and a request for it, as PEM.
func newPending(of Name) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	subject := pkix.Name{CommonName: of.User, Organization: []string{of.Group}}
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

// parsePending parses the output of newPending, and checks its subject.
func parsePending(b []byte, of Name, prefix string) (Pending, error) {
	key, rest := pem.Decode(b)
	request, _ := pem.Decode(rest)
	if key == nil || request == nil {
		return Pending{}, errors.New("a pending request needs a key and a request")
	}
	parsed, err := x509.ParseCertificateRequest(request.Bytes)
	if err != nil {
		return Pending{}, err
	}
	if parsed.Subject.CommonName != of.User {
		return Pending{}, fmt.Errorf("the request is for %q, and should be for %q", parsed.Subject.CommonName, of.User)
	}
	sum := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	return Pending{Key: pem.EncodeToMemory(key), Request: pem.EncodeToMemory(request), Name: prefix + hex.EncodeToString(sum[:16])}, nil
}

// renewal returns when to renew a certificate: between 75% and 85% of its life, at the position given by chance (0 to 1), so that hosts that joined
// together do not renew together.
func (i Identity) renewal(chance float64) time.Time {
	return i.Leaf.NotBefore.Add(time.Duration(float64(i.life()) * (0.75 + 0.1*chance)))
}

// leastUse returns the minimum time for which a certificate is used, even if it seems due: with a clock that is ahead of the cluster's, every new
// certificate would be.
func (i Identity) leastUse() time.Duration { return min(RefusedPause, i.life()/10) }

func (i Identity) life() time.Duration { return i.Leaf.NotAfter.Sub(i.Leaf.NotBefore) }

// ClockInterval is how often the clock is checked while waiting for a certain time.
const ClockInterval = time.Minute

// AwaitClock returns when the clock shows a time, or when the duration until then has passed. The clock may be set meanwhile: that of a virtual
// machine can be wrong by years until its first synchronization.
func AwaitClock(ctx context.Context, at time.Time, clock func() time.Time) error {
	end := time.NewTimer(at.Sub(clock()))
	defer end.Stop()
	ticker := time.NewTicker(ClockInterval)
	defer ticker.Stop()
	for clock().Before(at) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-ticker.C:
		}
	}
	return nil
}
