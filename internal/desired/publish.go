package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Keys of ConfigMap windows-services-<version>. The first four are the original operator's; the rest is ours.
const (
	keyServices    = "services"
	keyFiles       = "files"
	keyEnvironment = "environmentVars"
	keyWatched     = "watchedEnvironmentVars"
	keyCertificate = "certificates"
	keyNode        = "node"
	// keyRegistries is there when there is something to say. What is large is compressed, with another key, and so are certificates.
	keyRegistries           = "registries"
	keyCompressedRegistries = "registries.gz.base64"
	// keyCompressedCertificates takes the place of keyCertificate.
	keyCompressedCertificates = "certificates.gz.base64"
)

// Data is a Node as the data of a ConfigMap, in which people find what they look for. The same Node gives the same
// bytes. What is more than a ConfigMap holds is ErrTooLarge.
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

// Hash identifies a Node in few characters: the beginning of the SHA-256 of what it consists of.
func (n Node) Hash() (string, error) {
	b, err := json.Marshal(n)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6]), nil
}

// FromData reads what Data wrote. A key that is missing or not as Data writes it is an error that names it.
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

// Declares reports whether what Data wrote has a service of that name; not where the services cannot be read.
func Declares(data map[string]string, service string) bool {
	var services []Service
	err := json.Unmarshal([]byte(data[keyServices]), &services)
	return err == nil && slices.ContainsFunc(services, func(s Service) bool { return s.Name == service })
}

// Outline reads, of what Data of any version wrote, only what every version has: Version, Digest, Payload and SecretsVersion.
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

// parts are the fields that have a key of their own and are JSON.
func (n *Node) parts() map[string]any {
	return map[string]any{
		keyServices:    &n.Services,
		keyFiles:       &n.Files,
		keyEnvironment: &n.Environment,
		keyWatched:     &n.WatchedEnvironment,
	}
}
