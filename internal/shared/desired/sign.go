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

// keySignature is the key of ConfigMap windows-services-<version> with the operator's signature of all other keys.
const keySignature = "signature"

// maxPublished limits what is published, in bytes: the API server rejects larger ConfigMaps and Secrets (k8s.io/kubernetes,
// pkg/apis/core/validation).
const maxPublished = 1 << 20

// Statement is what the operator signs together with the data of a ConfigMap.
type Statement struct {
	// Cluster is the UID of the cluster's namespace kube-system, Name the name of the ConfigMap.
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	// Serial grows with each signature of this name: a lower one is older.
	Serial int64 `json:"serial"`
}

// signature is the content of keySignature.
type signature struct {
	Statement
	// Key is the public key of the signature, for people only: verifiers use their own copy.
	Key string `json:"key"`
	// Signature is an Ed25519 signature (RFC 8032).
	Signature []byte `json:"signature"`
}

// PublicKey returns the public half of a key in the form that a Node uses.
func PublicKey(private ed25519.PrivateKey) string {
	public, _ := private.Public().(ed25519.PublicKey) // always
	return base64.StdEncoding.EncodeToString(public)
}

// parseKey reads the output of PublicKey.
func parseKey(key string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(key)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is not a public key; %d bytes in base64 are required", key, ed25519.PublicKeySize)
	}
	return b, nil
}

// Sign returns the data with a signature, which replaces an existing one.
func Sign(data map[string]string, s Statement, private ed25519.PrivateKey) (map[string]string, error) {
	text, err := json.MarshalIndent(signature{Statement: s, Key: PublicKey(private), Signature: ed25519.Sign(private, toSign(data, s))}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing key %s: %w", keySignature, err)
	}
	signed := maps.Clone(data)
	signed[keySignature] = string(text)
	return signed, nil
}

// Unsigned returns the data without its signature.
func Unsigned(data map[string]string) map[string]string {
	bare := maps.Clone(data)
	delete(bare, keySignature)
	return bare
}

// Verify returns the statement that was signed together with the data. The caller must check that it is the expected one. Nothing
// else of the data is read. The error names the key of another signer.
func Verify(data map[string]string, key string) (Statement, error) {
	public, err := parseKey(key)
	if err != nil {
		return Statement{}, fmt.Errorf("parsing the signing key: %w", err)
	}
	text, found := data[keySignature]
	if !found {
		return Statement{}, fmt.Errorf("not signed (no key %s)", keySignature)
	}
	if size := publishedSize(data); size > maxPublished {
		return Statement{}, fmt.Errorf("%d bytes; at most %d can be published", size, maxPublished)
	}
	var s signature
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Statement{}, fmt.Errorf("parsing key %s: %w", keySignature, err)
	}
	switch {
	case ed25519.Verify(public, toSign(data, s.Statement), s.Signature):
		return s.Statement, nil
	case s.Key != key:
		return Statement{}, fmt.Errorf("signed with unknown key %.64q, want %s", s.Key, key)
	}
	return Statement{}, fmt.Errorf("data does not match the signature by key %s", key)
}

func toSign(data map[string]string, s Statement) []byte {
	parts := []string{s.Cluster, s.Name, fmt.Sprint(s.Serial)}
	for _, key := range slices.Sorted(maps.Keys(Unsigned(data))) {
		parts = append(parts, key, data[key])
	}
	return statementOf("what Windows nodes must have, 1", parts...)
}

// statementOf returns the bytes to sign: the purpose, so that a signature is not valid for another purpose, then each part preceded
// by its length, so that no other parts give the same bytes.
func statementOf(purpose string, parts ...string) []byte {
	var b bytes.Buffer
	for _, text := range append([]string{purpose}, parts...) {
		fmt.Fprintf(&b, "%d:%s,", len(text), text)
	}
	return b.Bytes()
}

// SecretsVersion returns the version of the content of Secret windows-node-secrets: its SHA-256, in hex. A signed Node refers to its
// secrets by this version.
func SecretsVersion(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Content returns the content of Secret windows-node-secrets, without the version.
func (s Secrets) Content() ([]byte, error) {
	s.Version = ""
	return json.Marshal(s)
}

// ReadSecrets reads the output of Content and sets the version. The error reveals nothing of the content.
func ReadSecrets(content []byte) (Secrets, error) {
	var s Secrets
	if err := json.Unmarshal(content, &s); err != nil {
		return Secrets{}, errors.New("not JSON as the operator writes it")
	}
	s.Version = SecretsVersion(content)
	return s, nil
}
