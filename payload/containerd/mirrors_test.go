// Package containerd_test gives the golden files of internal/mirrors to the containerd that is pinned here, and watches
// whom it asks for an image. What internal/mirrors says of containerd is proved here.
package containerd_test

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
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
	goldenFiles = "../../internal/mirrors/testdata"
	registries  = "k/containerd/registries"
	imageDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// pulls are images, and in which order containerd asks whom for them, by digest and by tag, until somebody has them:
// URL of the repository, and the Authorization that goes with it. Nobody has them here.
func pulls() []pull {
	const (
		basic = " Basic "
		none  = ""
	)
	both := func(golden, image string, asked ...string) pull { return pull{golden, image, asked, asked} }
	return []pull{
		// A tag is requested only from mirrors with resolve; the source comes last.
		{"digests-and-tags", "mcr.microsoft.com/oss/pause",
			[]string{"https://second.example.com/v2/copies/oss/pause", "https://first.example.com:5000/v2/oss/pause", "https://third.example.com/v2/oss/pause", "https://mcr.microsoft.com/v2/oss/pause"},
			[]string{"https://first.example.com:5000/v2/oss/pause", "https://third.example.com/v2/oss/pause", "https://mcr.microsoft.com/v2/oss/pause"}},
		{"digests-and-tags", "quay.io/team/app",
			[]string{"https://first.example.com:5000/v2/team/quay/team/app", "https://third.example.com/v2/team/app", "https://quay.io/v2/team/app"},
			[]string{"https://quay.io/v2/team/app"}},
		// A registry that is not mentioned is as it was.
		both("digests-and-tags", "gcr.io/team/app", "https://gcr.io/v2/team/app"),

		// NeverContactSource: no request goes to the source, and with mirrors only for digests a tag is not found.
		{"never", "registry.example.com/app", []string{"https://first.example.com/v2/x/app", "https://second.example.com/v2/app"}, nil},
		{"never", "mcr.microsoft.com/oss/pause",
			[]string{"https://first.example.com/v2/mcr/oss/pause", "https://second.example.com/v2/mcr/oss/pause"},
			[]string{"https://second.example.com/v2/mcr/oss/pause"}},
		both("never", "blocked.example.com/app"),
		{"never-wins", "quay.io/team/app", []string{"https://m.example.com/v2/quay/team/app"}, nil},

		// What cannot be expressed is pulled from the source, unless that must never be contacted.
		both("conflict", "quay.io/a", "https://quay.io/v2/a"),
		both("conflict", "gcr.io/a"),
		{"conflict", "ghcr.io/a", []string{"https://m.example.com/v2/a", "https://ghcr.io/v2/a"}, []string{"https://ghcr.io/v2/a"}},
		both("refused", "registry.example.com/app"),
		both("refused", "gcr.io/team"),
		both("refused", "nvcr.io/team"),
		{"refused", "ghcr.io/team/image", []string{"https://m.example.com/v2/copies/team/image", "https://ghcr.io/v2/team/image"}, []string{"https://ghcr.io/v2/team/image"}},

		// Ports, in sources and mirrors.
		both("ports", "registry.example.com:5000/app", "https://m.example.com:8443/v2/copies/app"),
		both("ports", "registry.example.com/app", "https://registry.example.com/v2/app"),
		both("ports", "localhost:5000/app", "https://m.example.com/v2/app", "https://localhost:5000/v2/app"),
		both("ports", "[fd00::1]:5000/x/app", "https://[fd00::2]:5000/v2/x/app", "https://[fd00::1]:5000/v2/x/app"),

		// Docker Hub, as source and as mirror.
		both("docker-hub", "docker.io/library/nginx", "https://m.example.com/v2/hub/library/nginx", "https://registry-1.docker.io/v2/library/nginx"),
		{"docker-hub", "docker-mirror.internal/app",
			[]string{"https://registry-1.docker.io/v2/app" + basic + "aHViOnB3", "https://docker-mirror.internal/v2/app"},
			[]string{"https://docker-mirror.internal/v2/app"}},

		// Plain http if configured, and a readable CA.
		both("http-and-ca", "mcr.microsoft.com/app", "http://plain.example.com:5000/v2/app", "https://private.example.com/v2/mcr/app", "https://mcr.microsoft.com/v2/app"),

		// Mirrors get their own credentials; the source, last and among its own mirrors, gets none from the file.
		{"credentials", "quay.io/team/app",
			[]string{"https://m.example.com/v2/x/team/app" + basic + "dGVhbS14OnAidycK", "https://quay.io/v2/team/app" + none, "https://quay.io/v2/copies/team/app" + basic + "c291cmNlOnB3",
				"https://anyone.example.com/v2/team/app" + none, "https://quay.io/v2/team/app" + none},
			[]string{"https://quay.io/v2/team/app" + none}},
		{"credentials", "mcr.microsoft.com/app", []string{"https://m.example.com/v2/y/app" + basic + "aG9zdDpwdw==", "https://m.example.com:5000/v2/app" + basic + "cG9ydDpwdw=="}, nil},
		{"credentials", "gcr.io/app", []string{"https://token.example.com/v2/app", "https://wild.example.com/v2/app", "https://gcr.io/v2/app"}, []string{"https://gcr.io/v2/app"}},
		{"organizations", "mcr.microsoft.com/a",
			[]string{"https://m.example.com/v2/x/a" + none, "https://n.example.com/v2/a" + basic + "bjpwdw==", "https://mcr.microsoft.com/v2/a"},
			[]string{"https://mcr.microsoft.com/v2/a"}},
		{"organizations", "quay.io/only", []string{"https://o.example.com/v2/x/only" + none, "https://quay.io/v2/only"}, []string{"https://quay.io/v2/only"}},
		{"malformed-secret", "quay.io/app", []string{"https://m.example.com/v2/app" + none, "https://quay.io/v2/app"}, []string{"https://quay.io/v2/app"}},
		{"malformed-entries", "quay.io/app", []string{"https://m.example.com/v2/app" + basic + "bTpwdw==", "https://quay.io/v2/app"}, []string{"https://quay.io/v2/app"}},
	}
}

