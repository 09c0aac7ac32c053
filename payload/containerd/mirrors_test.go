// Package containerd_test loads the hosts.toml files of internal/shared/mirrors into the pinned containerd, and records the
// hosts that it contacts for an image. It proves what internal/shared/mirrors assumes about containerd.
package containerd_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	goldenFiles = "../../internal/shared/mirrors/testdata"
	registries  = "k/containerd/registries"
	imageDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	// wicd is WICD's registry, as the golden files name it.
	wicd = "127.0.0.1:10280"
	// containerds is the subject of the certificate that containerd presents to WICD.
	containerds = "containerd"
)

// pulls returns images and the hosts that containerd contacts for them: WICD, if configured, and then the registry, if
// allowed.
func pulls() []pull {
	const only = wicd
	return []pull{
		{"documents", "registry.access.redhat.com/ubi9/ubi-minimal", wicd + " registry.access.redhat.com"},
		{"documents", "registry.redhat.io/app", only},
		{"documents", "docker-mirror.internal/app", wicd + " docker-mirror.internal"},
		// A registry that is not mentioned is unaffected.
		{"documents", "gcr.io/team/app", "gcr.io"},

		{"sources", "mcr.microsoft.com/oss/pause", wicd + " mcr.microsoft.com"},
		{"sources", "registry.example.com:5000/app", only},
		{"sources", "registry.example.com/app", "registry.example.com"},
		{"sources", "[fd00::1]:5000/x/app", wicd + " [fd00::1]:5000"},
		{"sources", "localhost:5000/app", wicd + " localhost:5000"},
		{"sources", "docker.io/library/nginx", wicd + " registry-1.docker.io"},

		{"wildcards", "a.example.com/app", wicd + " a.example.com"},
		{"wildcards", "gcr.io/app", wicd + " gcr.io"}, // containerd has no wildcards: WICD answers that it may be contacted
		{"wildcards", "quay.io/app", only},
		{"closed-wildcard", "b.example.com/app", only},
		{"closed-wildcard", "a.example.com/app", wicd + " a.example.com"},
		{"closed-wildcard", "quay.io/app", wicd + " quay.io"},
		{"closed-wildcard", "gcr.io/app", only},

		{"allowed", "quay.io/app", wicd + " quay.io"},
		{"allowed", "gcr.io/app", only},
		{"allowed", "registry.redhat.io/app", only},
		{"allowed", "docker-mirror.internal/app", only},
		{"allowed", "registry.access.redhat.com/ubi9/ubi-minimal", only},
		{"blocked", "quay.io/app", only},
		{"blocked", "part.test/y/app", only},
		{"blocked", "bad.test/app", only},
		{"refused", "gcr.io/team", only},
		{"refused", "ghcr.io/team", only},
		{"refused", "nvcr.io/team", only},

		// Insecure registries are tried with TLS first.
		{"insecure", "mcr.microsoft.com/app", wicd + " mcr.microsoft.com"},
		{"insecure", "plain.test:5000/app", wicd + " plain.test:5000"},
		{"insecure", "docker.io/library/nginx", wicd + " registry-1.docker.io"},
		{"insecure", "part.test/x", wicd + " part.test"},
		{"insecure", "gcr.io/app", wicd + " gcr.io"},
		{"pull-secret", "m.example.com/app", "m.example.com"},
	}
}

type pull struct{ golden, image, want string }

func TestMain(m *testing.M) {
	if err := log.SetLevel("error"); err != nil { // it logs every host that has nothing
		panic(err)
	}
	os.Exit(m.Run())
}

func TestContainerdContactsConfiguredHosts(t *testing.T) {
	for _, p := range pulls() {
		t.Run(p.golden+" "+p.image, func(t *testing.T) {
			root := place(t, p.golden)
			for _, what := range []string{"@" + imageDigest, ":v1"} {
				if got := contactedHosts(t, root, p.image+what, "manifests"); got != p.want {
					t.Errorf("resolving %s contacts %s, want %s", what, got, p.want)
				}
			}
			if got := contactedHosts(t, root, p.image+":v1", "blobs"); got != p.want {
				t.Errorf("fetching a layer contacts %s, want %s", got, p.want)
			}
		})
	}
}

// TestEveryGoldenFileIsTested also shows that containerd finds and can read each file: it ignores a file that it cannot
// read, and contacts the source.
func TestEveryGoldenFileIsTested(t *testing.T) {
	untried := map[string]bool{}
	err := filepath.WalkDir(goldenFiles, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "hosts.toml" && filepath.Base(filepath.Dir(path)) != "_default" {
			untried[filepath.Dir(path)] = true
		}
		return err
	})
	if err != nil || len(untried) == 0 {
		t.Fatalf("%d golden files, %v", len(untried), err)
	}
	for _, p := range pulls() {
		host, _, _ := strings.Cut(p.image, "/")
		delete(untried, filepath.Join(goldenFiles, p.golden, registries, onWindows(host)))
	}
	for path := range untried {
		t.Errorf("no pull in the table reads %s", path)
	}
}

// onWindows returns the folder name that config_windows.go and hostDirectory of containerd derive from a host; it is
// not used on Windows.
func onWindows(host string) string {
	if i := strings.LastIndex(host, ":"); i > 0 {
		host = host[:i] + "_" + host[i+1:] + "_"
	}
	return strings.ReplaceAll(host, ":", "")
}

// place copies a golden folder to use as containerd's config_path, with certificates where the files name them. On Linux,
// the folder name of an IPv6 address has colons.
func place(t *testing.T, golden string) string {
	t.Helper()
	root, err := os.MkdirTemp("", "mirrors-test-") // Wine fails when Go removes a whole folder, so t.TempDir cannot be used
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, root) })
	certificate, client := filepath.Join(root, "wicd.crt"), filepath.Join(root, "client.pem")
	text, err := os.ReadFile(filepath.Join(goldenFiles, "ca.pem"))
	if err := errors.Join(err, os.WriteFile(certificate, text, 0o644), os.WriteFile(client, newPair(t), 0o600)); err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir(filepath.Join(goldenFiles, golden, registries))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, f := range folders {
		hosts, err := os.ReadFile(filepath.Join(goldenFiles, golden, registries, f.Name(), "hosts.toml"))
		if err != nil {
			t.Fatal(err)
		}
		name := f.Name()
		if runtime.GOOS != "windows" {
			name = strings.Replace(name, "[fd001]", "[fd00::1]", 1)
		}
		paths := strings.NewReplacer(`C:\k\containerd\wicd.crt`, certificate, `C:\k\containerd\client.pem`, client)
		write(t, filepath.Join(root, name), paths.Replace(string(hosts)))
	}
	return root
}

// newPair returns a self-signed certificate followed by its key, as WICD writes them for containerd.
func newPair(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: containerds}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
}

func write(t *testing.T, folder, hosts string) {
	t.Helper()
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "hosts.toml"), []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
}

