package sshd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// loadHostKey reads the server's key from a file in OpenSSH's format. The first time, it creates one (Ed25519).
func loadHostKey(path string) (ssh.Signer, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeHostKey(path); err != nil {
			return nil, err
		}
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the host key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		return nil, fmt.Errorf("parsing the host key: %w", err)
	}
	return signer, nil
}

func makeHostKey(path string) error {
	_, text, err := sshserver.NewKey()
	if err != nil {
		return fmt.Errorf("creating the host key: %w", err)
	}
	beside := path + ".new"
	if err := os.WriteFile(beside, text, 0o600); err != nil {
		return fmt.Errorf("writing the host key: %w", err)
	}
	if err := os.Rename(beside, path); err != nil {
		return fmt.Errorf("renaming the host key: %w", err)
	}
	return nil
}
