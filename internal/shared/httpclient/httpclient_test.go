package httpclient_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

// answers is a server that always sends the same response.
type answers struct {
	status int
	header http.Header
	wait   time.Duration
	closed *bool
}

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(a.wait):
	}
	return &http.Response{StatusCode: a.status, Header: a.header, Body: http.NoBody, Request: r}, nil
}

func (a answers) CloseIdleConnections() { *a.closed = true }

// get returns the status of a response.
func get(client *http.Client, at string) (status int, err error) {
	answer, err := client.Get(at)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

func TestOnlyRedirectsAreErrors(t *testing.T) {
	for status, isRedirect := range map[int]bool{200: false, 206: false, 300: true, 301: true, 302: true, 303: true, 304: false, 305: true, 307: true, 308: true, 399: true, 404: false, 502: false} {
		client := httpclient.New(answers{status: status, header: http.Header{"Location": {"https://other.example.com/x?secret=y"}}}, 0)
		got, err := get(client, "https://asked.example.com/")
		var redirect *httpclient.Redirect
		if errors.As(err, &redirect) != isRedirect || !isRedirect && got != status {
			t.Errorf("status %d: %v", status, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "asked.example.com redirects the request (to other.example.com); redirects are not followed") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

func TestRequestHasDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := get(httpclient.New(answers{wait: time.Hour}, time.Minute), "https://asked.example.com/")
		if err == nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestHeadersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 300<<10)) }))
	defer server.Close()
	if _, err := get(httpclient.New(httpclient.Transport(nil), time.Minute), server.URL); err == nil {
		t.Error("300 KiB of headers are read")
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	closed := false
	utilnet.CloseIdleConnectionsFor(httpclient.New(answers{closed: &closed}, 0).Transport)
	if !closed {
		t.Error("the wrapped transport kept its idle connections")
	}
}

// FuzzRedirect expects a short, printable line that names the target, and that a folder is on the same server.
func FuzzRedirect(f *testing.F) {
	for _, location := range []string{"https://a.example.com", "a/", "", "http://%zz", "//\u202eb", "http://[::1%25\x1b]/", "//asked.example.com/a/"} {
		f.Add(location)
	}
	f.Fuzz(func(t *testing.T, location string) {
		_, err := get(httpclient.New(answers{status: 302, header: http.Header{"Location": {location}}}, 0), "https://asked.example.com/a")
		var redirect *httpclient.Redirect
		if !errors.As(err, &redirect) {
			t.Fatalf("%q: %v", location, err)
		}
		reported := redirect.By("it")
		if len(reported) > 200 || strings.ContainsFunc(reported, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: %q", location, reported)
		}
		if redirect.ToFolder() && redirect.To.Host != "asked.example.com" {
			t.Errorf("%q counts as a folder", location)
		}
	})
}
