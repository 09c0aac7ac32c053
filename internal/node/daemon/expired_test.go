package daemon_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// expiredIdentity returns a certificate with its key in WICD's format that expired a second ago.
func expiredIdentity(t *testing.T, user, group string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: user, Organization: []string{group}},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(-time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// TestExpiredCertificateIsNotUsed: the original daemon used its certificate's kubeconfig whenever the file existed, so that a
// daemon that was away for longer than the certificate's life never recovered.
func TestExpiredCertificateIsNotUsed(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	m.stop()
	disk := m.windows.Disk()
	if disk.Exists(desired.BootstrapKubeconfig) {
		t.Fatal("the token is still there")
	}
	expired := expiredIdentity(t, "system:wicd-node:win-1", "system:wicd-nodes")
	mustWrite(t, disk, WICDFile, expired)
	requests := m.cluster.Count("POST", requestsPath)
	m.start(t)
	m.await(t, "there is another certificate", func() bool {
		now, err := disk.Read(WICDFile)
		return err == nil && !bytes.Equal(now, []byte(expired))
	})
	if n := m.cluster.Count("POST", requestsPath) - requests; n != 1 {
		t.Errorf("%d certificates were asked for", n)
	}
	m.publish(t, m.changed())
	m.awaitSettings(t, m.changed())
}
