// Package httpclient creates the HTTP clients of all programs. They follow no redirects: Kubernetes clients send credentials with each request,
// whatever its host, and the final response is often untrusted, because the API server forwards responses of kubelets. Image registries do
// redirect clients; internal/shared/registryclient is the client for them.
package httpclient

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// maxHeader is the maximum length of response headers, in bytes. Go's default is 10 MiB.
const maxHeader = 256 << 10

// New returns a client. The timeout applies to each request, including reading the response; with zero, only the context limits it.
func New(transport http.RoundTripper, timeout time.Duration) *http.Client {
	return &http.Client{Transport: RefuseRedirects(transport), Timeout: timeout}
}

// Transport returns a transport with these TLS settings and the proxy of the environment.
func Transport(config *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
	}
}

// RefuseRedirects turns each redirect response into an error, a Redirect. It is for clients that New does not create: with rest.Config.Wrap, all
// clients of a configuration use it.
func RefuseRedirects(transport http.RoundTripper) http.RoundTripper { return refusing{transport} }

type refusing struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode/100 != 3 || response.StatusCode == http.StatusNotModified {
		return response, err
	}
	_ = response.Body.Close()
	to, err := response.Location()
	if err != nil {
		to = &url.URL{}
	}
	return nil, &Redirect{Status: response.StatusCode, From: request.URL, To: to}
}

// WrappedRoundTripper implements the interface by which client-go finds the idle connections inside.
func (r refusing) WrappedRoundTripper() http.RoundTripper { return r.RoundTripper }

// Redirect means that a server responded with a redirect.
type Redirect struct {
	Status int
	// From is the requested URL. To is the redirect's target; it has no host if the target is not a valid address.
	From, To *url.URL
}

// Error implements error.
func (r *Redirect) Error() string { return r.By(r.From.Host) }

// By returns the message with another name for the server. It contains only the host of the target: the rest may be secret.
func (r *Redirect) By(server string) string {
	to := "no address"
	if r.To.Host != "" {
		to = truncate.Printable(r.To.Host, truncate.Quoted)
	}
	return fmt.Sprintf("%s redirects the request (to %s); redirects are not followed", server, to)
}

// ToFolder reports whether the request was for a folder: Go's file server, and so the kubelet, redirects to the path with a trailing slash.
func (r *Redirect) ToFolder() bool {
	return r.To.Host == r.From.Host && !strings.HasSuffix(r.From.Path, "/") && strings.HasSuffix(r.To.Path, "/") && path.Base(r.To.Path) == path.Base(r.From.Path)
}
