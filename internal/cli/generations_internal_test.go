package cli

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/observe/generations"
	"github.com/windows-machine-config/wmco/internal/operator/windowsimage"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

// TestFailingRegistryIsNotQueriedAgain queries ten images of a registry that fails in some way, one after another.
func TestFailingRegistryIsNotQueriedAgain(t *testing.T) {
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	const index, nested = `application/vnd.oci.image.index.v1+json`, `{"manifests": [{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "x"}]}`
	text := func(mediaType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mediaType)
			_, _ = io.WriteString(w, text)
		}
	}
	for name, test := range map[string]struct {
		answer   http.HandlerFunc
		requests int
		unread   string
		remedy   string
	}{
		"limits requests":             {status(http.StatusTooManyRequests, "Retry-After", "3600"), 1, "limits requests", "run the command again later"},
		"closes connections":          {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, maxSilence, "did not respond 3 times", "can connect"},
		"does not know the images":    {status(http.StatusNotFound), 10, "not found", "Check the name"},
		"requires a password":         {status(http.StatusUnauthorized, "WWW-Authenticate", `Basic realm="x"`), 10, "credentials", "--use-pull-secrets"},
		"is out of order":             {status(http.StatusServiceUnavailable), 10, "status 503", "can connect"},
		"redirects to another host":   {status(http.StatusFound, "Location", "https://elsewhere.example.com/x"), 10, "redirects to something else", "can connect"},
		"redirects to cloud metadata": {status(http.StatusFound, "Location", "https://169.254.169.254/latest"), 10, "not an address of a registry", "Name it with --registry"},
		"redirects to itself":         {status(http.StatusFound, "Location", "/v2/again"), 60, "more than 5 redirects", "can connect"},
		"sends a page":                {text("text/html", "<html>"), 10, "reading the manifest", "can connect"},
		"sends another media type":    {text("application/vnd.oci.image.config.v1+json", `{"os": "windows"}`), 10, "not an image manifest", "can connect"},
		"sends an index of indexes":   {text(index, nested), 10, "contains another index", "can connect"},
		"sends 100 MB": {func(w http.ResponseWriter, _ *http.Request) {
			spaces := bytes.Repeat([]byte(" "), 1<<20)
			for range 100 {
				if _, err := w.Write(spaces); err != nil {
					return
				}
			}
		}, 10, "too large", "can connect"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			q, table := failing(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				test.answer(w, r)
			})
			q.readers[""] = windowsimage.New(q.client(t, true), table, windowsimage.NewMemory())
			reading := q.queryTen(t.Context())
			if requests != test.requests || !strings.Contains(reading.Unread, test.unread) || !strings.Contains(reading.Remedy, test.remedy) {
				t.Errorf("%d requests, want %d; unread: %q, want ...%s...; remedy: %q, want ...%s...", requests, test.requests, reading.Unread, test.unread, reading.Remedy, test.remedy)
			}
			if q.count() != 10 {
				t.Errorf("%d results", q.count())
			}
		})
	}
	t.Run("has no valid certificate", func(t *testing.T) {
		q, table := failing(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
		q.readers[""] = windowsimage.New(q.client(t, false), table, windowsimage.NewMemory())
		if reading := q.queryTen(t.Context()); !strings.Contains(reading.Unread, "did not respond 3 times") || !strings.Contains(reading.Unread, "certificate") {
			t.Errorf("unread: %q", reading.Unread)
		}
	})
	t.Run("after the deadline", func(t *testing.T) {
		q, table := failing(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
		q.readers[""] = windowsimage.New(q.client(t, true), table, windowsimage.NewMemory())
		ctx, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		if reading := q.queryTen(ctx); !strings.Contains(reading.Remedy, "increase --timeout") {
			t.Errorf("remedy: %q", reading.Remedy)
		}
	})
}

// failingRegistry is a registry r.example.com with TLS, and queries to it.
type failingRegistry struct {
	registryQueries
	server *httptest.Server
}

func failing(t *testing.T, answer http.HandlerFunc) (*failingRegistry, mirrors.Table) {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that the client ends
	server.StartTLS()
	t.Cleanup(server.Close)
	return &failingRegistry{registryQueries{
		readers: map[string]*windowsimage.Reader{}, found: generations.Readings{}, silent: map[string]int{}, stopped: map[string]error{},
	}, server}, mirrors.Table{}
}

// client returns a client that trusts the registry's certificate, if so requested. It cannot connect to anything else.
func (f *failingRegistry) client(t *testing.T, trusts bool) *registryclient.Client {
	t.Helper()
	o := registryclient.Options{Agent: "test", Check: windowsimage.Guard{}.Check, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "r.example.com:443" {
			t.Errorf("connecting to %s is not expected", address)
			return nil, errors.New("refused")
		}
		return (&net.Dialer{}).DialContext(ctx, network, f.server.Listener.Addr().String())
	}}
	if trusts {
		o.Certificates = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw}))
	}
	c := registryclient.New(o)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// queryTen queries ten images, and returns the last result.
