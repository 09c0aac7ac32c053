//go:build linux

package testenv

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// NewKey returns a new key pair, and its private key in the form of the operator's Secret.
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

func names(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("win-%d", i+1))
	}
	return list
}
