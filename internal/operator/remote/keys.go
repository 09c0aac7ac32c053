package remote

import (
	"bytes"
	"crypto"
	"crypto/dsa" //nolint:staticcheck // to recognize such a key and refuse it
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// minRSABits is the minimum size of an RSA key: smaller ones have less than the 112 bits of strength that NIST SP 800-131A requires.
const minRSABits = 2048

// ParsePrivateKey parses an unencrypted private key in any of the common PEM formats. Errors describe what was found instead and how to create a key;
// they never contain a part of it.
func ParsePrivateKey(text []byte) (ssh.Signer, error) {
	if encoding := encodingOf(text); encoding != "" {
		return nil, keyError(encoding)
	}
	block, found := findPrivateKey(text)
	if block == nil {
		return nil, keyError(found)
	}
	key, err := ssh.ParseRawPrivateKey(pem.EncodeToMemory(block))
	var encrypted *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &encrypted), block.Type == "ENCRYPTED PRIVATE KEY":
		return nil, keyError("a private key encrypted with a passphrase")
	case err != nil:
		return nil, keyError("a PEM block of a private key that is damaged or of an unknown kind")
	}
	if weakness := unsuitable(key); weakness != "" {
		return nil, keyError(weakness)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, keyError("a private key of a kind that SSH does not use")
	}
	return signer, nil
}

func keyError(found string) error {
	return fmt.Errorf("reading the private key: found %s; want an unencrypted Ed25519, ECDSA or RSA (%d bits or more) "+
		"private key in PEM format, as created by: ssh-keygen -t ed25519 -N '' -f key", found, minRSABits)
}

// findPrivateKey returns the first PEM block with a private key, or nil and a description of what was found instead.
func findPrivateKey(text []byte) (key *pem.Block, found string) {
	for rest := text; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil && found == "":
			return nil, withoutPEM(string(bytes.TrimSpace(text)))
		case block == nil:
			return nil, found
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return block, ""
		case strings.HasSuffix(block.Type, "PUBLIC KEY"):
			found = "a public key"
		case block.Type == "CERTIFICATE":
			found = "a certificate"
		case found == "":
			found = "PEM without a private key"
		}
	}
}

// encodingOf names the non-ASCII encoding of a file that a Windows program wrote; empty if the text is plain.
func encodingOf(text []byte) string {
	const ascii = "; save it as plain ASCII, as Set-Content -Encoding ascii does"
	switch {
	case bytes.HasPrefix(text, []byte("\ufeff")):
		return "a byte order mark before the text, as some editors of Windows write it" + ascii
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}), bytes.HasPrefix(text, []byte{0xfe, 0xff}), bytes.Contains(text[:min(len(text), 64)], []byte{'-', 0, '-', 0}),
		bytes.Contains(text[:min(len(text), 64)], []byte{'s', 0, 's', 0, 'h', 0}):
		return "text in UTF-16, as PowerShell's > writes it" + ascii
	}
	return ""
}

// withoutPEM names what is often mistaken for a private key.
func withoutPEM(text string) string {
	if text == "" {
		return "nothing"
	}
	if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text)); err == nil || strings.HasPrefix(text, "---- BEGIN SSH2 PUBLIC KEY") {
		return "a public key"
	}
	if strings.HasPrefix(text, "PuTTY-User-Key-File") {
		return "a PuTTY key, which PuTTYgen exports as an OpenSSH key"
	}
	if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && bytes.Contains(decoded, []byte("-----BEGIN ")) {
		return "PEM encoded once more in base64"
	}
	if strings.Contains(text, "-----BEGIN ") {
		return "PEM whose lines are cut, joined or indented"
	}
	return "no PEM"
}

// unsuitable returns why a valid key must not be used; empty if it may.
func unsuitable(key crypto.PrivateKey) string {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if bits := k.N.BitLen(); bits < minRSABits {
			return fmt.Sprintf("an RSA key of %d bits", bits)
		}
	case *ecdsa.PrivateKey:
		if bits := k.Curve.Params().BitSize; bits < 256 {
			return fmt.Sprintf("an ECDSA key of %d bits", bits)
		}
	case *ed25519.PrivateKey, ed25519.PrivateKey:
	case *dsa.PrivateKey:
		return "a DSA key"
	default:
		return "a private key of a kind that SSH does not use"
	}
	return ""
}

// ParseHostKey parses a host key in the format of a .pub file: type, base64 key, and an optional comment.
func ParseHostKey(text string) (ssh.PublicKey, error) {
	if encoding := encodingOf([]byte(text)); encoding != "" {
		return nil, hostKeyError(encoding)
	}
	text = strings.TrimSpace(text)
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	switch {
	case strings.HasPrefix(text, "SHA256:"):
		return nil, hostKeyError("a fingerprint")
	case strings.Contains(text, "PRIVATE KEY"):
		return nil, hostKeyError("a private key")
	case err != nil:
		return nil, hostKeyError("no public key")
	case len(options) > 0:
		return nil, hostKeyError("other words before the key")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, hostKeyError("more than one line")
	}
	if weakness := unsuitableHostKey(key); weakness != "" {
		return nil, hostKeyError(weakness)
	}
	return key, nil
}

// unsuitableHostKey returns why a host key must not be trusted; empty if it may.
func unsuitableHostKey(key ssh.PublicKey) string {
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return ""
	case ssh.KeyAlgoRSA:
		if n := rsaBits(key); n < minRSABits {
			return fmt.Sprintf("an RSA key of %d bits", n)
		}
		return ""
	}
	return "a key of type " + key.Type()
}

func hostKeyError(found string) error {
	return fmt.Errorf("reading the host key: found %s; want one line such as \"ssh-ed25519 AAAA...\" of type Ed25519, "+
		`ECDSA or RSA (%d bits or more), as in the host's file C:\ProgramData\ssh\ssh_host_ed25519_key.pub`, found, minRSABits)
}

func rsaBits(key ssh.PublicKey) int {
	if k, ok := key.(ssh.CryptoPublicKey); ok {
		if r, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok {
			return r.N.BitLen()
		}
	}
	return 0
}

// FormatHostKey is the inverse of ParseHostKey, without a comment.
func FormatHostKey(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}
