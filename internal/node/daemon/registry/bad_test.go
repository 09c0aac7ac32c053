package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

const manifest = `{"config": {"digest": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}`

// bad returns faulty registries.
func bad() map[string]http.HandlerFunc {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	other := newFakeRegistry("app", strings.Repeat("other", 100)).tag("1", "other")
	wrongContent := func(w http.ResponseWriter, r *http.Request) { // the right headers, but different content
		w.Header().Set("Docker-Content-Digest", r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
		r.URL.Path = r.URL.Path[:strings.LastIndexByte(r.URL.Path, '/')+1] + digestOf("", []byte(strings.Repeat("other", 100)))
		recorder := httptest.NewRecorder()
		other.ServeHTTP(recorder, r)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(recorder.Body.Bytes())
	}
	all := map[string]http.HandlerFunc{
		"breaks off at once":  abort,
		"is slow":             func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"is another one":      other.ServeHTTP,
		"sends wrong content": wrongContent,
		"redirects endlessly": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) },
		"redirects nowhere": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "://")
			w.WriteHeader(http.StatusFound)
		},
		"redirects to no TLS": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://src.test"+r.URL.Path, http.StatusTemporaryRedirect)
		},
		"compresses": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("x"))
		},
		"has a realm without TLS": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://src.test/token"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"has no realm": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"gives endless tokens": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/token" {
				for range 1000 {
					_, _ = w.Write([]byte(`{"token": "` + strings.Repeat("x", 1000)))
				}
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://first.test/token"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"sends endless headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
			w.WriteHeader(http.StatusOK)
		},
		"sends an endless manifest": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "x")
			for range maxManifest/1000 + 2 {
				if _, err := w.Write([]byte(strings.Repeat("x", 1000))); err != nil {
					return
				}
			}
		},
	}
	for _, code := range []int{400, 401, 403, 404, 410, 429, 500, 502, 503, 504, 204, 304} {
		all["answers "+strconv.Itoa(code)] = status(code)
	}
	return all
}

// TestBadMirrorIsSkipped, whatever the mirror does, as long as nothing was forwarded.
func TestBadMirrorIsSkipped(t *testing.T) {
	blob := strings.Repeat("content ", 20000)
	good := newFakeRegistry("app", blob).tag("1", manifest)
	for name, handler := range bad() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, entries(mirrors.NeverContactSource, "", "first.test", "second.test"), "", map[string]http.Handler{"first.test": handler, "second.test": good})
			w.expect(http.MethodGet, "app/manifests/"+digestOf("", []byte(manifest)), http.StatusOK, manifest)
			if name == "is another one" || name == "sends wrong content" || name == "sends an endless manifest" {
				return // a registry queried by tag defines the tag; and a damaged layer is detected only at its end
			}
			w.expect(http.MethodHead, "app/manifests/"+digestOf("", []byte(manifest)), http.StatusOK, "")
			w.expect(http.MethodHead, "app/manifests/1", http.StatusOK, "")
			w.expect(http.MethodGet, "app/manifests/1", http.StatusOK, manifest)
			w.expect(http.MethodGet, "app/blobs/"+digestOf("", []byte(blob)), http.StatusOK, blob)
		})
	}
}

// TestEndlessManifestIsNotRead counts how much of it a mirror can send: a little more than is read, because of buffers.
func TestEndlessManifestIsNotRead(t *testing.T) {
	const most = 8 * maxManifest
	sent := make(chan int, 10)
	endless := func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		for piece := []byte(strings.Repeat("x", 1<<16)); n <= most; n += len(piece) {
			if _, err := w.Write(piece); err != nil {
				break
			}
		}
		sent <- n
	}
	w := newWorld(t, entries(mirrors.NeverContactSource, "", "first.test"), "", map[string]http.Handler{"first.test": http.HandlerFunc(endless)})
	w.expect(http.MethodGet, "app/manifests/"+digestOf("", []byte(manifest)), http.StatusForbidden, "")
	if n := <-sent; n > most {
		t.Errorf("it sent more than %d bytes", most)
	}
}

// TestFailureOfOnlyMirrorIsReported: for a refused HEAD, containerd shows the message of the GET.
func TestFailureOfOnlyMirrorIsReported(t *testing.T) {
	for name, handler := range bad() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, entries(mirrors.NeverContactSource, "", "first.test"), "", map[string]http.Handler{"first.test": handler})
			path := "app/manifests/" + digestOf("", []byte(manifest))
			began := time.Now()
			head, get := w.request(http.MethodHead, path), w.request(http.MethodGet, path)
			if name == "sends wrong content" && head.status == http.StatusOK { // the headers were right
				head.status = http.StatusForbidden
			}
			if head.err != nil || get.err != nil || head.status != http.StatusForbidden || get.status != http.StatusForbidden ||
				!strings.Contains(get.body, "first.test/app: ") || !strings.Contains(get.body, "mirrorSourcePolicy") {
				t.Errorf("HEAD %d (%v), GET %d (%v): %s", head.status, head.err, get.status, get.err, get.body)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// cutting interrupts a registry's response after a number of bytes, a number of times.
func cutting(next http.Handler, after, times int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if times == 0 || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		times--
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r)
		for key, values := range recorder.Header() {
			w.Header()[key] = values
		}
		w.Header().Set("Content-Length", strconv.Itoa(recorder.Body.Len()))
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes()[:min(after, recorder.Body.Len())])
		if after < recorder.Body.Len() {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
}

