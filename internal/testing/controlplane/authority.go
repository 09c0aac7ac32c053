package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificateLife is long enough for any trial and short enough to be harmless.
const certificateLife = 7 * 24 * time.Hour

// Authority is a CA with an ECDSA key.
type Authority struct {
	// PEM is its certificate.
	PEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority creates a CA with a new key, valid for a week.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating the CA's key: %w", err)
	}
	template, err := certificate(pkix.Name{CommonName: "wmco-trial-ca"})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the CA's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the CA's certificate: %w", err)
	}
	return &Authority{PEM: pemBlock("CERTIFICATE", der), cert: cert, key: key}, nil
}

// Pair is a certificate and its key, both as PEM.
type Pair struct{ Cert, Key []byte }

// Issue creates a certificate with a new key: for a client, or for a client and server if it has names or addresses. It is valid for a week.
func (a *Authority) Issue(subject pkix.Name, names []string, addresses []net.IP) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("creating the key of %s: %w", subject.CommonName, err)
	}
	template, err := certificate(subject)
	if err != nil {
		return Pair{}, err
	}
	template.DNSNames, template.IPAddresses = names, addresses
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(names)+len(addresses) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", subject.CommonName, err)
	}
	keyPEM, err := keyBlock(key)
	return Pair{Cert: pemBlock("CERTIFICATE", der), Key: keyPEM}, err
}

// sign creates a certificate whose signature programs on Wine can verify. Wine 8 concatenates the two numbers of an ECDSA
// signature without padding, so it rejects those where a number begins with a zero byte: about one in 128 (crypt32,
// CNG_PrepareSignatureECC).
func sign(template, parent *x509.Certificate, public any, key *ecdsa.PrivateKey) (der []byte, err error) {
	for {
		if der, err = x509.CreateCertificate(rand.Reader, template, parent, public, key); err != nil {
			return nil, err
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		if hasLongNumbers(cert.Signature) {
			return der, nil
		}
	}
}

// hasLongNumbers reports whether no number of a signature on P-256 begins with a zero byte.
func hasLongNumbers(signature []byte) bool {
	var numbers struct{ R, S *big.Int }
	_, err := asn1.Unmarshal(signature, &numbers)
	const long = 256 - 8
	return err == nil && numbers.R.BitLen() > long && numbers.S.BitLen() > long
}

// certificate returns the fields that all certificates have in common.
func certificate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("creating a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // a host's clock may be slow
		NotAfter:     now.Add(certificateLife),
	}, nil
}

func keyBlock(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pemBlock("EC PRIVATE KEY", der), nil
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
