package main

import (
	"context"
	"io"
	"net/http"
	"time"
)

// requestDeadline limits a request to the API server, retries and reading the response included. The API server itself ends a request after a
// minute (its flag --request-timeout): only one that hangs, or a load balancer before it, takes longer.
const requestDeadline = 75 * time.Second

// apiTransport wraps a transport for the API server: failed requests are retried, and all but watches have a deadline.
func apiTransport(next http.RoundTripper) http.RoundTripper { return limiting{newRetrying(next)} }

type limiting struct{ next http.RoundTripper }

// WrappedRoundTripper implements the interface by which client-go finds the idle connections inside.
func (t limiting) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t limiting) RoundTrip(request *http.Request) (*http.Response, error) {
	if isWatch(request) {
		return t.next.RoundTrip(request)
	}
	ctx, cancel := context.WithTimeout(request.Context(), requestDeadline)
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = limitedBody{response.Body, cancel}
	return response, nil
}

// limitedBody is the body of a response to a request with a deadline.
type limitedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b limitedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// isWatch reports whether a request is a watch, which ends when the server ends it.
func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }
