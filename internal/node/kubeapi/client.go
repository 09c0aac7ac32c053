package kubeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// requestTimeout limits requests except watches, with their retries.
	requestTimeout = 15 * time.Second
	// maxRetries is how often a request is retried if the API server requests it.
	maxRetries = 10
	// maxResponse limits a response in bytes: an object has less than 2 MiB, a page of a list a few.
	maxResponse = 64 << 20
)

// Content types of patches.
const (
	MergePatch          = "application/merge-patch+json"
	StrategicMergePatch = "application/strategic-merge-patch+json"
)

// Options describe a client.
type Options struct {
	Server identity.Server
	// Certificate or Token identify the client.
	Certificate *tls.Certificate
	Token       string
	UserAgent   string
	// Wrap may wrap the transport; nil does not.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Client is a client of the API server with one identity. It is safe for concurrent use.
type Client struct {
	server, token, userAgent string

	http      *http.Client
	transport *http.Transport
}

// New returns a client, which connects with its first request.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.Server.Address)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("%q is not the address of an API server, such as https://api.example.com:6443", o.Server.Address)
	}
	transport, err := o.Server.Transport(o.Certificate)
	if err != nil {
		return nil, err
	}
	var wrapped http.RoundTripper = transport
	if o.Wrap != nil {
		wrapped = o.Wrap(transport)
	}
	return &Client{
		server: strings.TrimSuffix(o.Server.Address, "/"), token: o.Token, userAgent: o.UserAgent, http: httpclient.New(wrapped, 0), transport: transport,
	}, nil
}

// Close closes idle connections, so that the next identity does not use one of them.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Error is an error response of the API server.
type Error struct {
	Code            int
	Reason, Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the API server returned %d %s: %s", e.Code, e.Reason, e.Message)
}

// HasCode reports whether the API server has answered with one of these codes.
func HasCode(err error, codes ...int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(codes, e.Code)
}

// Get reads an object or a list.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(ctx, http.MethodGet, path, "", nil, into)
}

// Create creates an object in a collection.
func (c *Client) Create(ctx context.Context, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, path, "application/json", body, nil)
}

// Patch patches an object and reads the result, unless into is nil.
func (c *Client) Patch(ctx context.Context, path, contentType string, patch, into any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPatch, path, contentType, body, into)
}

// do sends a request and decodes the response unless into is nil.
func (c *Client) do(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := c.open(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer response.Close()
	text, err := io.ReadAll(io.LimitReader(response, maxResponse+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the response of the API server: %w", err)
	case len(text) > maxResponse:
		return fmt.Errorf("the response of the API server has more than %d bytes", maxResponse)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

// open sends a request and returns the body of the response, which the caller closes. It retries after the time that the API server names, if
// any.
func (c *Client) open(ctx context.Context, method, path, contentType string, body []byte) (io.ReadCloser, error) {
	for retries := 0; ; retries++ {
		response, err := c.send(ctx, method, path, contentType, body)
		if err != nil {
			return nil, err
		}
		if response.StatusCode/100 == 2 {
			return response.Body, nil
		}
		failure := readError(response)
		after, again := retryAfter(response)
		if !again || retries == maxRetries || backoff.Sleep(ctx, after) != nil {
			return nil, failure
		}
	}
}

func (c *Client) send(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", c.userAgent)
	r.Header.Set("Accept", "application/json")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(r)
}

// readError reads and closes an error response.
func readError(response *http.Response) error {
	defer response.Body.Close()
	var status struct{ Reason, Message string }
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = truncate.Text(string(text), 200)
	}
	return &Error{response.StatusCode, status.Reason, status.Message}
}

// retryAfter returns the time after which a request may be retried: an overloaded API server names one.
func retryAfter(response *http.Response) (after time.Duration, again bool) {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode/100 != 5 {
		return 0, false
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second, err == nil && seconds >= 0 && seconds <= int(requestTimeout.Seconds())
}