func removeAll(t *testing.T, root string) {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	slices.Reverse(all)
	for _, path := range all {
		if err == nil {
			err = os.Remove(path)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// contactedHosts returns the hosts that containerd contacts for a part of an image when all answer that it does not exist. WICD must
// see containerd's certificate and the registry of the image, and no other host may see the certificate.
func contactedHosts(t *testing.T, root, image, part string) string {
	t.Helper()
	var all []string
	registry, _, _ := strings.Cut(image, "/")
	network := network(func(r *http.Request) *http.Response {
		isWICD := r.URL.Host == wicd
		if got := clientOf(r); got != map[bool]string{true: containerds}[isWICD] {
			t.Errorf("%s received the certificate of %q", r.URL.Host, got)
		}
		if ns := r.URL.Query().Get("ns"); isWICD && (ns != registry || r.URL.Scheme != "https") {
			t.Errorf("WICD received %s", r.URL)
		}
		if strings.Contains(r.URL.Path, "/"+part+"/") {
			all = append(all, r.URL.Host)
		}
		return answer(r, http.StatusNotFound, "")
	})
	resolver := network.resolver(root, "")
	var err error
	if part == "manifests" {
		_, _, err = resolver.Resolve(t.Context(), image)
	} else {
		err = fetch(t.Context(), resolver, image)
	}
	if err == nil {
		t.Errorf("%s: found, although no registry has it", image)
	}
	return strings.Join(slices.Compact(all), " ")
}

func fetch(ctx context.Context, resolver remotes.Resolver, image string) error {
	fetcher, err := resolver.Fetcher(ctx, image)
	if err != nil {
		return err
	}
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.Digest(imageDigest), Size: 1}
	content, err := fetcher.Fetch(ctx, layer)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(io.Discard, content)
	return err
}

// network answers all requests of containerd.
type network func(*http.Request) *http.Response

// transport replaces one of containerd's transports, and passes its certificates to the network.
type transport struct {
	network
	was *http.Transport
}

type ofClient struct{}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.network(r.WithContext(context.WithValue(r.Context(), ofClient{}, t.was.TLSClientConfig.Certificates))), nil
}

// clientOf returns the subject of the client certificates in a request.
func clientOf(r *http.Request) string {
	var subjects []string
	certificates, _ := r.Context().Value(ofClient{}).([]tls.Certificate)
	for _, c := range certificates {
		subjects = append(subjects, c.Leaf.Subject.CommonName)
	}
	return strings.Join(subjects, " ")
}

// resolver returns a resolver like that of containerd's CRI (internal/cri/server/images/image_pull.go and
// core/transfer/registry): any host that requests a password gets the one that the kubelet found for the image.
func (n network) resolver(root, password string) remotes.Resolver {
	return docker.NewResolver(docker.ResolverOptions{Hosts: config.ConfigureHosts(context.Background(), config.HostOptions{
		HostDir: config.HostDirFromRoot(root),
		Credentials: func(string) (string, string, error) {
			if password == "" {
				return "", "", nil
			}
			return "source", password, nil
		},
		UpdateClient: func(c *http.Client) error {
			before, ok := c.Transport.(*http.Transport)
			if !ok {
				return fmt.Errorf("containerd's transport is a %T", c.Transport)
			}
			c.Transport = transport{n, before}
			return nil
		},
	})})
}

func answer(r *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Request: r,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// TestWICDMessageIsReported: containerd repeats a HEAD request as GET to get the message.
func TestWICDMessageIsReported(t *testing.T) {
	network := network(func(r *http.Request) *http.Response {
		return answer(r, http.StatusForbidden, `{"errors": [{"code": "DENIED", "message": "quay.io is blocked"}]}`, "Content-Type", "application/json")
	})
	root := place(t, "blocked")
	if _, _, err := network.resolver(root, "").Resolve(t.Context(), "quay.io/app:1"); err == nil || !strings.Contains(err.Error(), "quay.io is blocked") {
		t.Errorf("containerd returned %v", err)
	}
}

// TestWICDReceivesPodCredentials expects containerd to send them when WICD answers that the source requires some.
func TestWICDReceivesPodCredentials(t *testing.T) {
	isAsked := false
	network := network(func(r *http.Request) *http.Response {
		user, password, _ := r.BasicAuth()
		switch {
		case clientOf(r) != containerds:
			t.Error("WICD did not receive containerd's certificate")
		case user != "source" || password != "pw":
			isAsked = true
			return answer(r, http.StatusUnauthorized, "", "WWW-Authenticate", `Basic realm="quay.io"`)
		}
		return answer(r, http.StatusOK, "", "Docker-Content-Digest", imageDigest, "Content-Type", ocispec.MediaTypeImageManifest)
	})
	if _, _, err := network.resolver(place(t, "blocked"), "pw").Resolve(t.Context(), "quay.io/app:1"); err != nil || !isAsked {
		t.Errorf("%t, %v", isAsked, err)
	}
}

// TestContainerdFallsBackToSource tests the file for a registry that must not be contacted directly. containerd continues with the
// source if the file names no server, as the published example for NeverContactSource does, or cannot be read; and it
// fetches content from a server that cannot pull.
func TestContainerdFallsBackToSource(t *testing.T) {
	const (
		mirror     = "[host.\"https://m.example.com\"]\ncapabilities = [\"pull\"]\n"
		pushSource = "server = \"https://quay.io\"\ncapabilities = [\"push\"]\n"
	)
	for name, test := range map[string]struct{ file, resolve, content string }{
		"no server":                    {mirror, "m.example.com quay.io", "m.example.com quay.io"},
		"a table twice":                {mirror + mirror, "quay.io", "quay.io"},
		"a server that cannot pull":    {pushSource + mirror, "m.example.com", "m.example.com quay.io"},
		"the mirror itself the server": {"server = \"https://m.example.com\"\ncapabilities = [\"pull\"]\n", "m.example.com", "m.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			root := place(t, "pull-secret")
			write(t, filepath.Join(root, "quay.io"), test.file)
			if got := contactedHosts(t, root, "quay.io/app@"+imageDigest, "manifests"); got != test.resolve {
				t.Errorf("resolving contacts %s, want %s", got, test.resolve)
			}
			if got := contactedHosts(t, root, "quay.io/app@"+imageDigest, "blobs"); got != test.content {
				t.Errorf("fetching a layer contacts %s, want %s", got, test.content)
			}
		})
	}
}
