package sshserver

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"

	"golang.org/x/crypto/ssh"
)

// NewKey returns a new key pair (Ed25519), and its private key in OpenSSH's format.
func NewKey() (signer ssh.Signer, text []byte, err error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, nil, err
	}
	signer, err = ssh.NewSignerFromKey(private)
	return signer, pem.EncodeToMemory(block), err
}
