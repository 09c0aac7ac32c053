package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// RegistryFile holds the key and the certificate of WICD's registry on loopback. They are made on the host, and never
// leave it.
const RegistryFile = desired.WICDCertificates + `\registry.json`

// The certificate is good for years, and made again in time: what reads it reads the new one at once.
const (
	registryLasts = 10 * 365 * 24 * time.Hour
	registryRenew = 30 * 24 * time.Hour
)

// RegistryEndpoint is how containerd and WICD's registry know each other: containerd by the key, the registry by its
// certificate. So no other program of the host can stand in for the one or the other.
type RegistryEndpoint struct {
	Key string `json:"key"`
	// Certificate and PrivateKey are PEM.
	Certificate string `json:"certificate"`
	PrivateKey  string `json:"privateKey"`
}

// ReadRegistry reads RegistryFile. The error tells nothing of its content.
func ReadRegistry(d host.Disk) (RegistryEndpoint, error) {
	text, err := d.Read(RegistryFile)
	if err != nil {
		return RegistryEndpoint{}, err
	}
	var e RegistryEndpoint
	if json.Unmarshal(text, &e) != nil || len(e.Key) < 32 || !isAlphanumeric(e.Key) {
		return RegistryEndpoint{}, fmt.Errorf("%s is not what WICD wrote", RegistryFile)
	}
	return e, nil
}

func isAlphanumeric(text string) bool {
	for _, r := range []byte(text) {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}

// MakeRegistry returns what RegistryFile holds, and makes it where it is not there, cannot be read or expires.
func MakeRegistry(h host.Host, now time.Time) (e RegistryEndpoint, made bool, err error) {
	if e, err = ReadRegistry(h.Disk); err == nil && e.isGood(now) {
		return e, false, nil
	}
	if e, err = newRegistry(now); err != nil {
		return RegistryEndpoint{}, false, err
	}
	text, err := json.Marshal(e)
	if err != nil {
		return RegistryEndpoint{}, false, errors.New("writing the key of the registry")
	}
	if _, err := h.Disk.WriteSecret(RegistryFile, string(text), h.MakePrivate); err != nil {
		return RegistryEndpoint{}, false, fmt.Errorf("writing %s: %w", RegistryFile, err)
	}
	return e, true, nil
}

// isGood tells whether the certificate is good for a while.
func (e RegistryEndpoint) isGood(now time.Time) bool {
	block, _ := pem.Decode([]byte(e.Certificate))
	if block == nil {
		return false
	}
	c, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.Add(registryRenew).Before(c.NotAfter) && now.After(c.NotBefore)
}

func newRegistry(now time.Time) (RegistryEndpoint, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return RegistryEndpoint{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetInt64(now.UnixNano()), Subject: pkix.Name{CommonName: "WICD registry on loopback"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(registryLasts), // clocks are set back
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return RegistryEndpoint{}, fmt.Errorf("making a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return RegistryEndpoint{}, fmt.Errorf("writing a key: %w", err)
	}
	return RegistryEndpoint{
		Key:         rand.Text() + rand.Text(),
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		PrivateKey:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}, nil
}
