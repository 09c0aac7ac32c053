package nodestatus

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// certificate is one with a subject and a serial number, as PEM, that expires so many seconds after 1970.
func certificate(t *testing.T, subject string, serial, expires int64) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: subject}, NotAfter: time.Unix(expires, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestCertificatesBecomeLines(t *testing.T) {
	one, two := certificate(t, "one", 10, 2_000_000_000), certificate(t, `the "second" \ of all`, 255, 1)
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("a secret")}))
	broken := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")}))
	got := certificateLines(map[string]string{
		`C:\k\b.pem`: "a comment\n" + one + key + broken + two + one,
		`C:\k\a.pem`: one,
		"empty":      "",
		"no PEM":     "{}",
	})
	want := strings.Join([]string{
		`wicd_certificate_expiration_timestamp_seconds{file="C:\\k\\a.pem",serial="a",subject="CN=one"} 2000000000`,
		`wicd_certificate_expiration_timestamp_seconds{file="C:\\k\\b.pem",serial="a",subject="CN=one"} 2000000000`,
		`wicd_certificate_expiration_timestamp_seconds{file="C:\\k\\b.pem",serial="ff",subject="CN=the \\\"second\\\" \\\\ of all"} 1`,
	}, "\n") + "\n"
	if got != want {
		t.Errorf("the lines are\n%s\nwant\n%s", got, want)
	}
}