type pull struct {
	golden, image   string
	byDigest, byTag []string
}

func TestMain(m *testing.M) {
	if err := log.SetLevel("error"); err != nil { // it tells of every host that has nothing
		panic(err)
	}
	os.Exit(m.Run())
}

func TestContainerdAsksWhomTheMirrorSetsName(t *testing.T) {
	for _, p := range pulls() {
		t.Run(p.golden+" "+p.image, func(t *testing.T) {
			root := place(t, p.golden)
			expect(t, "resolving a digest", asked(t, root, p.image+"@"+imageDigest, "manifests"), p.byDigest)
			expect(t, "resolving a tag", asked(t, root, p.image+":v1", "manifests"), p.byTag)
			// Content is fetched by digest, whatever was named.
			content := asked(t, root, p.image+":v1", "blobs")
			expect(t, "fetching a layer", content, p.byDigest)
			source, _, _ := strings.Cut(p.image, "/")
			if hosts, err := os.ReadFile(filepath.Join(goldenFiles, p.golden, registries, onWindows(source), "hosts.toml")); err == nil &&
				strings.HasPrefix(string(hosts), "# NeverContactSource") && strings.Contains(strings.Join(content, " "), "//"+source+"/") {
				t.Errorf("the source was contacted: %v", content)
			}
		})
	}
}

