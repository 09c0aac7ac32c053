package registry

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

// TestTaggedImageIsPulledFromTagMirrors, as on Linux nodes: mirrors for digests are not queried for its parts.
func TestTaggedImageIsPulledFromTagMirrors(t *testing.T) {
	layer := strings.Repeat("layer", 50)
	image := `{"layers": [{"digest": "` + digestOf("", []byte(layer)) + `"}]}`
	index := `{"manifests": [{"digest": "` + digestOf("", []byte(image)) + `"}]}`
	content := func() *fakeRegistry { return newFakeRegistry("app", layer, image).tag("1", index) }
	in := entries("", mirrors.Digests, "digests.test")
	in.Sets = append(in.Sets, entries("", mirrors.Tags, "empty.test", "tags.test").Sets...)
	w := newWorld(t, in, "", map[string]http.Handler{"digests.test": content(), "tags.test": content(), "empty.test": newFakeRegistry("app"), "src.test": content()})
	pull := func(reference, want string) {
		t.Helper()
		w.expect(http.MethodHead, "app/manifests/"+reference, http.StatusOK, "")
		w.expect(http.MethodGet, "app/manifests/"+digestOf("", []byte(index)), http.StatusOK, index)
		w.expect(http.MethodGet, "app/manifests/"+digestOf("", []byte(image)), http.StatusOK, image)
		w.expect(http.MethodGet, "app/blobs/"+digestOf("", []byte(layer)), http.StatusOK, layer)
		if got := w.queriedHosts(); got != want {
			t.Errorf("pulling %s queried %s, want %s", reference, got, want)
		}
	}
	pull("1", "empty.test tags.test")
	pull(digestOf("", []byte(index)), "digests.test")
	pull("1", "empty.test tags.test")
	// A mirror loses a layer: the next one for tags has it.
	w.hosts["tags.test"].(*fakeRegistry).blobs = map[string]string{}
	w.expect(http.MethodGet, "app/blobs/"+digestOf("", []byte(layer)), http.StatusOK, layer)
	if got := w.queriedHosts(); got != "tags.test src.test" {
		t.Errorf("%s was queried", got)
	}
}

func TestReferrersAreFetchedFromMirror(t *testing.T) {
	index := `{"manifests": []}`
	has := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("artifactType") != "a/b" || !strings.HasPrefix(r.URL.Path, "/v2/x/app/referrers/sha256:") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		w.Header().Set("OCI-Filters-Applied", "artifactType")
		_, _ = w.Write([]byte(index))
	}
	w := newWorld(t, entries("", "", "first.test/x"), "", map[string]http.Handler{"first.test": http.HandlerFunc(has), "src.test": newFakeRegistry("app")})
	r := w.expect(http.MethodGet, "app/referrers/"+digestOf("", nil)+"?artifactType=a/b", http.StatusOK, index)
	if r.header.Get("OCI-Filters-Applied") != "artifactType" {
		t.Errorf("headers %v", r.header)
	}
	w.expect(http.MethodGet, "app/referrers/"+digestOf("", nil), http.StatusNotFound, "")
}

func TestBlockedImageIsRefusedWithReason(t *testing.T) {
	in := mirrors.Input{Access: []mirrors.Access{{Kind: "Image", Name: "cluster", Field: "spec.registrySources.blockedRegistries", Rule: mirrors.Blocked, Scopes: []string{"src.test/shut"}}}}
	w := newWorld(t, in, "", map[string]http.Handler{"src.test": newFakeRegistry("open/app").tag("1", manifest)})
	w.expect(http.MethodHead, "shut/app/manifests/1", http.StatusForbidden, "")
	if r := w.expect(http.MethodGet, "shut/app/manifests/1", http.StatusForbidden, ""); !strings.Contains(r.body, "src.test/shut is blocked (Image cluster, spec.registrySources.blockedRegistries)") {
		t.Errorf("the response is %s", r.body)
	}
	if hosts := w.queriedHosts(); hosts != "" {
		t.Errorf("%s was queried", hosts)
	}
	w.expect(http.MethodGet, "open/app/manifests/1", http.StatusOK, manifest)
	if n := w.server.Counts(); n["denied"] != 1 || n["served"] != 1 {
		t.Errorf("counted %v", n)
	}
}

// TestInsecureRegistries answer without TLS, or with an untrusted certificate.
func TestInsecureRegistries(t *testing.T) {
	in := entries(mirrors.NeverContactSource, "", "plain.test", "first.test")
	w := newWorld(t, in, "", map[string]http.Handler{"plain.test": newFakeRegistry("app").tag("1", manifest), "first.test": newFakeRegistry("app").tag("2", manifest)})
	w.expect(http.MethodGet, "app/manifests/1", http.StatusForbidden, "")
	c := w.config
	c.Certificates = ""
	if err := w.server.Use(c); err != nil {
		t.Fatal(err)
	}
	w.expect(http.MethodGet, "app/manifests/2", http.StatusForbidden, "")
	in.Access = []mirrors.Access{{Rule: mirrors.Insecure, Scopes: []string{"plain.test", "*.test"}}}
	c.Table = mirrors.Render(in).Table
	if err := w.server.Use(c); err != nil {
		t.Fatal(err)
	}
	w.expect(http.MethodGet, "app/manifests/1", http.StatusOK, manifest)
	w.expect(http.MethodGet, "app/manifests/2", http.StatusOK, manifest)
}

