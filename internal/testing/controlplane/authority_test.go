package controlplane

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
)

// TestWineCanVerifyCertificates creates enough certificates that one would be invalid on Wine without the workaround.
func TestWineCanVerifyCertificates(t *testing.T) {
	authority, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		pair, err := authority.Issue(pkix.Name{CommonName: "x"}, []string{"x.test"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(pair.Cert)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if err := cert.CheckSignatureFrom(authority.cert); err != nil || !hasLongNumbers(cert.Signature) {
			t.Fatalf("the signature %x is one that Wine 8 rejects (%v)", cert.Signature, err)
		}
	}
}
