package image

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The form of signatures is that of cosign (specs/SIGNATURE_SPEC.md of sigstore/cosign), which CRI-O, podman and skopeo verify as
// sigstoreSigned (containers-policy.json(5)).
const (
	signatureLayer      = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	signatureType       = "cosign container image signature"
)

// ReadKey reads an unencrypted ECDSA private key in PEM, as "openssl ecparam -name prime256v1 -genkey -noout" makes it.
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

// Sign signs a pushed index and each of its images, which is what nodes pull. The reference is the one that Push got.
func Sign(ctx context.Context, to string, plainHTTP bool, index v1.ImageIndex, key *ecdsa.PrivateKey) error {
	var options []name.Option
	if plainHTTP {
		options = append(options, name.Insecure)
	}
	reference, err := name.ParseReference(to, options...)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	digests := []v1.Hash{digest}
	for _, one := range manifest.Manifests {
		digests = append(digests, one.Digest)
	}
	for _, d := range digests {
		signature, err := sign(reference.Context().Name(), d, key)
		if err != nil {
			return fmt.Errorf("signing %s: %w", d, err)
		}
		at := reference.Context().Tag(strings.Replace(d.String(), ":", "-", 1) + ".sig")
		if err := remote.Write(at, signature, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("pushing the signature of %s: %w", d, err)
		}
	}
	return nil
}

// sign makes the image that carries the signature of a manifest.
func sign(repository string, digest v1.Hash, key crypto.Signer) (v1.Image, error) {
	claim, err := json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]string{"docker-reference": repository},
			"image":    map[string]string{"docker-manifest-digest": digest.String()},
			"type":     signatureType,
		},
		"optional": nil,
	})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(claim)
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	one, err := mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(claim, signatureLayer), Annotations: map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signature)},
	})
	return one, err
}