// TestRegistryUsesContainerdProxy, with its exceptions.
func TestRegistryUsesContainerdProxy(t *testing.T) {
	w := newWorld(t, entries("", "", "first.test", "direct.test"), "", map[string]http.Handler{
		"proxy.test":  http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) }),
		"direct.test": newFakeRegistry("app").tag("1", manifest),
	})
	c := w.config
	c.Proxy = map[string]string{"HTTPS_PROXY": "http://user:pw@proxy.test:80", "NO_PROXY": "direct.test"}
	if err := w.server.Use(c); err != nil {
		t.Fatal(err)
	}
	w.expect(http.MethodGet, "app/manifests/1", http.StatusOK, manifest)
	if hosts := w.queriedHosts(); hosts != "first.test direct.test" { // CONNECT names the host that the proxy has to reach
		t.Errorf("%s was queried", hosts)
	}
	if strings.Contains(w.log.String(), "user:pw") {
		t.Errorf("the proxy's password is in the log:\n%s", w.log)
	}
}

// TestSettingsChangeInterruptsNoPull: a pull in progress continues.
func TestSettingsChangeInterruptsNoPull(t *testing.T) {
	blob := strings.Repeat("content ", 3*bufferSize/8)
	half, rest := make(chan struct{}), make(chan struct{})
	slow := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, blob[:2*bufferSize])
		_ = http.NewResponseController(w).Flush()
		close(half)
		<-rest
		_, _ = fmt.Fprint(w, blob[2*bufferSize:])
	}
	w := newWorld(t, entries("", "", "first.test"), "", map[string]http.Handler{"first.test": http.HandlerFunc(slow), "second.test": newFakeRegistry("app").tag("1", manifest)})
	var work sync.WaitGroup
	work.Go(func() { w.expect(http.MethodGet, "app/blobs/"+digestOf("", []byte(blob)), http.StatusOK, blob) })
	<-half
	c := w.config
	c.Table = mirrors.Render(entries("", "", "second.test")).Table
	if err := w.server.Use(c); err != nil {
		t.Fatal(err)
	}
	w.expect(http.MethodGet, "app/manifests/1", http.StatusOK, manifest)
	close(rest)
	work.Wait()
}

// TestPersistentProblemKeepsStartTime, by which its event is known again; TestPortConflictIsReported has one.
func TestPersistentProblemKeepsStartTime(t *testing.T) {
	w := newWorld(t, entries("", "", "first.test"), "", nil)
	w.server.setProblem(errors.New("taken"))
	began := w.server.Problem().Since
	w.server.setProblem(errors.New("taken"))
	if p := w.server.Problem(); p.Err == nil || p.Since != began {
		t.Errorf("problem %v", p)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add("/v2/library/nginx/manifests/latest", "ns=docker.io", "bytes=5-")
	f.Add("/v2/a/blobs/sha256:"+strings.Repeat("a", 64), "ns=quay.io:443&ns=x", "bytes=9223372036854775807-")
	f.Add("/v2/a/referrers/sha512:"+strings.Repeat("a", 128), "ns=[::1]:5000&artifactType=%0a", "bytes=1-0")
	f.Fuzz(func(t *testing.T, path, query, ranges string) {
		q, err := parseRequest(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{"Range": {ranges}}})
		if err != nil {
			return
		}
		target := q.upstream(http.MethodGet, 0).URL("https", mirrors.Attempt{Name: mirrors.Name{Repository: "x/" + q.name.Repository}, Host: "m.test"})
		again, err := url.Parse(target.String())
		if err != nil || again.Host != "m.test" || again.Path != "/v2/x/"+strings.TrimPrefix(path, "/v2/") || strings.Contains(again.Path, "..") {
			t.Errorf("%q requests %q (%v)", path, target, err)
		}
		if q.start < 0 || q.end >= 0 && q.end < q.start {
			t.Errorf("range %d to %d", q.start, q.end)
		}
	})
}

func FuzzRegistryResponses(f *testing.F) {
	f.Add("bytes 0-9/10", `{"manifests": 1}`)
	f.Add("bytes 5-4/*", `{"config": {"digest": "sha256:x"}, "layers": [null]}`)
	f.Fuzz(func(t *testing.T, ranges, body string) {
		if first, last, all, err := parseContentRange(ranges); err == nil && (first < 0 || last < first || all >= 0 && all <= last) {
			t.Errorf("%q is %d-%d/%d", ranges, first, last, all)
		}
		for _, digest := range childrenOf([]byte(body)) {
			if !registryclient.IsDigest(digest) {
				t.Errorf("child %q", digest)
			}
		}
	})
}
