package apiclient_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
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
	m := daemontest.NewFollower(t, daemontest.Options{})
	m.Stop()
	disk := m.Windows.Disk()
	if disk.Exists(desired.BootstrapKubeconfig) {
		t.Fatal("the token still exists")
	}
	expired := expiredIdentity(t, "system:wicd-node:win-1", "system:wicd-nodes")
	daemontest.MustWrite(t, disk, daemontest.WICDFile, expired)
	requests := m.Cluster.Count("POST", daemontest.RequestsPath)
	m.Start(t)
	daemontest.Await(t, "there is another certificate", func() bool {
		now, err := disk.Read(daemontest.WICDFile)
		return err == nil && !bytes.Equal(now, []byte(expired))
	})
	if n := m.Cluster.Count("POST", daemontest.RequestsPath) - requests; n != 1 {
		t.Errorf("%d certificates were requested", n)
	}
	m.Follow(t, m.Changed())
}

// approving returns the options of a member whose cluster approves only some certificate requests.
func approving(approve func(*certificatesv1.CertificateSigningRequest) bool) daemontest.Options {
	return daemontest.Options{Prepare: func(m *daemontest.Member) { m.Cluster.Approve(approve) }}
}

func isOurs(r *certificatesv1.CertificateSigningRequest) bool {
	return strings.HasPrefix(r.Name, "wicd-")
}

func TestRestartKeepsCertificateRequest(t *testing.T) {
	t.Parallel()
	m := daemontest.NewMember(t, approving(func(r *certificatesv1.CertificateSigningRequest) bool { return !isOurs(r) }))
	for range 3 {
		before := m.Cluster.Count("POST", daemontest.RequestsPath)
		daemontest.Await(t, "the request is made", func() bool {
			return m.Windows.Disk().Exists(daemontest.PendingFile) && m.Cluster.Count("POST", daemontest.RequestsPath) >= before
		})
		m.Stop()
		m.Start(t)
	}
	names := map[string]bool{}
	m.Cluster.Approve(func(r *certificatesv1.CertificateSigningRequest) bool {
		if isOurs(r) {
			names[r.Name] = true
		}
		return true
	})
	m.AssignPodCIDR(t)
	m.AwaitVersion(t)
	if len(names) != 1 {
		t.Errorf("requests were made: %v, want one", names)
	}
}

func TestRefusedRequestIsRetriedWithNewKey(t *testing.T) {
	m := daemontest.NewMember(t, approving(func(r *certificatesv1.CertificateSigningRequest) bool { return !isOurs(r) }))
	var name string
	daemontest.Await(t, "the request is made", func() bool {
		for _, path := range m.Cluster.Paths() {
			if strings.HasPrefix(path, daemontest.RequestsPath+"/wicd-") {
				name = path
			}
		}
		return name != ""
	})
	m.Cluster.Patch(name, map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Denied", "status": "True", "reason": "Test", "message": "not this one"},
	}}})
	daemontest.Await(t, "the key that was refused was removed", func() bool { return !m.Windows.Disk().Exists(daemontest.PendingFile) })
}

// TestNewTokenIsUsedForNewRequests leaves the requests made with the first token unanswered forever, as the operator does after it has sent
// another one.
func TestNewTokenIsUsedForNewRequests(t *testing.T) {
	t.Parallel()
	m := daemontest.NewMember(t, approving(func(*certificatesv1.CertificateSigningRequest) bool { return false }))
	first := map[string]bool{}
	daemontest.Await(t, "kubelet and service have made their requests", func() bool {
		for _, path := range m.Cluster.Paths() {
			if name, ok := strings.CutPrefix(path, daemontest.RequestsPath+"/"); ok {
				first[name] = true
			}
		}
		return len(first) == 2
	})
	m.Cluster.Approve(func(r *certificatesv1.CertificateSigningRequest) bool { return !first[r.Name] })
	m.Stop()
	m.Request.Bootstrap.Token = "another-bootstrap-token"
	m.Cluster.SetToken(m.Request.Bootstrap.Token)
	daemontest.MustJoin(t, m.Windows, m.Request)
	m.Start(t)
	m.AssignPodCIDR(t)
	m.AwaitVersion(t)
}