// TestLayerInterruptedAtAnyByteIsResumed, by the same mirror or by the next.
func TestLayerInterruptedAtAnyByteIsResumed(t *testing.T) {
	small, large := strings.Repeat("0123456789", 12), strings.Repeat("0123456789abcdef", 3*bufferSize/16)
	good := newFakeRegistry("app", small, large)
	first := &handlerVariable{}
	w := newWorld(t, entries(mirrors.NeverContactSource, "", "first.test", "second.test"), "", map[string]http.Handler{"first.test": first, "second.test": good})
	cut := func(text string, after, times int) {
		first.Handler = cutting(good, after, times)
		w.expect(http.MethodGet, "app/blobs/"+digestOf("", []byte(text)), http.StatusOK, text)
		if after < len(text)-7 {
			first.Handler = cutting(good, after, times)
			w.expect(http.MethodGet, "app/blobs/"+digestOf("", []byte(text)), http.StatusPartialContent, text[7:], "Range", "bytes=7-")
		}
	}
	for after := range len(small) + 1 {
		cut(small, after, 1)
	}
	for _, after := range []int{1, bufferSize - 1, bufferSize, bufferSize + 1, 2 * bufferSize, len(large) - 1} {
		for times := range 4 {
			cut(large, after, times)
		}
	}
}

type handlerVariable struct{ http.Handler }

// TestDamagedLayerIsNotServedWhole, and comes from the next mirror when containerd retries.
func TestDamagedLayerIsNotServedWhole(t *testing.T) {
	blob := strings.Repeat("content ", 20000)
	damaged := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat("Content ", 20000)))
	}
	w := newWorld(t, entries("", "", "first.test", "second.test"), "", map[string]http.Handler{"first.test": http.HandlerFunc(damaged), "second.test": newFakeRegistry("app", blob)})
	path := "app/blobs/" + digestOf("", []byte(blob))
	if r := w.request(http.MethodGet, path); r.err == nil {
		t.Errorf("got %d bytes with status %d, and no error", len(r.body), r.status)
	}
	w.queriedHosts()
	w.expect(http.MethodGet, path, http.StatusOK, blob)
	if hosts := w.queriedHosts(); hosts != "second.test" {
		t.Errorf("%s was queried", hosts)
	}
}

// TestStalledLayerIsResumed continues at the next mirror.
func TestStalledLayerIsResumed(t *testing.T) {
	blob := strings.Repeat("content ", 3*bufferSize/8)
	stops := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
		_, _ = fmt.Fprint(w, blob[:bufferSize+10])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	w := newWorld(t, entries("", "", "first.test", "second.test"), "", map[string]http.Handler{"first.test": http.HandlerFunc(stops), "second.test": newFakeRegistry("app", blob)})
	w.expect(http.MethodGet, "app/blobs/"+digestOf("", []byte(blob)), http.StatusOK, blob)
}

// TestRanges: a registry that ignores ranges serves a part nevertheless.
func TestRanges(t *testing.T) {
	blob := strings.Repeat("0123456789", 20000)
	whole := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
		_, _ = w.Write([]byte(blob))
	}
	for name, handler := range map[string]http.Handler{"parts": newFakeRegistry("app", blob), "wholes": http.HandlerFunc(whole)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, entries("", "", "first.test"), "", map[string]http.Handler{"first.test": handler})
			path := "app/blobs/" + digestOf("", []byte(blob))
			for header, want := range map[string]string{"bytes=0-": blob, "bytes=70000-": blob[70000:], "bytes=5-9": blob[5:10], "bytes=199999-": "9"} {
				r := w.expect(http.MethodGet, path, http.StatusPartialContent, want, "Range", header)
				if got := r.header.Get("Content-Range"); !strings.HasSuffix(got, "/200000") {
					t.Errorf("%s: the range is %q", header, got)
				}
			}
			for _, header := range []string{"bytes=-5", "bytes=9-5", "bytes=0-1,5-6", "items=1-", "bytes=x-"} {
				w.expect(http.MethodGet, path, http.StatusOK, blob, "Range", header)
			}
		})
	}
}
