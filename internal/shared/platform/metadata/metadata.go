// Package metadata queries the metadata service of a host's cloud for the cloud's name of the host. Cloud providers find the machine of a Node
// by this name.
//
// The services speak plain HTTP at a link-local address that is the same in every cloud, and only to the machine itself. They are never queried
// through a proxy.
package metadata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Client queries a metadata service.
type Client struct {
	// Dial opens connections; nil uses this machine's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// NodeName returns the platform's name of this host, which its node must have; empty if the platform has none. An error contains the query and
// the response.
func (c Client) NodeName(ctx context.Context, cloud string) (string, error) {
	switch cloud {
	case platform.AWS:
		return c.awsName(ctx)
	case platform.GCP:
		return c.gcpName(ctx)
	}
	return "", nil
}

// awsName returns the machine's private DNS name. A network with several domains has several names; the cloud provider uses the first.
func (c Client) awsName(ctx context.Context) (string, error) {
	const what = "latest/meta-data/local-hostname"
	header, refused := c.awsHeader(ctx)
	text, err := c.fetch(ctx, header, what)
	if err != nil && refused != nil {
		return "", fmt.Errorf("%w; before that: %w", err, refused)
	}
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(text, " ")
	return checked(what, first)
}

// awsHeader returns the header with the token that IMDSv2 requires. Without a token, NodeName queries the service as IMDSv1.
func (c Client) awsHeader(ctx context.Context) (http.Header, error) {
	token, err := c.fetchWithRetries(ctx, query{
		method: http.MethodPut, path: "latest/api/token", header: http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"60"}},
	})
	if err != nil {
		return nil, err
	}
	return http.Header{"X-Aws-Ec2-Metadata-Token": {token}}, nil
}

// gcpName returns the machine's DNS name. If that is too long, it returns the first label, truncated to the limit for nodes.
func (c Client) gcpName(ctx context.Context) (string, error) {
	const what = "computeMetadata/v1/instance/hostname"
	name, err := c.fetch(ctx, http.Header{"Metadata-Flavor": {"Google"}}, what)
	if err != nil {
		return "", err
	}
	if len(name) > platform.MaxNodeName {
		name, _, _ = strings.Cut(name, ".")
		name = strings.TrimRight(name[:min(len(name), platform.MaxNodeName)], "-.")
	}
	return checked(what, name)
}

// checked returns a name in the form of node names, or an error that quotes the invalid response.
func checked(what, name string) (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	for label := range strings.SplitSeq(name, ".") { // before lower-casing, which may turn letters beyond ASCII into ASCII
		if label == "" || strings.Trim(label, "-") != label || strings.Trim(label, letters+"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
			return "", fmt.Errorf("querying %s: response %q is not a DNS name", address(what), truncate.Text(name, truncate.Quoted))
		}
	}
	return strings.ToLower(name), nil
}

func (c Client) fetch(ctx context.Context, header http.Header, path string) (string, error) {
	return c.fetchWithRetries(ctx, query{method: http.MethodGet, path: path, header: header})
}

// query is a request to a metadata service.
type query struct {
	method, path string
	header       http.Header
}

// Retries: a service responds within milliseconds, does not exist, or is briefly overloaded.
const (
	attempts        = 3
	responseTimeout = 2 * time.Second
	firstPause      = 500 * time.Millisecond
	maxResponse     = 4 << 10
)

// fetchWithRetries repeats a query until it succeeds or fails permanently.
func (c Client) fetchWithRetries(ctx context.Context, q query) (string, error) {
	var err error
	for attempt := range attempts {
		if attempt > 0 {
			select {
			case <-ctx.Done():
				return "", err
			case <-time.After(firstPause << (attempt - 1)):
			}
		}
		var text string
		var retryable bool
		if text, retryable, err = c.once(ctx, q); err == nil || !retryable {
			return text, err
		}
	}
	return "", fmt.Errorf("%w (%d attempts)", err, attempts)
}

// once sends one query. retryable reports whether a retry may succeed.
func (c Client) once(ctx context.Context, q query) (text string, retryable bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, responseTimeout, fmt.Errorf("no response within %v", responseTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, q.method, address(q.path), nil)
	if err != nil {
		return "", false, err
	}
	for name, values := range q.header {
		request.Header[name] = values
	}
	response, err := (&http.Transport{DialContext: c.Dial, DisableKeepAlives: true}).RoundTrip(request) // no Proxy is set
	if err == nil {
		defer response.Body.Close()
		var body []byte
		body, err = io.ReadAll(io.LimitReader(response.Body, maxResponse))
		text = strings.TrimSpace(string(body))
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err != nil {
		return "", true, fmt.Errorf("querying %s: %w", address(q.path), err)
	}
	if response.StatusCode != http.StatusOK {
		retryable = response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests
		return "", retryable, fmt.Errorf("querying %s: response %s: %q", address(q.path), response.Status, truncate.Text(text, truncate.Quoted))
	}
	if text == "" {
		return "", true, fmt.Errorf("querying %s: empty response", address(q.path))
	}
	return text, false, nil
}

func address(path string) string { return "http://" + platform.MetadataAddress + "/" + path }
