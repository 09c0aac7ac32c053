package verify_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/cosign/v3/pkg/oci"
	ociremote "github.com/sigstore/cosign/v3/pkg/oci/remote"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"
	sigstore "github.com/sigstore/sigstore/pkg/signature"

	"github.com/windows-machine-config/wmco/release/signature"
)

// options returns those of cosign with --key and --insecure-ignore-tlog.
func (r *released) options(t *testing.T, key *ecdsa.PrivateKey) *cosign.CheckOpts {
	t.Helper()
	verifier, err := sigstore.LoadVerifier(&key.PublicKey, crypto.SHA256)
	must(t, err)
	return &cosign.CheckOpts{
		SigVerifier: verifier, IgnoreTlog: true, Offline: true,
		RegistryClientOpts: []ociremote.Option{ociremote.WithRemoteOptions(remote.WithTransport(r.registry.Client().Transport))},
	}
}

// testImages verifies all images and their platforms, as "cosign verify" and "cosign verify-attestation" do.
func (r *released) testImages(t *testing.T) {
	for image, tag := range map[string]string{"": "v" + version, "-bundle": version, "-catalog": version} {
		tagged := r.reference(t, r.repository+image+":"+tag)
		for _, digest := range r.index(t, tagged) {
			r.verifyImage(t, r.reference(t, tagged.Context().Name()+"@"+digest.String()))
		}
	}
}

func (r *released) verifyImage(t *testing.T, reference name.Reference) {
	t.Helper()
	older := r.options(t, r.key)
	older.ClaimVerifier = cosign.SimpleClaimVerifier
	if found, _, err := cosign.VerifyImageSignatures(t.Context(), reference, older); err != nil || len(found) != 1 {
		t.Errorf("%s: %d signatures as CRI-O and older versions of cosign read them (%v)", reference, len(found), err)
	}
	newer := r.options(t, r.key)
	newer.ClaimVerifier, newer.NewBundleFormat = cosign.IntotoSubjectClaimVerifier, true
	found, _, err := cosign.VerifyImageAttestations(t.Context(), reference, newer)
	if err != nil || len(found) != 2 {
		t.Errorf("%s: %d signed statements as cosign 3 reads them (%v)", reference, len(found), err)
	}
	statements := map[string]string{}
	for _, f := range found {
		kind, text := statementOf(t, f)
		statements[kind] = text
	}
	if provenance := statements[signature.ProvenanceType]; !strings.Contains(provenance, r.revision) || statements["https://sigstore.dev/cosign/sign/v1"] == "" {
		t.Errorf("%s: the statements are %v", reference, statements)
	}
	for _, foreign := range []*cosign.CheckOpts{r.options(t, r.other)} {
		foreign.ClaimVerifier = cosign.SimpleClaimVerifier
		if _, _, err := cosign.VerifyImageSignatures(t.Context(), reference, foreign); err == nil {
			t.Errorf("%s was verified with a foreign key", reference)
		}
	}
}

// statementOf returns the type and the text of a statement in an envelope.
func statementOf(t *testing.T, attestation oci.Signature) (kind, text string) {
	t.Helper()
	payload, err := attestation.Payload()
	must(t, err)
	var envelope struct{ Payload []byte }
	var statement struct{ PredicateType string }
	must(t, json.Unmarshal(payload, &envelope))
	must(t, json.Unmarshal(envelope.Payload, &statement))
	return statement.PredicateType, string(envelope.Payload)
}

// pushForeign adds a statement about a manifest, signed with another key.
func (r *released) pushForeign(t *testing.T, reference name.Reference, of v1.Descriptor) {
	t.Helper()
	p := signature.Provenance{Source: "https://example.com", Version: version, Revision: r.revision, Builder: "https://example.com/builder"}
	text, err := signature.SignStatement(p.Statement(signature.Subject{Name: reference.Context().Name(), SHA256: of.Digest.Hex}), r.other)
	must(t, err)
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), signature.BundleType)
	attached, err := mutate.Append(base, mutate.Addendum{Layer: static.NewLayer(text, signature.BundleType)})
	must(t, err)
	artifact := mutate.Subject(attached, v1.Descriptor{MediaType: of.MediaType, Digest: of.Digest, Size: of.Size}).(v1.Image)
	digest, err := artifact.Digest()
	must(t, err)
	must(t, remote.Write(reference.Context().Digest(digest.String()), artifact, remote.WithTransport(r.registry.Client().Transport)))
}

// testSignedFiles verifies the checksums as "cosign verify-blob" does, and the provenance of each file as "cosign verify-blob-attestation".
func (r *released) testSignedFiles(t *testing.T) {
	sums, err := os.ReadFile(filepath.Join(r.files, "SHA256SUMS"))
	must(t, err)
	ofSums := r.bundle(t, signature.ChecksumsBundle)
	if _, err := cosign.VerifyNewBundle(t.Context(), r.options(t, r.key), verify.WithArtifact(bytes.NewReader(sums)), ofSums); err != nil {
		t.Errorf("the checksums: %v", err)
	}
	if _, err := cosign.VerifyNewBundle(t.Context(), r.options(t, r.other), verify.WithArtifact(bytes.NewReader(sums)), ofSums); err == nil {
		t.Error("the checksums were verified with a foreign key")
	}
	if _, err := cosign.VerifyNewBundle(t.Context(), r.options(t, r.key), verify.WithArtifact(bytes.NewReader(sums[1:])), ofSums); err == nil {
		t.Error("altered checksums were verified")
	}
	provenance := r.bundle(t, signature.ProvenanceBundle)
	for line := range strings.Lines(string(sums)) {
		file := strings.Fields(line)[1]
		content, err := os.ReadFile(filepath.Join(r.files, file))
		must(t, err)
		sum := sha256.Sum256(content)
		result, err := cosign.VerifyNewBundle(t.Context(), r.options(t, r.key), verify.WithArtifactDigest("sha256", sum[:]), provenance)
		if err != nil || result.Statement.GetPredicateType() != signature.ProvenanceType {
			t.Errorf("%s: %v, %+v", file, err, result)
		}
	}
	other := sha256.Sum256([]byte("other"))
	if _, err := cosign.VerifyNewBundle(t.Context(), r.options(t, r.key), verify.WithArtifactDigest("sha256", other[:]), provenance); err == nil {
		t.Error("a file that does not belong to the release was verified")
	}
}

func (r *released) bundle(t *testing.T, file string) *bundle.Bundle {
	t.Helper()
	b, err := bundle.LoadJSONFromPath(filepath.Join(r.files, file))
	must(t, err)
	return b
}
