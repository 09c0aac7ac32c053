package kubeapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
)

func clientOf(t *testing.T, handler http.HandlerFunc) *kubeapi.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := kubeapi.New(kubeapi.Options{Server: identity.Server{Address: server.URL + "/"}, Token: "t", UserAgent: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRequests(t *testing.T) {
	type object struct {
		Name string `json:"name"`
	}
	var got []string
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Content-Type"), string(body)}, " "))
		if r.Header.Get("Authorization") != "Bearer t" || r.Header.Get("User-Agent") != "agent" || r.Header.Get("Accept") != "application/json" {
			t.Errorf("headers %v", r.Header)
		}
		_, _ = io.WriteString(w, `{"name":"x"}`)
	})
	var read, patched object
	err := errors.Join(
		c.Get(t.Context(), "/api/v1/nodes", map[string][]string{"limit": {"1"}}, &read),
		c.Create(t.Context(), "/api/v1/events", object{"e"}),
		c.Patch(t.Context(), "/api/v1/nodes/n", kubeapi.MergePatch, object{"p"}, &patched),
	)
	if err != nil || read.Name != "x" || patched.Name != "x" {
		t.Errorf("read %+v, patched %+v, error %v", read, patched, err)
	}
	want := []string{
		"GET /api/v1/nodes?limit=1  ",
		`POST /api/v1/events application/json {"name":"e"}`,
		`PATCH /api/v1/nodes/n application/merge-patch+json {"name":"p"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAPIServerErrorsAreReturned(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		body string
		want string
	}{
		"a Status":  {http.StatusForbidden, `{"kind":"Status","reason":"Forbidden","message":"nodes is forbidden"}`, "the API server returned 403 Forbidden: nodes is forbidden"},
		"no Status": {http.StatusBadGateway, `<html>`, "the API server returned 502 : <html>"},
		"no object": {http.StatusOK, `<html>`, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.code)
				_, _ = io.WriteString(w, test.body)
			})
			var into struct{}
			err := c.Get(t.Context(), "/x", nil, &into)
			if err == nil || !strings.Contains(err.Error(), test.want) || kubeapi.HasCode(err, test.code, 1) != (test.code != http.StatusOK) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	for _, address := range []string{"", "api.example.com", "ftp://api", "https://"} {
		if _, err := kubeapi.New(kubeapi.Options{Server: identity.Server{Address: address}}); err == nil {
			t.Errorf("address %q was accepted", address)
		}
	}
}

// TestRequestsHonorRetryAfter: an API server with too many requests answers 429 and names a time.
func TestRequestsHonorRetryAfter(t *testing.T) {
	for name, test := range map[string]struct {
		code   int
		after  string
		within time.Duration
		want   int32 // requests
		fails  bool
	}{
		"too many requests":            {http.StatusTooManyRequests, "0", time.Minute, 3, false},
		"the server starts":            {http.StatusServiceUnavailable, "0", time.Minute, 3, false},
		"no time":                      {http.StatusTooManyRequests, "", time.Minute, 1, true},
		"not a time":                   {http.StatusTooManyRequests, "soon", time.Minute, 1, true},
		"a time that is too late":      {http.StatusTooManyRequests, "3600", time.Minute, 1, true},
		"a time after the deadline":    {http.StatusTooManyRequests, "10", 50 * time.Millisecond, 1, true},
		"an error that would not pass": {http.StatusForbidden, "0", time.Minute, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); string(body) != `{"a":1}` {
					t.Errorf("body %s", body)
				}
				if requests.Add(1) == 3 {
					return
				}
				w.Header().Set("Retry-After", test.after)
				w.WriteHeader(test.code)
			})
			ctx, cancel := context.WithTimeout(t.Context(), test.within)
			defer cancel()
			err := c.Create(ctx, "/x", map[string]int{"a": 1})
			if (err != nil) != test.fails || test.fails && !kubeapi.HasCode(err, test.code) || requests.Load() != test.want {
				t.Errorf("%d requests, error %v; want %d, failure %t", requests.Load(), err, test.want, test.fails)
			}
		})
	}
}

func TestRequestRetriesAreLimited(t *testing.T) {
	var requests atomic.Int32
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	if err := c.Get(t.Context(), "/x", nil, nil); !kubeapi.HasCode(err, http.StatusTooManyRequests) || requests.Load() != 11 {
		t.Errorf("%d requests, error %v", requests.Load(), err)
	}
}
