package windowsimage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// registry answers by path, and records requests.
type registry struct {
	answers  map[string]string
	requests []string
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.requests = append(r.requests, q.URL.Path)
	text, found := r.answers[q.URL.Path]
	if !found {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write([]byte(text))
}

// reader returns a reader for which a handler serves registry r.test. Other connections fail.
func reader(t *testing.T, h http.Handler, table mirrors.Table) *Reader {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	table.Sources = append(table.Sources, mirrors.Source{Prefix: "r.test", Insecure: true})
	c := registryclient.New(registryclient.Options{Agent: "test", Check: Guard{}.Check, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "r.test:80" { // the first attempt uses TLS
			return nil, fmt.Errorf("connecting to %s is not expected", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}})
	r := New(c, table, NewMemory())
	r.timeout = 2 * time.Second
	return r
}

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

func index(entries ...string) string { return `{"manifests": [` + strings.Join(entries, ",") + `]}` }

func platformOf(os, version string) string {
	return fmt.Sprintf(`{"digest": "x", "platform": {"os": %q, "os.version": %q, "architecture": "amd64"}}`, os, version)
}

func nested(os string) string {
	return fmt.Sprintf(`{"digest": "x", "mediaType": %q, "platform": {"os": %q}}`, indexType, os)
}

func TestImageBuildsAreDetected(t *testing.T) {
	const tag = "/v2/a/manifests/1"
	single := func(config string) map[string]string {
		return map[string]string{tag: `{"config": {"digest": "` + digestOf(config) + `"}}`, "/v2/a/blobs/" + digestOf(config): config}
	}
	tampered := single(`{"os": "windows", "os.version": "10.0.20348.1"}`)
	for path := range tampered {
		if path != tag {
			tampered[path] = `{"os": "windows", "os.version": "10.0.17763.1"}`
		}
	}
	for name, test := range map[string]struct {
		answers  map[string]string
		want     windowsbuild.Image
		fails    string
		requests int
	}{
		"index": {map[string]string{tag: index(platformOf("windows", "10.0.20348.2402"), platformOf("linux", ""), platformOf("windows", "10.0.17763.1"), platformOf("windows", "10.0.20348.1"))},
			windowsbuild.Image{Builds: []windowsbuild.Build{17763, 20348}}, "", 1},
		"for Linux":                                {map[string]string{tag: index(platformOf("linux", ""))}, windowsbuild.Image{}, "", 1},
		"for ARM":                                  {map[string]string{tag: strings.ReplaceAll(index(platformOf("windows", "10.0.20348.1")), "amd64", "arm64")}, windowsbuild.Image{}, "", 1},
		"index in an index":                        {map[string]string{tag: index(platformOf("windows", "10.0.20348.1"), nested(""))}, windowsbuild.Image{}, "contains another index", 1},
		"index of itself":                          {map[string]string{tag: index(nested("windows"))}, windowsbuild.Image{}, "contains another index", 1},
		"index for Linux in an index":              {map[string]string{tag: index(platformOf("windows", "10.0.20348.1"), nested("linux"))}, windowsbuild.Image{Builds: []windowsbuild.Build{20348}}, "", 1},
		"an empty index":                           {map[string]string{tag: index()}, windowsbuild.Image{}, "", 1},
		"image in the index without a version":     {map[string]string{tag: index(platformOf("windows", ""))}, windowsbuild.Image{Any: true}, "", 1},
		"invalid versions":                         {map[string]string{tag: index(platformOf("windows", "10.0.20348; rm"), platformOf("windows", "99.0.20348"))}, windowsbuild.Image{}, "", 1},
		"single image":                             {single(`{"os": "windows", "os.version": "10.0.17763.3287"}`), windowsbuild.Image{Builds: []windowsbuild.Build{17763}}, "", 2},
		"single image for Linux":                   {single(`{"os": "linux"}`), windowsbuild.Image{}, "", 2},
		"single image without a version":           {single(`{"os": "windows"}`), windowsbuild.Image{Any: true}, "", 2},
		"single image with an invalid version":     {single(`{"os": "windows", "os.version": "ltsc2022"}`), windowsbuild.Image{}, "is not a version", 2},
		"single image without an operating system": {single(`{}`), windowsbuild.Image{}, "names no operating system", 2},
		"digest mismatch":                          {tampered, windowsbuild.Image{}, "does not match its digest", 2},
		"no tag":                                   {nil, windowsbuild.Image{}, "not found", 1},
		"no manifest":                              {map[string]string{tag: `{"config": {"digest": "../../x"}}`}, windowsbuild.Image{}, "not an image manifest", 1},
		"no JSON":                                  {map[string]string{tag: "<html>"}, windowsbuild.Image{}, "reading the manifest", 1},
		"manifests are not a list":                 {map[string]string{tag: `{"manifests": {}}`}, windowsbuild.Image{}, "not an image manifest", 1},
		"10 MB":                                    {map[string]string{tag: strings.Repeat(" ", 10<<20)}, windowsbuild.Image{}, "response is too large", 1},
		"2 MB of settings":                         {single(`{"os": "windows", "x": "` + strings.Repeat("x", 2<<20) + `"}`), windowsbuild.Image{}, "response is too large", 2},
		"too many parts":                           {map[string]string{tag: index(slices.Repeat([]string{platformOf("windows", "10.0.20348.1")}, maxEntries+1)...)}, windowsbuild.Image{}, "more than 256 entries", 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := &registry{answers: test.answers}
			got, err := reader(t, h, mirrors.Table{}).Read(t.Context(), "r.test/a:1")
			mismatch := test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails))
			if mismatch || got.Any != test.want.Any || !slices.Equal(got.Builds, test.want.Builds) {
				t.Errorf("Read() = %+v, %v, want %+v, %q", got, err, test.want, test.fails)
			}
			if len(h.requests) != test.requests {
				t.Errorf("the registry received %q", h.requests)
			}
		})
	}
}

