package overlay

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
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// requestWithin is the timeout of requests except watches.
const requestWithin = 15 * time.Second

// credentials authenticate a client.
type credentials struct {
	token       string
	certificate *tls.Certificate
}

// client is a client of the API server. client-go would be most of this program and of its memory, and the program only needs a few strings of each
// Node.
type client struct {
	server    string
	token     string
	http      *http.Client
	transport *http.Transport
}

// newClient returns a client; it connects with the first request.
func newClient(o Options, server string, ca []byte, c credentials) (*client, error) {
	base, err := url.Parse(server)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("%q is not the address of an API server, such as https://api.example.com:6443", server)
	}
	api := identity.Server{
		Address: server, CA: ca, Dial: o.Dial, Pings: http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
	transport, err := api.Transport(c.certificate)
	if err != nil {
		return nil, err
	}
	return &client{server: strings.TrimSuffix(server, "/"), token: c.token, http: httpclient.New(transport, 0), transport: transport}, nil
}

// close closes idle connections, so that the next identity does not use them.
func (c *client) close() { c.transport.CloseIdleConnections() }

// apiError is an error response of the API server.
type apiError struct {
	code            int
	reason, message string
}

func (e *apiError) Error() string {
	return fmt.Sprintf("the API server answered %d %s: %s", e.code, e.reason, e.message)
}

// hasCode reports whether the API server has answered with one of these codes.
func hasCode(err error, codes ...int) bool {
	var e *apiError
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.code == code {
			return true
		}
	}
	return false
}

// open sends a request and returns the body of the response, which the caller closes.
func (c *client) open(ctx context.Context, method, path, contentType string, body []byte) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "hybrid-overlay-node")
	r.Header.Set("Accept", "application/json")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		return nil, readError(answer)
	}
	return answer.Body, nil
}

// maxAnswer limits the size of a response that is one object.
const maxAnswer = 4 << 20

func readError(answer *http.Response) error {
	var status struct{ Reason, Message string }
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = truncate.Text(string(text), 200)
	}
	return &apiError{answer.StatusCode, status.Reason, status.Message}
}

// do sends a request and decodes the response, one object, unless into is nil.
func (c *client) do(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	answer, err := c.open(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	text, err := io.ReadAll(io.LimitReader(answer, maxAnswer))
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// annotate sets annotations of a Node. OVN-Kubernetes only lets its nodes change their status, and the API server accepts annotations with it.
func (c *client) annotate(ctx context.Context, node string, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	path := "/api/v1/nodes/" + url.PathEscape(node) + "/status"
	if err := c.do(ctx, http.MethodPatch, path, "application/strategic-merge-patch+json", patch, nil); err != nil {
		return fmt.Errorf("annotating Node %s with %v: %w", node, annotations, err)
	}
	return nil
}
