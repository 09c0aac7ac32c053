package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// RegistryFile holds the certificates and keys of WICD's registry on loopback and of containerd, its client. They are created on the host and never
// leave it.
const RegistryFile = desired.WICDCertificates + `\registry.json`

// The certificates are valid for years and are renewed in time. Their readers use new ones at once.
const (
	registryLasts = 10 * 365 * 24 * time.Hour
	registryRenew = 30 * 24 * time.Hour
)

// RegistryEndpoint has the certificates by which containerd and WICD's registry authenticate each other, so that no other program on the host can
// impersonate either.
type RegistryEndpoint struct {
	Server KeyPair `json:"server"`
	Client KeyPair `json:"client"`
}

// KeyPair is a self-signed certificate with its key, both PEM.
type KeyPair struct {
	Certificate string `json:"certificate"`
	PrivateKey  string `json:"privateKey"`
}

// PEM returns both in one text, as containerd reads them: a file that is replaced as a whole never has the key of another certificate.
func (p KeyPair) PEM() string { return p.Certificate + p.PrivateKey }

// ReadRegistry reads RegistryFile. The error reveals nothing of its content.
func ReadRegistry(d hostapi.Disk) (RegistryEndpoint, error) {
	text, err := d.Read(RegistryFile)
	if err != nil {
		return RegistryEndpoint{}, err
	}
	var e RegistryEndpoint
	if json.Unmarshal(text, &e) != nil || !e.Server.isPair() || !e.Client.isPair() {
		return RegistryEndpoint{}, fmt.Errorf("%s was modified or is damaged", RegistryFile)
	}
	return e, nil
}

// MakeRegistry returns the content of RegistryFile, and creates it if it is missing, unreadable or about to expire.
func MakeRegistry(h hostapi.Host, now time.Time) (e RegistryEndpoint, made bool, err error) {
	if e, err = ReadRegistry(h.Disk); err == nil && e.Server.isGood(now) && e.Client.isGood(now) {
		return e, false, nil
	}
	if e.Server, err = newPair(now, "WICD registry on loopback", x509.ExtKeyUsageServerAuth, net.IPv4(127, 0, 0, 1)); err != nil {
		return RegistryEndpoint{}, false, err
	}
	if e.Client, err = newPair(now, "containerd of this host", x509.ExtKeyUsageClientAuth); err != nil {
		return RegistryEndpoint{}, false, err
	}
	text, err := json.Marshal(e)
	if err != nil {
		return RegistryEndpoint{}, false, errors.New("encoding the keys of the registry")
	}
	if _, err := h.Disk.WriteSecret(RegistryFile, string(text), h.MakePrivate); err != nil {
		return RegistryEndpoint{}, false, fmt.Errorf("writing %s: %w", RegistryFile, err)
	}
	return e, true, nil
}

// isPair reports whether the key belongs to the certificate.
func (p KeyPair) isPair() bool {
	_, err := tls.X509KeyPair([]byte(p.Certificate), []byte(p.PrivateKey))
	return err == nil
}

// isGood reports whether the certificate is valid and stays so for registryRenew.
func (p KeyPair) isGood(now time.Time) bool {
	block, _ := pem.Decode([]byte(p.Certificate))
	if block == nil {
		return false
	}
	c, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.Add(registryRenew).Before(c.NotAfter) && now.After(c.NotBefore)
}

func newPair(now time.Time, name string, usage x509.ExtKeyUsage, addresses ...net.IP) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("generating a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetInt64(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(registryLasts), // clocks may be set back
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		BasicConstraintsValid: true, IPAddresses: addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("creating a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("encoding a key: %w", err)
	}
	return KeyPair{
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		PrivateKey:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}, nil
}