// TestDigestIsReadOnce expects a digest to be read once, whatever the tags and however many callers read it concurrently.
func TestDigestIsReadOnce(t *testing.T) {
	const config = `{"os": "windows", "os.version": "10.0.17763.3287"}`
	manifest := `{"config": {"digest": "` + digestOf(config) + `"}}`
	h := &registry{answers: map[string]string{
		"/v2/a/manifests/1": manifest, "/v2/a/manifests/2": manifest, "/v2/b/manifests/3": manifest, "/v2/a/manifests/" + digestOf(manifest): manifest,
		"/v2/a/blobs/" + digestOf(config): config, "/v2/b/blobs/" + digestOf(config): config,
	}}
	var item sync.Mutex
	r := reader(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		item.Lock()
		defer item.Unlock()
		h.ServeHTTP(w, q)
	}), mirrors.Table{})
	images := []string{"r.test/a:1", "r.test/a:2", "r.test/b:3", "r.test/a:4@" + digestOf(manifest), "r.test/a@" + digestOf(manifest)}
	var all sync.WaitGroup
	for _, image := range images {
		all.Go(func() {
			if got, err := r.Read(t.Context(), image); err != nil || !slices.Equal(got.Builds, []windowsbuild.Build{17763}) {
				t.Errorf("%s is for %v (%v)", image, got, err)
			}
		})
	}
	all.Wait()
	configurations := 0
	for _, path := range h.requests {
		if strings.Contains(path, "/blobs/") {
			configurations++
		}
	}
	if configurations != 1 {
		t.Errorf("the registry received %q", h.requests)
	}
	h.requests = nil
	if _, err := r.Read(t.Context(), images[4]); err != nil || len(h.requests) != 0 {
		t.Errorf("for a cached digest, the registry received %q (%v)", h.requests, err)
	}
}

func TestSilentRegistryTimesOut(t *testing.T) {
	end := make(chan struct{})
	r := reader(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-end:
		case <-q.Context().Done():
		}
	}), mirrors.Table{})
	t.Cleanup(func() { close(end) })
	r.timeout = 200 * time.Millisecond
	began := time.Now()
	if _, err := r.Read(t.Context(), "r.test/a:1"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func TestRegistryErrorsAreDistinguished(t *testing.T) {
	r := reader(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }), mirrors.Table{})
	if _, err := r.Read(t.Context(), "r.test/a:1"); !errors.Is(err, registryclient.ErrUnauthorized) {
		t.Error(err)
	}
	r = reader(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}), mirrors.Table{})
	if _, err := r.Read(t.Context(), "r.test/a:1"); !errors.Is(err, registryclient.ErrTooManyRequests) {
		t.Error(err)
	}
	if _, err := reader(t, &registry{}, mirrors.Table{}).Read(t.Context(), "r.test/a:1"); !errors.Is(err, registryclient.ErrNotFound) {
		t.Error(err)
	}
	blocked := mirrors.Table{IsRestricted: true, RestrictedBy: "Image cluster"}
	if _, err := reader(t, &registry{}, blocked).Read(t.Context(), "r.test/a:1"); err == nil || !strings.Contains(err.Error(), "no registry is allowed") {
		t.Error(err)
	}
}

