// Package sshkey reads the operator's SSH key and formats it for hosts and Nodes.
package sshkey

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
)

// PrivateKey reads the SSH key. A problem of the Secret is returned as a Stall, which the user must fix; err is an API error.
func PrivateKey(ctx context.Context, reader client.Reader, namespace string) (ssh.Signer, *join.Stall, error) {
	name := types.NamespacedName{Namespace: namespace, Name: api.PrivateKeySecret}
	var secret corev1.Secret
	err := reader.Get(ctx, name, &secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	text, found := secret.Data[api.PrivateKeyKey]
	if err != nil || !found {
		return nil, &join.Stall{Reason: api.ReasonPrivateKeyMissing, Message: fmt.Sprintf(
			"Secret %s with key %s not found; create it with: ssh-keygen -t ed25519 -N '' -f windows-key && "+
				"kubectl create secret generic %s --from-file=%s=windows-key -n %s, and authorize windows-key.pub on each host",
			name, api.PrivateKeyKey, api.PrivateKeySecret, api.PrivateKeyKey, namespace)}, nil
	}
	key, err := remote.ParsePrivateKey(text)
	if err != nil {
		return nil, &join.Stall{Reason: api.ReasonPrivateKeyInvalid, Message: fmt.Sprintf(
			"Secret %s, key %s: %v", name, api.PrivateKeyKey, err)}, nil
	}
	return key, nil, nil
}

// AuthorizedLines returns the lines of authorized_keys for new hosts; none while the Secret with the private key has a problem, which the instances
// report.
func AuthorizedLines(ctx context.Context, reader client.Reader, namespace string) ([]string, error) {
	key, fault, err := PrivateKey(ctx, reader, namespace)
	if fault != nil || err != nil {
		return nil, err
	}
	return []string{AuthorizedLine(key)}, nil
}

// AuthorizedLine returns the line of authorized_keys for a key.
func AuthorizedLine(key ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
}

// Hash identifies a key on Nodes (annotation pub-key-hash): the SHA-256 of its line, in hexadecimal.
func Hash(key ssh.Signer) string {
	sum := sha256.Sum256([]byte(AuthorizedLine(key)))
	return hex.EncodeToString(sum[:])
}
