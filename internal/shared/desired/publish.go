package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Keys of ConfigMap windows-services-<version>. The first four are the original operator's.
const (
	keyServices    = "services"
	keyFiles       = "files"
	keyEnvironment = "environmentVars"
	keyWatched     = "watchedEnvironmentVars"
	keyCertificate = "certificates"
	keyNode        = "node"
	// keyRegistries is present only if there are mirrors. Large tables are compressed under another key, and so are certificates.
	keyRegistries           = "registries"
	keyCompressedRegistries = "registries.gz.base64"
	// keyCompressedCertificates replaces keyCertificate.
	keyCompressedCertificates = "certificates.gz.base64"
)

// Data returns a Node as the readable data of a ConfigMap. The same Node always gives the same bytes. The error is ErrTooLarge if
// a ConfigMap cannot hold it.
func (n Node) Data() (map[string]string, error) {
	data := map[string]string{}
	for key, part := range n.parts() {
		text, err := json.MarshalIndent(part, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("writing key %s: %w", key, err)
		}
		data[key] = string(text)
	}
	if n.Certificates != "" {
		data[keyCertificate] = n.Certificates
	}
	if err := putRegistries(data, n.Registries); err != nil {
		return nil, err
	}
	n.Services, n.Files, n.Environment, n.WatchedEnvironment, n.Certificates, n.Registries = nil, nil, nil, nil, "", nil
	rest, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing key %s: %w", keyNode, err)
	}
	data[keyNode] = string(rest)
	if fits(data) {
		return data, nil
	}
	if err := compressCertificates(data); err != nil {
		return nil, err
	}
	if err := checkSize(data); err != nil {
		return nil, err
	}
	return data, nil
}

// Hash returns a short identifier of a Node: the beginning of the SHA-256 of its JSON.
func (n Node) Hash() (string, error) {
	b, err := json.Marshal(n)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6]), nil
}

// FromData reads the output of Data. The error names a key that is missing or malformed.
func FromData(data map[string]string) (Node, error) {
	var n Node
	if err := json.Unmarshal([]byte(data[keyNode]), &n); err != nil {
		return Node{}, fmt.Errorf("reading key %s: %w", keyNode, err)
	}
	for key, part := range n.parts() {
		if err := json.Unmarshal([]byte(data[key]), part); err != nil {
			return Node{}, fmt.Errorf("reading key %s: %w", key, err)
		}
	}
	var err error
	if n.Certificates, err = readCertificates(data); err != nil {
		return Node{}, err
	}
	n.Registries, err = readRegistries(data)
	return n, err
}

// Declares reports whether the output of Data has a service of that name; false if the services cannot be read.
func Declares(data map[string]string, service string) bool {
	var services []Service
	err := json.Unmarshal([]byte(data[keyServices]), &services)
	return err == nil && slices.ContainsFunc(services, func(s Service) bool { return s.Name == service })
}

// Outline reads, from the output of Data of any version, only what every version has: Version, Digest, Payload and
// SecretsVersion.
func Outline(data map[string]string) (Node, error) {
	var n struct {
		Version        string        `json:"version"`
		Digest         string        `json:"digest"`
		Payload        []PayloadFile `json:"payload"`
		SecretsVersion string        `json:"secretsVersion"`
	}
	if err := json.Unmarshal([]byte(data[keyNode]), &n); err != nil {
		return Node{}, fmt.Errorf("reading key %s: %w", keyNode, err)
	}
	return Node{Version: n.Version, Digest: n.Digest, Payload: n.Payload, SecretsVersion: n.SecretsVersion}, nil
}

// parts returns the fields that are stored as JSON under their own key.
func (n *Node) parts() map[string]any {
	return map[string]any{
		keyServices:    &n.Services,
		keyFiles:       &n.Files,
		keyEnvironment: &n.Environment,
		keyWatched:     &n.WatchedEnvironment,
	}
}