// TestEveryGoldenFileIsTried also shows that containerd finds each file where it is, and can read it: one that it
// cannot read it ignores, and asks the source.
func TestEveryGoldenFileIsTried(t *testing.T) {
	untried := map[string]bool{}
	err := filepath.WalkDir(goldenFiles, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "hosts.toml" {
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
	for path := range maps.Keys(untried) {
		t.Errorf("no pull in the table reads %s", path)
	}
}

// onWindows is what config_windows.go and hostDirectory of containerd make of a host; on Windows it is not used.
func onWindows(host string) string {
	if i := strings.LastIndex(host, ":"); i > 0 {
		host = host[:i] + "_" + host[i+1:] + "_"
	}
	return strings.ReplaceAll(host, ":", "")
}

// place gives a golden folder as containerd's config_path. On Linux the folder of an IPv6 address has colons.
func place(t *testing.T, golden string) string {
	t.Helper()
	from := filepath.Join(goldenFiles, golden, registries)
	if runtime.GOOS == "windows" {
		return from
	}
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(from)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for linux, windows := range map[string]string{"[fd00::1]_5000_": "[fd001]_5000_"} {
		if err := os.Rename(filepath.Join(root, windows), filepath.Join(root, linux)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return root
}

// asked is whom containerd asks for a part of an image when everybody answers that it is not there.
func asked(t *testing.T, root, image, part string) []string {
	t.Helper()
	var all []string
	network := network(func(r *http.Request) *http.Response {
		repository, what, _ := strings.Cut(r.URL.Path, "/"+part+"/")
		if what != "" {
			all = append(all, strings.TrimSpace(r.URL.Scheme+"://"+r.URL.Host+repository+" "+strings.Join(authorization(r), " and ")))
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
		t.Errorf("%s: found, though nobody has it", image)
	}
	return slices.Compact(all)
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

func (n network) RoundTrip(r *http.Request) (*http.Response, error) { return n(r), nil }

// resolver is as that of containerd's CRI (internal/cri/server/images/image_pull.go and core/transfer/registry): what the
// kubelet found for the image is given to any host that asks for a password.
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
			c.Transport = n
			return nil
		},
	})})
}

// authorization are all values of the header, however it is spelled.
func authorization(r *http.Request) []string {
	var all []string
	for name, values := range r.Header {
		if strings.EqualFold(name, "Authorization") {
			all = append(all, values...)
		}
	}
	return all
}

func answer(r *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Request: r,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: asked\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestWhoComesAfterTheMirrors holds what makes a file for NeverContactSource as it is. containerd goes on to the source
// where the file names no server, as the published example for NeverContactSource does, and where it cannot be read; and
// it fetches content from a server that cannot pull.
func TestWhoComesAfterTheMirrors(t *testing.T) {
	const (
		mirror     = "[host.\"https://m.example.com\"]\ncapabilities = [\"pull\"]\n"
		pushSource = "server = \"https://quay.io\"\ncapabilities = [\"push\"]\n"
		fromMirror = "https://m.example.com/v2/app"
		fromSource = "https://quay.io/v2/app"
	)
	tests := map[string]struct {
		file             string
		resolve, content []string
	}{
		"no server":                    {mirror, []string{fromMirror, fromSource}, []string{fromMirror, fromSource}},
		"a table twice":                {mirror + mirror, []string{fromSource}, []string{fromSource}},
		"a server that cannot pull":    {pushSource + mirror, []string{fromMirror}, []string{fromMirror, fromSource}},
		"nobody who can pull":          {pushSource, nil, nil},
		"the mirror itself the server": {"server = \"https://m.example.com\"\ncapabilities = [\"pull\"]\n", []string{fromMirror}, []string{fromMirror}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := hostsFile(t, test.file)
			expect(t, "resolving", asked(t, root, "quay.io/app@"+imageDigest, "manifests"), test.resolve)
			expect(t, "fetching a layer", asked(t, root, "quay.io/app@"+imageDigest, "blobs"), test.content)
		})
	}
}

// hostsFile makes a config_path with one file, for quay.io.
func hostsFile(t *testing.T, content string) (root string) {
	t.Helper()
	root, err := os.MkdirTemp("", "mirrors-test-") // Wine refuses how Go removes a whole folder, so t.TempDir does not do
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "quay.io")
	file := filepath.Join(folder, "hosts.toml")
	t.Cleanup(func() {
		for _, name := range []string{file, folder, root} {
			if err := os.Remove(name); err != nil {
				t.Error(err)
			}
		}
	})
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

// tokenMirror is m.example.com as a registry that wants a token; mirror:pw gets one. It notes what it is sent.
type tokenMirror struct{ sent []string }

func (m *tokenMirror) answer(r *http.Request) *http.Response {
	credentials := strings.Join(authorization(r), " and ")
	switch {
	case r.URL.Host == "auth.example.com":
		user, password, _ := r.BasicAuth()
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			form, _ := url.ParseQuery(string(body))
			user, password = form.Get("username"), form.Get("password")
		}
		m.sent = append(m.sent, r.Method+" "+user+":"+password)
		if user == "mirror" && password == "pw" {
			return answer(r, http.StatusOK, `{"token": "granted"}`, "Content-Type", "application/json")
		}
		return answer(r, http.StatusUnauthorized, "")
	case credentials == "Bearer granted":
		return answer(r, http.StatusOK, "", "Docker-Content-Digest", imageDigest, "Content-Type", ocispec.MediaTypeImageManifest)
	}
	m.sent = append(m.sent, credentials)
	return answer(r, http.StatusUnauthorized, "", "WWW-Authenticate", `Bearer realm="https://auth.example.com/token",service="m.example.com"`)
}

const tokenFile = `server = "https://m.example.com/v2/x"
capabilities = ["pull"]
override_path = true
[header]
Authorization = "Basic bWlycm9yOnB3"
`

func pullFromTokenMirror(t *testing.T, file, password string) ([]string, error) {
	t.Helper()
	var mirror tokenMirror
	_, _, err := network(mirror.answer).resolver(hostsFile(t, file), password).Resolve(t.Context(), "quay.io/app@"+imageDigest)
	return mirror.sent, err
}

func TestAMirrorThatWantsATokenGivesItForItsOwnCredentials(t *testing.T) {
	sent, err := pullFromTokenMirror(t, tokenFile, "")
	if err != nil {
		t.Error(err)
	}
	expect(t, "sent", sent, []string{"Basic bWlycm9yOnB3", "GET mirror:pw"})
}

// TestTheHeaderIsSpelledAsGoSpellsIt: in any other spelling it stays beside the token, and no registry takes both.
func TestTheHeaderIsSpelledAsGoSpellsIt(t *testing.T) {
	if _, err := pullFromTokenMirror(t, strings.Replace(tokenFile, "Authorization", "authorization", 1), ""); err == nil {
		t.Error("containerd replaces the header in any spelling; internal/mirrors need not care any more")
	}
}

// TestTheSourcesCredentialsGoToAMirrorThatWantsAToken holds the limit that internal/mirrors reports as
// SourceCredentialsSent: with credentials for the source the mirror's own do not count, and the pull fails.
func TestTheSourcesCredentialsGoToAMirrorThatWantsAToken(t *testing.T) {
	sent, err := pullFromTokenMirror(t, tokenFile, "secret-of-the-source")
	if err == nil {
		t.Error("containerd keeps them apart; internal/mirrors need not report it any more")
	}
	expect(t, "sent", sent, []string{"Basic bWlycm9yOnB3", "POST source:secret-of-the-source", "GET source:secret-of-the-source"})
}
