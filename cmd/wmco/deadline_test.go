package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stalled is a server behind a connection that stays open: it never responds, or stops within the response.
type stalled struct{ within bool }

func (s stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.within {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(stalledBody{r.Context()})}, nil
}

type stalledBody struct{ ctx context.Context }

func (b stalledBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// TestRequestsHaveDeadline expects every request but a watch to fail in time if the server stops responding, even with retries.
func TestRequestsHaveDeadline(t *testing.T) {
	for _, test := range []struct {
		name, method, path string
		server             stalled
		want               time.Duration
	}{
		{"read", http.MethodGet, "/api/v1/nodes", stalled{}, requestDeadline},
		{"read that stops within the response", http.MethodGet, "/api/v1/nodes", stalled{within: true}, requestDeadline},
		{"status", http.MethodPatch, "/api/v1/nodes/a/status", stalled{}, requestDeadline},
		{"creation", http.MethodPost, "/api/v1/namespaces/ns/configmaps", stalled{}, requestDeadline},
		{"creation that stops within the response", http.MethodPost, "/api/v1/namespaces/ns/configmaps", stalled{within: true}, requestDeadline},
		{"deletion", http.MethodDelete, "/api/v1/nodes/a", stalled{}, requestDeadline},
		{"watch", http.MethodGet, "/api/v1/nodes?watch=true", stalled{within: true}, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				if err := exchange(ctx, apiTransport(test.server), test.method, test.path); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got error %v, want context.DeadlineExceeded", err)
				}
				if took := time.Since(began); took != test.want {
					t.Errorf("it took %s, want %s", took, test.want)
				}
			})
		})
	}
}

// TestReadResponseReleasesDeadline expects that a response can be read slowly within the deadline, and that nothing is left of it afterwards.
func TestReadResponseReleasesDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := context.Background()
		server := transportFunc(func(r *http.Request) (*http.Response, error) {
			seen = r.Context()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("text"))}, nil
		})
		if err := exchange(t.Context(), apiTransport(server), http.MethodDelete, "/api/v1/nodes/a"); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(seen.Err(), context.Canceled) {
			t.Errorf("the request's context has error %v after the response was closed", seen.Err())
		}
	})
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// exchange sends a request and reads the response.
func exchange(ctx context.Context, transport http.RoundTripper, method, path string) error {
	request, err := http.NewRequestWithContext(ctx, method, "https://api"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}
