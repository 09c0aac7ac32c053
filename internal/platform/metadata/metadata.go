// Package metadata asks the metadata service of the cloud that a host runs in for the name that this cloud has for it. Where a cloud
// provider looks after nodes, it finds the machine of a Node by this name.
//
// The services answer plain HTTP at an address of the link that is the same in every cloud, and only to the machine itself. They are
// never asked through a proxy.
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

	"github.com/windows-machine-config/wmco/internal/platform"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// Client asks a metadata service.
type Client struct {
	// Dial makes connections; nil takes this machine's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// NodeName is the name that a platform has for this host, as its node is to have it; empty where the platform has none. An error
// says what was asked, and what came.
func (c Client) NodeName(ctx context.Context, cloud string) (string, error) {
	switch cloud {
	case platform.AWS:
		return c.awsName(ctx)
	case platform.GCP:
		return c.gcpName(ctx)
	}
	return "", nil
}

// awsName is the machine's private DNS name. A network with several domains has several names; the cloud provider takes the first.
func (c Client) awsName(ctx context.Context) (string, error) {
	const what = "latest/meta-data/local-hostname"
	header, refused := c.awsHeader(ctx)
	text, err := c.ask(ctx, header, what)
	if err != nil && refused != nil {
		return "", fmt.Errorf("%w; before that, %w", err, refused)
	}
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(text, " ")
	return checked(what, first)
}

// awsHeader is the token that version 2 of the service wants. A service that gives none, and says why, is asked without, as version 1.
func (c Client) awsHeader(ctx context.Context) (http.Header, error) {
	token, err := c.insist(ctx, question{
		method: http.MethodPut, path: "latest/api/token", header: http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"60"}},
	})
	if err != nil {
		return nil, err
	}
	return http.Header{"X-Aws-Ec2-Metadata-Token": {token}}, nil
}

// gcpName is the machine's DNS name; where that is too long, its first label or, failing that, as much of it as a node can have.
func (c Client) gcpName(ctx context.Context) (string, error) {
	const what = "computeMetadata/v1/instance/hostname"
	name, err := c.ask(ctx, http.Header{"Metadata-Flavor": {"Google"}}, what)
	if err != nil {
		return "", err
	}
	if len(name) > platform.MaxNodeName {
		name, _, _ = strings.Cut(name, ".")
		name = strings.TrimRight(name[:min(len(name), platform.MaxNodeName)], "-.")
	}
	return checked(what, name)
}

// checked is a name as nodes are named, or an error that quotes what came instead.
func checked(what, name string) (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	for label := range strings.SplitSeq(name, ".") { // before it is folded: letters beyond ASCII may become others
		if label == "" || strings.Trim(label, "-") != label || strings.Trim(label, letters+"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
			return "", fmt.Errorf("asking %s: the answer %q is no DNS name", address(what), shorten.Text(name, shorten.Quoted))
		}
	}
	return strings.ToLower(name), nil
}

func (c Client) ask(ctx context.Context, header http.Header, path string) (string, error) {
	return c.insist(ctx, question{method: http.MethodGet, path: path, header: header})
}

// question is one that a metadata service is asked.
type question struct {
	method, path string
	header       http.Header
}

// How a service is asked: it answers within milliseconds, or is not there, or has too much to do for a moment.
const (
	attempts     = 3
	answerWithin = 2 * time.Second
	firstPause   = 500 * time.Millisecond
	maxAnswer    = 4 << 10
)

// insist asks until there is an answer that asking again would not change.
func (c Client) insist(ctx context.Context, q question) (string, error) {
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
		var again bool
		if text, again, err = c.once(ctx, q); err == nil || !again {
			return text, err
		}
	}
	return "", fmt.Errorf("%w (asked %d times)", err, attempts)
}

// once asks once. again tells whether another attempt could have another outcome.
func (c Client) once(ctx context.Context, q question) (text string, again bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no answer within %v", answerWithin))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, q.method, address(q.path), nil)
	if err != nil {
		return "", false, err
	}
	for name, values := range q.header {
		request.Header[name] = values
	}
	answer, err := (&http.Transport{DialContext: c.Dial, DisableKeepAlives: true}).RoundTrip(request) // without Proxy: none
	if err == nil {
		defer answer.Body.Close()
		var body []byte
		body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
		text = strings.TrimSpace(string(body))
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err != nil {
		return "", true, fmt.Errorf("asking %s: %w", address(q.path), err)
	}
	if answer.StatusCode != http.StatusOK {
		again = answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests
		return "", again, fmt.Errorf("asking %s: the answer is %s: %q", address(q.path), answer.Status, shorten.Text(text, shorten.Quoted))
	}
	if text == "" {
		return "", true, fmt.Errorf("asking %s: the answer is empty", address(q.path))
	}
	return text, false, nil
}

func address(path string) string { return "http://" + platform.MetadataAddress + "/" + path }
