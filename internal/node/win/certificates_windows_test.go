package win

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"os/exec"
	"testing"
	"time"
)

const serverName = "registry.example"

// mustSign creates a CA, and a server certificate that it signed.
func mustSign(t *testing.T) (authority, server []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048) // Wine 8 rejects one in 128 ECDSA signatures; see internal/testing/controlplane
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
	if server, err = x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key); err != nil {
		t.Fatal(err)
	}
	return authority, server
}

// verify verifies a server's certificate with Windows' roots, like every Go program without its own roots.
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

func TestAddedAuthorityIsTrusted(t *testing.T) {
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
		client := exec.Command(program) // on Wine, a process reads the roots only once
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