func TestImageReferences(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]string{
		"mcr.microsoft.com/windows/nanoserver:ltsc2022": "mcr.microsoft.com/windows/nanoserver Tag ltsc2022", "r.test:5000/a": "r.test:5000/a Tag latest", "a": "docker.io/library/a Tag latest", "docker.io/a:1": "docker.io/library/a Tag 1",
		"team/a:1": "docker.io/team/a Tag 1", "localhost/a": "localhost/a Tag latest", "r.test/a:1@" + digest: "r.test/a Digest " + digest, "[fd00::1]:5000/a:1": "[fd00::1]:5000/a Tag 1",
		"": "", "r.test/A": "", "r.test/a:": "", "r.test/a@sha256:1": "", "r.test/../a": "", "r.test/a:1?x": "", "r.test/a@": "", "u:p@r.test/a": "", "r.test/a:1\n": "",
	} {
		got := ""
		if r, err := parse(image); err == nil {
			got = fmt.Sprintf("%s %s %s", r.name, r.kind, r.at)
		}
		if got != want {
			t.Errorf("parse(%q) = %q, want %q", image, got, want)
		}
	}
	if RegistryOf("a") != "docker.io" || RegistryOf("") != "" {
		t.Error("the registry of the reference is wrong")
	}
}

// FuzzRead reads responses of registries and image names of users.
func FuzzRead(f *testing.F) {
	f.Add("r.test/a:1", `{"manifests": [{"platform": {"os": "windows", "os.version": "10.0.20348.1"}}]}`)
	f.Add("a@sha256:x", `{"os": "windows", "os.version": "10.0.17763"}`)
	f.Fuzz(func(t *testing.T, image, text string) {
		if r, err := parse(image); err == nil && (len(r.name.String()) > 300 || strings.ContainsAny(r.name.String()+r.at, "\r\n ?#%@")) {
			t.Errorf("%q is read as %+v", image, r)
		}
		got, config, err := readManifest([]byte(text))
		if err == nil && config != "" && !registryclient.IsDigest(config) || len(got.Builds) > maxEntries || !slices.IsSorted(got.Builds) {
			t.Errorf("readManifest() = %+v, %q, %v", got, config, err)
		}
		manifest, config, err := readLinuxManifest([]byte(text))
		if err == nil && (manifest == "") == (config == "") || manifest != "" && !registryclient.IsDigest(manifest) || config != "" && !registryclient.IsDigest(config) {
			t.Errorf("readLinuxManifest() = %q, %q, %v", manifest, config, err)
		}
		if labels, err := readLabels([]byte(text)); err != nil && labels != nil {
			t.Errorf("readLabels() = %v, %v", labels, err)
		}
		if got, err := readConfig([]byte(text)); err != nil && got.ForWindows() {
			t.Errorf("readConfig() = %+v, %v", got, err)
		}
	})
}

// TestNamesAreAbsolute: otherwise the search list would add domains of the cluster to names of registries and of the proxy, and users choose these
// names.
func TestNamesAreAbsolute(t *testing.T) {
	dial := Guard{}.Dial()
	resolver := net.DefaultResolver
	defer func() { net.DefaultResolver = resolver }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no DNS in this test") }}
	named := Guard{Allowed: []string{"registry", "mirror.corp.test"}, Proxies: []string{"proxy:443"}}.Dial()
	for _, c := range []struct {
		dial       registryclient.Dial
		host, want string
	}{
		{dial, "registry.corp.test", "registry.corp.test."},
		{dial, "whole.test.", "whole.test."},
		{dial, "registry", "registry."},
		{named, "mirror.corp.test", "mirror.corp.test."},
		{named, "registry", "registry"}, // configured by an administrator: may be in the hosts file, or in a domain of the search list
		{named, "proxy", "proxy"},
	} {
		_, err := c.dial(t.Context(), "tcp", net.JoinHostPort(c.host, "443"))
		var failure *net.DNSError
		if !errors.As(err, &failure) || failure.Name != c.want {
			t.Errorf("connecting to %s fails with %v, want a question for %q", c.host, err, c.want)
		}
	}
	if _, err := dial(t.Context(), "tcp", "127.0.0.1:443"); err == nil || !strings.Contains(err.Error(), "not an address of a registry") {
		t.Errorf("an address is resolved as a name: %v", err)
	}
}
