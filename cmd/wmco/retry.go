package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// How calls of the API server are repeated: nine times within six seconds, more or less.
const (
	maxAttempts   = 10
	firstPause    = 50 * time.Millisecond
	longestPause  = time.Second
	maxWholeBytes = 1 << 20
)

// retrying repeats calls of the API server that came to nothing: the connection broke, or the server, or what is before it, was not able to
// answer. A join makes some twenty calls, and would begin anew for each that is lost. Only calls are repeated that do no harm when the
// first one arrived after all. Where the server says when to come back (Retry-After), client-go does as it says.
type retrying struct {
	next http.RoundTripper
	// pause waits, until the context ends at most.
	pause func(context.Context, time.Duration) error
}

func newRetrying(next http.RoundTripper) http.RoundTripper {
	return &retrying{next: next, pause: func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}}
}

// WrappedRoundTripper implements the interface by which client-go finds the idle connections inside.
func (t *retrying) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *retrying) RoundTrip(request *http.Request) (*http.Response, error) {
	if !isRepeatable(request) {
		return t.next.RoundTrip(request)
	}
	for n := 0; ; n++ {
		attempt, err := again(request, n)
		if err != nil {
			return nil, err
		}
		response, err := t.next.RoundTrip(attempt)
		if err == nil {
			response, err = keep(response)
		}
		if n == maxAttempts-1 || !isPassing(request, response, err) {
			return response, err
		}
		if err == nil {
			response.Body.Close()
		}
		pause := min(firstPause<<n, longestPause)
		if err := t.pause(request.Context(), pause/2+rand.N(pause)); err != nil {
			return nil, err
		}
	}
}

// isRepeatable says whether a call may arrive twice: it reads, it changes an object to what is in it, or it asks for a token, of which one too
// many is worth nothing. A watch goes on for as long as it likes, and whoever watches begins anew by himself.
func isRepeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case http.MethodGet:
		return r.URL.Query().Get("watch") == ""
	case http.MethodPatch, http.MethodPut:
		return true
	}
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token")
}

// again is a request for its n-th repetition, the first being 0.
func again(r *http.Request, n int) (*http.Request, error) {
	if n == 0 || r.GetBody == nil {
		return r, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, fmt.Errorf("repeating a call: %w", err)
	}
	repeated := r.Clone(r.Context())
	repeated.Body = body
	return repeated, nil
}

// isPassing says whether the next attempt may have more luck.
func isPassing(request *http.Request, response *http.Response, err error) bool {
	if err != nil {
		return request.Context().Err() == nil && !errors.Is(err, context.Canceled)
	}
	if response.Header.Get("Retry-After") != "" {
		return false
	}
	codes := []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	if request.Method == http.MethodGet {
		codes = append(codes, http.StatusInternalServerError)
	}
	return slices.Contains(codes, response.StatusCode)
}

// keep reads an answer, so that a connection that breaks within it is known while the call can still be repeated. Of a long one it reads the
// beginning.
func keep(response *http.Response) (*http.Response, error) {
	start, err := io.ReadAll(io.LimitReader(response.Body, maxWholeBytes))
	if err != nil {
		response.Body.Close()
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if len(start) < maxWholeBytes {
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(start))
		return response, nil
	}
	response.Body = begun{io.MultiReader(bytes.NewReader(start), response.Body), response.Body}
	return response, nil
}

// begun is a body of which the beginning was read already.
type begun struct {
	io.Reader
	io.Closer
}