func (f *failingRegistry) queryTen(ctx context.Context) (last generations.Reading) {
	for i := range 10 {
		key := generations.ImageKey{Image: fmt.Sprintf("r.example.com/a:%d", i)}
		f.query(ctx, key)
		last = f.found[key]
	}
	return last
}

// written is a writer that another goroutine may use.
type written chan string

func (w written) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// all returns the whole output after it was closed.
func (w written) all() (text string) {
	for part := range w {
		text += part
	}
	return text
}

func TestProgressIsReportedAfterSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(written, 10)
		var done atomic.Int64
		stop := reportProgress(out, func() string { return fmt.Sprint(done.Load()) })
		time.Sleep(progressInterval - time.Millisecond)
		synctest.Wait()
		if len(out) > 0 {
			t.Errorf("too early: %q", <-out)
		}
		done.Store(7)
		time.Sleep(progressInterval)
		stop()
		time.Sleep(time.Hour)
		close(out)
		if text := out.all(); text != "7\n" {
			t.Errorf("the output is %q", text)
		}
	})
}

func TestPullSecretsTakePrecedence(t *testing.T) {
	own := `{"auths": {"a.test": {"auth": "b3duOm93bg=="}, "b.test": {"auth": "b3duOm93bg=="}}, "credsStore": "desktop"}`
	merged := mirrors.ReadKeyring(mergeCredentials([]byte(own), []byte("no JSON"), nil, []byte(`{"auths": {"b.test": {"username": "pod", "password": "p"}}}`)))
	for registry, want := range map[string]string{"a.test": "own", "b.test": "pod", "c.test": ""} {
		if got, _ := merged.For(mirrors.Name{Registry: registry, Repository: "x"}); got.User != want {
			t.Errorf("the user for %s is %q, want %q", registry, got.User, want)
		}
	}
}

// FuzzMergeCredentials merges files of any content. What is valid alone must be in the result, and the result must be readable.
func FuzzMergeCredentials(f *testing.F) {
	f.Add(`{"auths": {"a.test": {"auth": "YTpi"}}}`, `{"auths": null}`)
	f.Add(`{"auths": {"\u0000": 1}}`, `[]`)
	f.Fuzz(func(t *testing.T, first, second string) {
		merged := mergeCredentials([]byte(first), []byte(second))
		if again := mergeCredentials(merged); !bytes.Equal(again, merged) {
			t.Errorf("%q is merged to %q", merged, again)
		}
	})
}

func TestTargetsAreYearsOrBuilds(t *testing.T) {
	for text, want := range map[string]int{"2025": 26100, "10.0.26100": 26100, "26100": 26100, "2022": 20348, "2016": 0, "": 0, "10.0.26100.1": 0, "ltsc2025": 0, "10.0.25398": 0} {
		got, err := targetOf(text)
		if int(got) != want || (err == nil) != (want != 0) {
			t.Errorf("targetOf(%q) = %d, %v", text, got, err)
		}
	}
}
