package signature_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/release/signature"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// write writes a test file.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// released returns the folder of a release with two files.
func released(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var sums string
	for _, name := range []string{"image.tar", "notes.md"} {
		write(t, filepath.Join(dir, name), []byte("content of "+name))
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte("content of "+name)), name)
	}
	write(t, filepath.Join(dir, "SHA256SUMS"), []byte(sums))
	return dir
}

func provenance() signature.Provenance {
	return signature.Provenance{Source: "https://example.com/wmco", Version: "1.2.0", Revision: strings.Repeat("01", 20), Builder: "https://example.com/builder"}
}

// TestReleaseIsSigned verifies both signatures according to their specifications. release/verify tests that cosign verifies them.
func TestReleaseIsSigned(t *testing.T) {
	dir, key := released(t), newKey(t)
	for range 2 { // the second time, the folder has its own files
		if err := signature.Release(dir, provenance(), key); err != nil {
			t.Fatal(err)
		}
	}
	var sums struct {
		MediaType        string
		MessageSignature struct{ Signature []byte }
	}
	read(t, filepath.Join(dir, signature.ChecksumsBundle), &sums)
	content, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if sums.MediaType != signature.BundleType || !valid(key, content, sums.MessageSignature.Signature) {
		t.Errorf("the bundle of the checksums is %+v", sums)
	}
	var built struct {
		DSSEEnvelope struct {
			Payload     []byte
			PayloadType string
			Signatures  []struct{ Sig []byte }
		}
	}
	read(t, filepath.Join(dir, signature.ProvenanceBundle), &built)
	e := built.DSSEEnvelope
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
	if len(e.Signatures) != 1 || !valid(key, message, e.Signatures[0].Sig) {
		t.Errorf("the envelope of the provenance is %+v", e)
	}
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct {
					URI    string
					Digest map[string]string
				}
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	if err := json.Unmarshal(e.Payload, &statement); err != nil {
		t.Fatal(err)
	}
	from := statement.Predicate.BuildDefinition.ResolvedDependencies
	switch {
	case statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1":
		t.Errorf("statement of type %s with predicate type %s", statement.Type, statement.PredicateType)
	case len(statement.Subject) != 2 || statement.Subject[0].Name != "image.tar" || statement.Subject[0].Digest["sha256"] != fmt.Sprintf("%x", sha256.Sum256([]byte("content of image.tar"))):
		t.Errorf("subjects %+v", statement.Subject)
	case len(from) != 1 || from[0].URI != "git+https://example.com/wmco@refs/tags/v1.2.0" || from[0].Digest["gitCommit"] != strings.Repeat("01", 20):
		t.Errorf("built from %+v", from)
	case statement.Predicate.RunDetails.Builder.ID != "https://example.com/builder":
		t.Errorf("built by %+v", statement.Predicate.RunDetails)
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func valid(key *ecdsa.PrivateKey, message, signed []byte) bool {
	sum := sha256.Sum256(message)
	return ecdsa.VerifyASN1(&key.PublicKey, sum[:], signed)
}

func TestSignaturesAreReproducible(t *testing.T) {
	key := newKey(t)
	var before []byte
	for range 2 {
		dir := released(t)
		if err := signature.Release(dir, provenance(), key); err != nil {
			t.Fatal(err)
		}
		var both []byte
		for _, name := range []string{signature.ChecksumsBundle, signature.ProvenanceBundle} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			both = append(both, text...)
		}
		if before != nil && string(before) != string(both) {
			t.Errorf("the signatures are\n%s\nand\n%s", before, both)
		}
		before = both
	}
}

func TestDamagedReleaseIsNotSigned(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(dir string)
		wantErr string
	}{
		"no checksums":  {func(dir string) { _ = os.Remove(filepath.Join(dir, "SHA256SUMS")) }, "run make release"},
		"no file":       {func(dir string) { _ = os.Remove(filepath.Join(dir, "image.tar")) }, "image.tar"},
		"another file":  {func(dir string) { write(t, filepath.Join(dir, "image.tar"), []byte("other")) }, "image.tar has SHA-256"},
		"one more file": {func(dir string) { write(t, filepath.Join(dir, "more"), nil) }, "more is not in SHA256SUMS"},
		"checksums of nothing": {func(dir string) {
			_ = os.RemoveAll(dir)
			_ = os.Mkdir(dir, 0o700)
			write(t, filepath.Join(dir, "SHA256SUMS"), nil)
		}, "is empty"},
		"checksums of other files": {func(dir string) { write(t, filepath.Join(dir, "SHA256SUMS"), []byte("00  ../x\n")) }, "want a checksum and the name"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := released(t)
			test.change(dir)
			if err := signature.Release(dir, provenance(), newKey(t)); err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
			if _, err := os.Stat(filepath.Join(dir, signature.ChecksumsBundle)); err == nil {
				t.Error("a signature was written")
			}
		})
	}
}

func TestUnpublishedKeyIsRejected(t *testing.T) {
	key, path := newKey(t), filepath.Join(t.TempDir(), "cosign.pub")
	if err := signature.CheckPublic(path, key); err != nil {
		t.Errorf("without a public key: %v", err)
	}
	for name, test := range map[string]struct {
		content []byte
		wantErr string
	}{
		"its own":   {publicOf(t, key), ""},
		"another":   {publicOf(t, newKey(t)), "does not belong to the public key"},
		"not PEM":   {[]byte("hello"), "not PEM"},
		"not a key": {[]byte("-----BEGIN PUBLIC KEY-----\naGVsbG8=\n-----END PUBLIC KEY-----\n"), path},
	} {
		write(t, path, test.content)
		err := signature.CheckPublic(path, key)
		if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
			t.Errorf("%s: %v, want %q", name, err, test.wantErr)
		}
	}
}

func publicOf(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestInvalidSigningKeysAreRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	for name, text := range map[string]string{
		"not PEM":      "hello",
		"not a key":    "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n",
		"a public key": "-----BEGIN PUBLIC KEY-----\naGVsbG8=\n-----END PUBLIC KEY-----\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := signature.ReadKey(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
