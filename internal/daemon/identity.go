package daemon

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
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// Files of certificates.
const (
	// identityFile holds WICD's certificate and its key.
	identityFile = desired.WICDIdentity
	// pendingFile holds the key, and the request made with it, until the certificate is issued.
	pendingFile = desired.WICDCertificates + `\wicd-client-pending.pem`
	// The kubelet's; their names are those of client-go's certificate store.
	kubeletClientFile = desired.KubeletCertificates + `\kubelet-client-current.pem`
	kubeletServerFile = desired.KubeletServing
	// kubeletPendingFile is where a kubelet that does not rotate its certificate keeps the key of its request; one that
	// does makes a new request whenever it starts (k8s.io/kubernetes, pkg/kubelet/certificate/bootstrap).
	kubeletPendingFile = desired.KubeletCertificates + `\kubelet-client.key.tmp`
)

// identity is a certificate with its key.
type identity struct {
	certificate tls.Certificate
	leaf        *x509.Certificate
}

// readIdentity returns WICD's certificate when it is valid now, and the node's.
func readIdentity(d Disk, node string, now time.Time) (identity, error) {
	b, err := d.Read(identityFile)
	if err != nil {
		return identity{}, err
	}
	return parseIdentity(b, v1alpha1.WICDUserPrefix+node, v1alpha1.WICDGroup, now)
}

// readKubeletIdentity returns the kubelet's certificate when it is valid now, and the node's.
func readKubeletIdentity(d Disk, node string, now time.Time) (identity, error) {
	b, err := d.Read(kubeletClientFile)
	if err != nil {
		return identity{}, err
	}
	return parseIdentity(b, "system:node:"+node, "system:nodes", now)
}

// parseIdentity reads certificate and key from PEM and checks whose they are, and that they are valid now.
func parseIdentity(b []byte, user, group string, now time.Time) (identity, error) {
	pair, err := tls.X509KeyPair(b, b)
	if err != nil {
		return identity{}, err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return identity{}, err
	}
	if err := checkLeaf(leaf, user, now); err != nil {
		return identity{}, err
	}
	if o := leaf.Subject.Organization; len(o) != 1 || o[0] != group {
		return identity{}, fmt.Errorf("the certificate's organizations are %q, and should be %q", o, group)
	}
	return identity{certificate: pair, leaf: leaf}, nil
}

func checkLeaf(leaf *x509.Certificate, user string, now time.Time) error {
	if leaf.Subject.CommonName != user {
		return fmt.Errorf("the certificate is for %q, and should be for %q", leaf.Subject.CommonName, user)
	}
	if !now.Before(leaf.NotAfter) {
		return fmt.Errorf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// readCertificate returns the first certificate of a PEM file.
func readCertificate(d Disk, name string) (*x509.Certificate, error) {
	b, err := d.Read(name)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("there is no certificate in %s", name)
}

// kubeletHasCertificate tells whether the kubelet can do without the bootstrap kubeconfig.
func kubeletHasCertificate(d Disk, node string, now time.Time) bool {
	leaf, err := readCertificate(d, kubeletClientFile)
	return err == nil && d.Exists(desired.KubeletKubeconfig) && checkLeaf(leaf, "system:node:"+node, now) == nil
}

// pending is a certificate request that waits to be issued.
type pending struct {
	// key and request are PEM.
	key, request []byte
	// name of the CertificateSigningRequest: the same for the same key, so that a restart finds it again.
	name string
}

// pendingRequest returns the request that is under way, or makes one with a new key.
func pendingRequest(d Disk, node string) (pending, error) {
	if b, err := d.Read(pendingFile); err == nil {
		if p, err := parsePending(b, node); err == nil {
			return p, nil
		}
	}
	b, err := newPending(node)
	if err != nil {
		return pending{}, err
	}
	if _, err := d.WriteFile(pendingFile, string(b)); err != nil {
		return pending{}, fmt.Errorf("keeping the key of WICD's next certificate: %w", err)
	}
	return parsePending(b, node)
}

func newPending(node string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: v1alpha1.WICDUserPrefix + node, Organization: []string{v1alpha1.WICDGroup},
	}}, key)
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
	if user := v1alpha1.WICDUserPrefix + node; parsed.Subject.CommonName != user {
		return pending{}, fmt.Errorf("the request is for %q, and should be for %q", parsed.Subject.CommonName, user)
	}
	sum := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	return pending{
		key:     pem.EncodeToMemory(key),
		request: pem.EncodeToMemory(request),
		name:    "wicd-" + hex.EncodeToString(sum[:16]),
	}, nil
}
