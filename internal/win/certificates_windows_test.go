package win

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"os"
	"os/exec"
	"testing"
	"time"
)

const serverName = "registry.example"

// mustSign makes an authority, and a certificate for a server which it signed.
func mustSign(t *testing.T) (authority, server []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "WICD test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if authority, err = x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key); err != nil {
		t.Fatal(err)
	}
	for !isForWine(server) {
		if server, err = x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key); err != nil {
			t.Fatal(err)
		}
	}
	return authority, server
}

// isForWine says whether no number of a certificate's signature begins with a zero byte, as one in 128 has: Wine 8 takes such a signature
// for wrong (crypt32, CNG_PrepareSignatureECC).
func isForWine(certificate []byte) bool {
	c, err := x509.ParseCertificate(certificate)
	if err != nil {
		return false
	}
	var numbers struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(c.Signature, &numbers)
	const long = 256 - 8
	return err == nil && numbers.R.BitLen() > long && numbers.S.BitLen() > long
}

// verify asks Windows about a server's certificate, as every Go program does that has no list of its own.
func verify(file string) error {
	der, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	_, err = certificate.Verify(x509.VerifyOptions{DNSName: serverName})
	return err
}

func TestWhatAnAddedAuthoritySignedIsTrusted(t *testing.T) {
	certificates := mustHost(t).Certificates
	untrustAfter(t, certificates)
	authority, server := mustSign(t)
	file := tempFolder(t) + `\server.der`
	if err := os.WriteFile(file, server, 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want bool) {
		t.Helper()
		client := exec.Command(program) // Wine looks once in the life of a process
		client.Env = append(os.Environ(), asClient+"="+file)
		if output, err := client.CombinedOutput(); (err == nil) != want {
			t.Errorf("%s: %v: %s", when, err, output)
		}
	}
	expect("before", false)
	if _, err := certificates.Add(t.Context(), authority); err != nil {
		t.Fatal(err)
	}
	expect("added", true)
	if _, err := certificates.Remove(t.Context(), hashOf(authority)); err != nil {
		t.Fatal(err)
	}
	expect("removed", false)
}
