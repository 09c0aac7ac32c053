package verify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const version = "0.1.0"

// released is a release built by the workflow.
type released struct {
	clone, files string // the folder of the job that published, and its folder with the files
	revision     string
	registry     *httptest.Server
	repository   string // of the operator's image
	key, other   *ecdsa.PrivateKey
	env          []string
}

// TestWorkflowBuildsRelease runs every block of the workflow in clones of the last commit, in which CHANGELOG.md has a section for the
// version, with the whole payload. It then verifies the release as users do.
func TestWorkflowBuildsRelease(t *testing.T) {
	r := newReleased(t)
	first := filepath.Join(t.TempDir(), "first")
	tagged(t, r, first)
	run := r.runner(t, readWorkflow(t, filepath.Join(first, ".github", "workflows", "release.yaml")))
	for _, name := range run.workflow.order(t) {
		r.clone = filepath.Join(t.TempDir(), "clone-of-"+name) // of another length each time: files must not depend on it
		command(t, ".", r.env, "git", "clone", "--quiet", first, r.clone)
		run.runJob(t, name, r.clone)
	}
	r.files = filepath.Join(r.clone, "_release")
	command(t, r.files, r.env, "sha256sum", "--check", "--strict", "SHA256SUMS")
	t.Run("files", r.testFiles)
	t.Run("image", r.testImages)
	t.Run("signed files", r.testSignedFiles)
	t.Run("software bill of materials", r.testSBOM)
	t.Run("krew", r.testKrew)
	t.Run("community catalog", r.testCommunity)
}

// must ends a test that cannot continue after an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newReleased(t *testing.T) *released {
	t.Helper()
	r := &released{registry: httptest.NewTLSServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))}
	t.Cleanup(r.registry.Close)
	r.repository = strings.TrimPrefix(r.registry.URL, "https://") + "/windows-machine-config/wmco"
	for _, key := range []**ecdsa.PrivateKey{&r.key, &r.other} {
		var err error
		if *key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	authority := filepath.Join(t.TempDir(), "registry.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.registry.Certificate().Raw})
	must(t, os.WriteFile(authority, block, 0o600))
	cache, err := os.UserCacheDir()
	must(t, err)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GITHUB_") {
			r.env = append(r.env, variable)
		}
	}
	// Jobs have their own homes, so they get the caches of the user's Go and payload.
	r.env = append(r.env, "SSL_CERT_FILE="+authority, "XDG_CACHE_HOME="+cache,
		"GOCACHE="+command(t, ".", nil, "go", "env", "GOCACHE"), "GOMODCACHE="+command(t, ".", nil, "go", "env", "GOMODCACHE"))
	return r
}

// tagged creates a clone with a commit for the release and its tag.
func tagged(t *testing.T, r *released, clone string) {
	t.Helper()
	root := command(t, ".", r.env, "git", "rev-parse", "--show-toplevel")
	command(t, ".", r.env, "git", "clone", "--quiet", root, clone)
	git := func(args ...string) string {
		return command(t, clone, r.env, "git", append([]string{"-c", "user.name=Test", "-c", "user.email=test@example.com"}, args...)...)
	}
	changelog := filepath.Join(clone, "CHANGELOG.md")
	text, err := os.ReadFile(changelog)
	must(t, err)
	changed := strings.Replace(string(text), "## Unreleased\n", "## Unreleased\n\n## "+version+" - 2027-01-02\n", 1)
	must(t, os.WriteFile(changelog, []byte(changed), 0o644))
	git("commit", "--quiet", "--all", "--message", "release: "+version)
	git("tag", "--annotate", "v"+version, "--message", version)
	r.revision = git("rev-parse", "HEAD")
}

// runner simulates GitHub for these jobs, with the test registry in place of ghcr.io, and a gh that accepts any existing
// files.
func (r *released) runner(t *testing.T, w workflow) *runner {
	t.Helper()
	if !strings.HasPrefix(w.Env["REPOSITORY"], "ghcr.io/") {
		t.Fatalf("the workflow publishes to %s", w.Env["REPOSITORY"])
	}
	w.Env["REPOSITORY"] = r.repository
	programs := t.TempDir()
	const gh = `#!/bin/bash
set -eu
[ "$1 $2" != "release list" ] || exit 0 # there is none
[ "$1 $2 $3 $4" = "release create v` + version + ` --verify-tag" ]
while [ "$1" != --notes-file ]; do shift; done
shift
for file in "$@"; do [ -s "$file" ]; done
printf '%s\n' "${@:2}" > "$HOME/published"
`
	must(t, os.WriteFile(filepath.Join(programs, "gh"), []byte(gh), 0o755))
	der, err := x509.MarshalECPrivateKey(r.key)
	must(t, err)
	env := append([]string{}, r.env...)
	env = append(env, "PATH="+programs+":"+os.Getenv("PATH"), "GITHUB_REF_NAME=v"+version, "GITHUB_REPOSITORY=windows-machine-config/wmco", "GITHUB_REPOSITORY_OWNER=windows-machine-config",
		"GITHUB_SERVER_URL=https://github.com", "GITHUB_WORKFLOW_REF=windows-machine-config/wmco/.github/workflows/release.yaml@refs/tags/v"+version)
	return &runner{
		workflow: w, env: env, artifacts: t.TempDir(), attest: r.attest,
		values: map[string]string{
			"github.token": "token", "github.actor": "somebody", "env.REPOSITORY": r.repository, "vars.MAINTAINER": "Someone <someone@example.com>",
			"secrets.SIGNING_KEY": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		},
	}
}

// attest checks what GitHub would attest. It adds a statement signed with another key to the image, as GitHub would.
func (r *released) attest(t *testing.T, clone string, with map[string]string) {
	t.Helper()
	if pattern := with["subject-path"]; pattern != "" {
		files, err := filepath.Glob(filepath.Join(clone, pattern))
		if err != nil || len(files) < 10 {
			t.Errorf("attested files %q (%v)", files, err)
		}
		return
	}
	reference := r.reference(t, with["subject-name"]+"@"+with["subject-digest"])
	found, err := remote.Head(reference, remote.WithTransport(r.registry.Client().Transport))
	must(t, err)
	r.pushForeign(t, reference, *found)
}

func (r *released) reference(t *testing.T, text string) name.Reference {
	t.Helper()
	reference, err := name.ParseReference(text)
	must(t, err)
	return reference
}

// index reads an image and its platforms.
func (r *released) index(t *testing.T, reference name.Reference) (digests []v1.Hash) {
	t.Helper()
	index, err := remote.Index(reference, remote.WithTransport(r.registry.Client().Transport))
	must(t, err)
	digest, err := index.Digest()
	must(t, err)
	manifest, err := index.IndexManifest()
	must(t, err)
	digests = append(digests, digest)
	for _, m := range manifest.Manifests {
		digests = append(digests, m.Digest)
	}
	return digests
}
