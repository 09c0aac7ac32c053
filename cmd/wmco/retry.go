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

// Failed requests to the API server are retried up to nine times, within about six seconds.
const (
	maxAttempts   = 10
	firstPause    = 50 * time.Millisecond
	longestPause  = time.Second
	maxWholeBytes = 1 << 20
)

// retrying retries failed requests to the API server: the connection broke, or the server or a proxy before it could not answer. A join makes
// some twenty requests and would start over for each lost one. It retries only requests that are harmless when repeated. If a response has
// Retry-After, client-go retries.
type retrying struct {
	next http.RoundTripper
	// pause waits for the duration or until the context ends.
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
		attempt, err := retryOf(request, n)
		if err != nil {
			return nil, err
		}
		response, err := t.next.RoundTrip(attempt)
		if err == nil {
			response, err = bufferResponse(response)
		}
		if n == maxAttempts-1 || !isTransient(request, response, err) {
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

// isRepeatable reports whether a request may arrive twice: it reads, it sets an object to its content, or it requests a token, of which a
// surplus one is harmless. Watches are long-running, and their clients restart them.
func isRepeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case http.MethodGet:
		return !isWatch(r)
	case http.MethodPatch, http.MethodPut:
		return true
	}
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token")
}

// retryOf returns a request for its n-th repetition; 0 is the first attempt.
func retryOf(r *http.Request, n int) (*http.Request, error) {
	if n == 0 || r.GetBody == nil {
		return r, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, fmt.Errorf("repeating a request: %w", err)
	}
	repeated := r.Clone(r.Context())
	repeated.Body = body
	return repeated, nil
}

// isTransient reports whether another attempt may succeed.
func isTransient(request *http.Request, response *http.Response, err error) bool {
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

// bufferResponse reads a response, so that a connection that breaks within it is detected while the request can still be retried. For long responses, it only
// reads the beginning.
func bufferResponse(response *http.Response) (*http.Response, error) {
	start, err := io.ReadAll(io.LimitReader(response.Body, maxWholeBytes))
	if err != nil {
		response.Body.Close()
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	if len(start) < maxWholeBytes {
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(start))
		return response, nil
	}
	response.Body = bufferedBody{io.MultiReader(bytes.NewReader(start), response.Body), response.Body}
	return response, nil
}

// bufferedBody is a body whose beginning has been read.
type bufferedBody struct {
	io.Reader
	io.Closer
}
