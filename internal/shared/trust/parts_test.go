package trust

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// now is the time of the tests.
func now() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

func year(n int) time.Time { return now().AddDate(n, 0, 0) }

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// part is a certificate to create. The same part always gives the same bytes.
type part struct {
	name     string // common name
	issuer   string // self-signed if empty
	from, to time.Time
	server   bool // for a server, not an authority
	extra    []pkix.Extension
}

func authority(name string) part { return part{name: name, from: year(-1), to: year(1)} }

func (p part) der(t testing.TB) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: p.name}, NotBefore: p.from, NotAfter: p.to,
		IsCA: !p.server, BasicConstraintsValid: true, ExtraExtensions: p.extra,
	}
	if p.server {
		template.DNSNames = []string{p.name}
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	parent, signer := template, key(p.name)
	if p.issuer != "" {
		parent, signer = &x509.Certificate{Subject: pkix.Name{CommonName: p.issuer}}, key(p.issuer)
	}
	der, err := x509.CreateCertificate(nil, template, parent, key(p.name).Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (p part) pem(t testing.TB) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.der(t)}))
}

// keyPEM returns a private key; its text occurs nowhere else.
func keyPEM(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key("secret"))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// body returns the text between BEGIN and END.
func body(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[1:len(lines)-1], "\n")
}

func names(list []Certificate) []string {
	var all []string
	for _, c := range list {
		all = append(all, strings.TrimPrefix(c.Subject, "CN="))
	}
	return all
}

func texts(remarks []Remark) []string {
	var all []string
	for _, r := range remarks {
		all = append(all, r.String())
	}
	return all
}
