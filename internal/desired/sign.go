package desired

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// keySignature is the key of ConfigMap windows-services-<version> that holds the operator's signature of all others.
const keySignature = "signature"

// maxPublished bounds what is published, in bytes: the API server takes no larger ConfigMap or Secret (k8s.io/kubernetes,
// pkg/apis/core/validation).
const maxPublished = 1 << 20

// Statement is what the operator signs of a ConfigMap besides its data.
type Statement struct {
	// Cluster is the UID of the cluster's namespace kube-system, Name that of the ConfigMap.
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	// Serial grows with each signature of this name: what has a lower one is older.
	Serial int64 `json:"serial"`
}

// signature is the content of keySignature.
type signature struct {
	Statement
	// Key is the public key that belongs to it. It is for people: who verifies has one of his own.
	Key string `json:"key"`
	// Signature is that of Ed25519 (RFC 8032).
	Signature []byte `json:"signature"`
}

// PublicKey is the public half of a key as a Node names it.
func PublicKey(private ed25519.PrivateKey) string {
	public, _ := private.Public().(ed25519.PublicKey) // always
	return base64.StdEncoding.EncodeToString(public)
}

// parseKey reads what PublicKey wrote.
func parseKey(key string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(key)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no public key; %d bytes in base64 are needed", key, ed25519.PublicKeySize)
	}
	return b, nil
}

// Sign returns the data with a signature. One that they have is replaced.
func Sign(data map[string]string, s Statement, private ed25519.PrivateKey) (map[string]string, error) {
	text, err := json.MarshalIndent(signature{Statement: s, Key: PublicKey(private), Signature: ed25519.Sign(private, toSign(data, s))}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing key %s: %w", keySignature, err)
	}
	signed := maps.Clone(data)
	signed[keySignature] = string(text)
	return signed, nil
}

// Unsigned returns the data without their signature.
func Unsigned(data map[string]string) map[string]string {
	bare := maps.Clone(data)
	delete(bare, keySignature)
	return bare
}

// Verify returns what is stated of data that were signed with the key. Whether it is what the caller wants is for the caller to say.
// Nothing else of the data is read. The error says who signed them, if anybody did.
func Verify(data map[string]string, key string) (Statement, error) {
	public, err := parseKey(key)
	if err != nil {
		return Statement{}, fmt.Errorf("no key to verify with: %w", err)
	}
	text, there := data[keySignature]
	if !there {
		return Statement{}, fmt.Errorf("they are not signed (no key %s)", keySignature)
	}
	if size := publishedSize(data); size > maxPublished {
		return Statement{}, fmt.Errorf("they have %d bytes, more than the %d that can be published", size, maxPublished)
	}
	var s signature
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Statement{}, fmt.Errorf("key %s cannot be read: %w", keySignature, err)
	}
	switch {
	case ed25519.Verify(public, toSign(data, s.Statement), s.Signature):
		return s.Statement, nil
	case s.Key != key:
		return Statement{}, fmt.Errorf("they are signed with key %.64q, want %s", s.Key, key)
	}
	return Statement{}, fmt.Errorf("they are not what was signed with key %s", key)
}

func toSign(data map[string]string, s Statement) []byte {
	parts := []string{s.Cluster, s.Name, fmt.Sprint(s.Serial)}
	for _, key := range slices.Sorted(maps.Keys(Unsigned(data))) {
		parts = append(parts, key, data[key])
	}
	return statementOf("what Windows nodes must have, 1", parts...)
}

// statementOf is what is signed: the purpose, so that no signature stands for another one, then each part preceded by its length, so
// that no other parts read the same.
func statementOf(purpose string, parts ...string) []byte {
	var b bytes.Buffer
	for _, text := range append([]string{purpose}, parts...) {
		fmt.Fprintf(&b, "%d:%s,", len(text), text)
	}
	return b.Bytes()
}

// SecretsVersion is the version of what Secret windows-node-secrets holds: its SHA-256, in hex. A Node that is signed so says which
// secrets belong to it.
func SecretsVersion(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Content is what Secret windows-node-secrets holds of secrets, without their version.
func (s Secrets) Content() ([]byte, error) {
	s.Version = ""
	return json.Marshal(s)
}

// ReadSecrets reads what Content wrote, and gives it its version. The error tells nothing of the content.
func ReadSecrets(content []byte) (Secrets, error) {
	var s Secrets
	if err := json.Unmarshal(content, &s); err != nil {
		return Secrets{}, errors.New("it is not what the operator writes")
	}
	s.Version = SecretsVersion(content)
	return s, nil
}
