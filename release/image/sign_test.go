package image_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/windows-machine-config/wmco/release/image"
	"github.com/windows-machine-config/wmco/release/image/imagetest"
	"github.com/windows-machine-config/wmco/release/signature"
)

// TestSkopeoVerifiesSignatures pulls a signed image with skopeo, which verifies as CRI-O and podman do.
func TestSkopeoVerifiesSignatures(t *testing.T) {
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Skip("SKIPPED: skopeo is not installed")
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/wmco"
	keyFile, public := newKey(t)
	_, other := newKey(t)
	index := mustBuild(t, imagetest.NewSource(t))
	if _, err := image.Push(t.Context(), repository+":dev", true, index); err != nil {
		t.Fatal(err)
	}
	if out, err := pull(t, repository, public); err == nil || !strings.Contains(out, "signature") {
		t.Fatalf("an image without a signature was pulled (%v): %s", err, out)
	}
	key, err := signature.ReadKey(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := image.Sign(t.Context(), repository+":dev", true, index, key, imagetest.NewSource(t).Provenance("https://example.com/builder")); err != nil {
		t.Fatal(err)
	}
	out, err := pull(t, repository, public)
	if strings.Contains(out, "sigstore disabled") {
		t.Skip("SKIPPED: skopeo of Debian does not verify these signatures")
	}
	if err != nil {
		t.Errorf("the signed image was not pulled: %v: %s", err, out)
	}
	if out, err := pull(t, repository, other); err == nil {
		t.Errorf("the image was pulled with another key: %s", out)
	}
}

// TestEachImageIsSigned verifies what Sign pushes for the index, and for the image of each platform.
func TestEachImageIsSigned(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/wmco"
	keyFile, _ := newKey(t)
	key, err := signature.ReadKey(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	index := mustBuild(t, imagetest.NewSource(t))
	if _, err := image.Push(t.Context(), repository+":dev", true, index); err != nil {
		t.Fatal(err)
	}
	if err := image.Sign(t.Context(), repository+":dev", true, index, key, imagetest.NewSource(t).Provenance("https://example.com/builder")); err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	digests := []string{digest(t, index).String()}
	for _, m := range manifest.Manifests {
		digests = append(digests, m.Digest.String())
	}
	for _, d := range digests {
		claim, signature := signatureOf(t, repository, d)
		if sum := sha256.Sum256(claim); !ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature) {
			t.Errorf("the signature of %s was not made with this key", d)
		}
		if !strings.Contains(string(claim), `"docker-manifest-digest":"`+d+`"`) || !strings.Contains(string(claim), `"docker-reference":"`+repository+`"`) {
			t.Errorf("the signature of %s claims %s", d, claim)
		}
		checkStatements(t, repository, d)
	}
}

// checkStatements checks the two statements about a manifest. release/verify tests that cosign verifies them.
func checkStatements(t *testing.T, repository, d string) {
	t.Helper()
	reference, err := name.NewDigest(repository+"@"+d, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(reference)
	if err != nil {
		t.Fatal(err)
	}
	list, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, m := range list.Manifests {
		img, err := remote.Image(reference.Context().Digest(m.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := img.Manifest()
		if err != nil || m.ArtifactType != signature.BundleType || manifest.Subject == nil || manifest.Subject.Digest.String() != d {
			t.Errorf("a referrer of %s is %+v with manifest %+v (%v)", d, m, manifest, err)
		}
		types = append(types, manifest.Annotations["dev.sigstore.bundle.predicateType"])
	}
	slices.Sort(types)
	if want := []string{"https://sigstore.dev/cosign/sign/v1", signature.ProvenanceType}; !slices.Equal(types, want) {
		t.Errorf("the statements about %s are of types %q, want %q", d, types, want)
	}
}

// signatureOf reads the signature of a manifest in the format of cosign.
func signatureOf(t *testing.T, repository, d string) (claim, signature []byte) {
	t.Helper()
	reference, err := name.ParseReference(repository+":"+strings.Replace(d, ":", "-", 1)+".sig", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(reference)
	if err != nil {
		t.Fatal(err)
	}
	m, err := img.Manifest()
	if err != nil || len(m.Layers) != 1 {
		t.Fatalf("the signature has manifest %+v (%v)", m, err)
	}
	layer, err := img.LayerByDigest(m.Layers[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	content, err := layer.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if claim, err = io.ReadAll(content); err != nil {
		t.Fatal(err)
	}
	if signature, err = base64.StdEncoding.DecodeString(m.Layers[0].Annotations["dev.cosignproject.cosign/signature"]); err != nil {
		t.Fatal(err)
	}
	return claim, signature
}

// newKey writes a key pair to files.
func newKey(t *testing.T) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	open, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "key.pem"), filepath.Join(dir, "public.pem")
	for path, block := range map[string]*pem.Block{private: {Type: "EC PRIVATE KEY", Bytes: secret}, public: {Type: "PUBLIC KEY", Bytes: open}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, public
}

// pull pulls with a policy that requires a signature by the key.
func pull(t *testing.T, repository, public string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	policy := fmt.Sprintf(`{"default": [{"type": "reject"}], "transports": {"docker": {%q: [{"type": "sigstoreSigned", "keyPath": %q, "signedIdentity": {"type": "matchRepository"}}]}}}`, repository, public)
	attachments := "default-docker: {use-sigstore-attachments: true}\n"
	for name, content := range map[string]string{"policy.json": policy, "registries.d/default.yaml": attachments} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "skopeo", "--policy", filepath.Join(dir, "policy.json"), "--registries.d", filepath.Join(dir, "registries.d"),
		"copy", "--src-tls-verify=false", "docker://"+repository+":dev", "dir:"+filepath.Join(dir, "pulled")).CombinedOutput()
	return string(out), err
}
