package image

import (
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/windows-machine-config/wmco/release/signature"
)

// Signatures use the format of cosign (specs/SIGNATURE_SPEC.md of sigstore/cosign), which CRI-O, podman and skopeo verify as
// sigstoreSigned (containers-policy.json(5)).
const (
	signatureLayer      = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	signatureType       = "cosign container image signature"
)

// claimType is the type of a statement that only claims that the key's owner signed an image (cosign 3, pkg/types).
const claimType = "https://sigstore.dev/cosign/sign/v1"

// Sign signs a pushed index and each of its images, which nodes pull. The reference is the one passed to Push. Each gets a signature in the
// format that CRI-O, podman and older versions of cosign read, and a Sigstore bundle: if an image has any bundle, for example the
// provenance that GitHub adds, cosign 3 ignores other signatures. A second bundle contains the provenance of the image.
func Sign(ctx context.Context, to string, plainHTTP bool, index v1.ImageIndex, key *ecdsa.PrivateKey, p signature.Provenance) error {
	reference, err := parseReference(to, plainHTTP)
	if err != nil {
		return err
	}
	descriptor, err := partial.Descriptor(index)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range append([]v1.Descriptor{*descriptor}, manifest.Manifests...) {
		if err := signOne(ctx, reference.Context(), d, key, p); err != nil {
			return fmt.Errorf("signing %s: %w", d.Digest, err)
		}
	}
	return nil
}

// signOne signs a manifest of a repository.
func signOne(ctx context.Context, repository name.Repository, d v1.Descriptor, key *ecdsa.PrivateKey, p signature.Provenance) error {
	options := registryOptions(ctx)
	signed, err := sign(repository.Name(), d.Digest, key)
	if err != nil {
		return err
	}
	if err := remote.Write(repository.Tag(strings.Replace(d.Digest.String(), ":", "-", 1)+".sig"), signed, options...); err != nil {
		return fmt.Errorf("pushing the signature: %w", err)
	}
	subject := signature.Subject{Name: repository.Name(), SHA256: d.Digest.Hex}
	for _, s := range []signature.Statement{
		{Subjects: []signature.Subject{subject}, PredicateType: claimType, Predicate: struct{}{}}, p.Statement(subject),
	} {
		bundle, err := statement(d, s, key)
		if err != nil {
			return err
		}
		digest, err := bundle.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(repository.Digest(digest.String()), bundle, options...); err != nil {
			return fmt.Errorf("pushing the statement %s: %w", s.PredicateType, err)
		}
	}
	return nil
}

// statement returns the artifact with a signed statement about a manifest.
func statement(d v1.Descriptor, s signature.Statement, key *ecdsa.PrivateKey) (v1.Image, error) {
	bundle, err := signature.SignStatement(s, key)
	if err != nil {
		return nil, err
	}
	return artifact(d, bundle, signature.BundleType, map[string]string{
		"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": s.PredicateType,
	})
}

// sign returns the image with the signature of a manifest.
func sign(repository string, digest v1.Hash, key *ecdsa.PrivateKey) (v1.Image, error) {
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
	signed, err := signature.Sign(claim, key)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(base, mutate.Addendum{
		Layer: static.NewLayer(claim, signatureLayer), Annotations: map[string]string{signatureAnnotation: base64.StdEncoding.EncodeToString(signed)},
	})
}
