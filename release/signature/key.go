// Package signature signs files and statements about them with the project's key, as Sigstore bundles, which cosign verifies without a
// network. The same key and content give the same bytes.
package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// ReadKey reads an unencrypted ECDSA private key in PEM format, as created by "openssl ecparam -name prime256v1 -genkey
// -noout".
func ReadKey(path string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("reading the signing key %s: it is not PEM", path)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, isECDSA := parsed.(*ecdsa.PrivateKey)
	if err != nil || !isECDSA {
		return nil, fmt.Errorf("reading the signing key %s: it is not an unencrypted ECDSA private key", path)
	}
	return key, nil
}

// CheckPublic returns an error if a file has a public key other than that of the private key. If there is no file, any key is accepted.
func CheckPublic(path string, key *ecdsa.PrivateKey) error {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("reading the public key %s: it is not PEM", path)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("reading the public key %s: %w", path, err)
	}
	if !key.PublicKey.Equal(public) {
		return fmt.Errorf("the signing key does not belong to the public key in %s, with which users verify", path)
	}
	return nil
}

// Sign signs the SHA-256 of a message in ASN.1, always with the same result (RFC 6979).
func Sign(message []byte, key *ecdsa.PrivateKey) ([]byte, error) {
	sum := sha256.Sum256(message)
	return key.Sign(nil, sum[:], crypto.SHA256)
}
