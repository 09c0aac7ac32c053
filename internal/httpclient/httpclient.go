// Package httpclient makes the HTTP clients of all programs. They follow no redirects: credentials go with each request that a client of
// Kubernetes sends, whatever its host, and what answers in the end is often not trusted: the API server hands on what a kubelet says. Image
// registries, which do send clients elsewhere, have a client of their own, internal/registryclient.
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

	"github.com/windows-machine-config/wmco/internal/shorten"
)

// maxHeader is how long the headers of an answer may be, in bytes. Go's own limit is 10 MiB.
const maxHeader = 256 << 10

// New makes a client. Each of its requests has this time, reading the answer included; with zero, the time that its context has.
func New(transport http.RoundTripper, timeout time.Duration) *http.Client {
	return &http.Client{Transport: RefuseRedirects(transport), Timeout: timeout}
}

// Transport makes connections with these TLS settings, over the proxy of the environment.
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

// RefuseRedirects makes an error, a Redirect, of each answer that sends the request elsewhere. It is for clients that New does not make:
// rest.Config.Wrap has all clients of a configuration use it.
func RefuseRedirects(transport http.RoundTripper) http.RoundTripper { return refusing{transport} }

type refusing struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.RoundTripper.RoundTrip(request)
	if err != nil || answer.StatusCode/100 != 3 || answer.StatusCode == http.StatusNotModified {
		return answer, err
	}
	_ = answer.Body.Close()
	to, err := answer.Location()
	if err != nil {
		to = &url.URL{}
	}
	return nil, &Redirect{Status: answer.StatusCode, From: request.URL, To: to}
}

// WrappedRoundTripper implements the interface by which client-go finds the idle connections inside.
func (r refusing) WrappedRoundTripper() http.RoundTripper { return r.RoundTripper }

// Redirect says that a server answered a request by sending it elsewhere.
type Redirect struct {
	Status int
	// From was asked. To is what it names; without a host if that is no address.
	From, To *url.URL
}

// Error implements error.
func (r *Redirect) Error() string { return r.By(r.From.Host) }

// By is the message where the server has another name. Of the address, it tells the host only: the rest may be a secret.
func (r *Redirect) By(who string) string {
	to := "no address"
	if r.To.Host != "" {
		to = shorten.Printable(r.To.Host, shorten.Quoted)
	}
	return fmt.Sprintf("%s sends the request elsewhere (to %s), which is not followed", who, to)
}

// ToFolder says whether the request was for a folder, which Go's file server, and so the kubelet, has with a slash at its end.
func (r *Redirect) ToFolder() bool {
	return r.To.Host == r.From.Host && !strings.HasSuffix(r.From.Path, "/") && strings.HasSuffix(r.To.Path, "/") && path.Base(r.To.Path) == path.Base(r.From.Path)
}
