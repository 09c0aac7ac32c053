// Package registryclient implements a client of image registries, as in the OCI distribution specification: with TLS, credentials and a proxy.
// It does not trust registries: headers, redirects, realms and tokens are limited, and credentials are sent only to the host they are for and to
// the authority that it names.
package registryclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
)

// Limits of requests to registries.
const (
	dialTimeout  = 10 * time.Second // also of the TLS handshake
	maxRedirects = 5
	connections  = 32
	recordSize   = 16 << 10 // of TLS
	maxHeader    = 64 << 10
	// remembered is how long an accepted password is cached.
	remembered    = 10 * time.Minute
	maxRemembered = 4096
)

// Errors of requests to registries.
var (
	ErrNotFound     = errors.New("not found (status 404)")
	ErrUnauthorized = errors.New(mirrors.RefusesCredentials)
	ErrNoHead       = errors.New("HEAD requests are not supported")
	// ErrTooManyRequests means that the registry asks its clients to wait. Requests before the time that it names make the wait longer.
	ErrTooManyRequests = errors.New("the registry limits requests (status 429)")
)

// Dial opens connections.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Options configure a client.
type Options struct {
	// Agent is the client's User-Agent.
	Agent string
	// Keyring holds the credentials in the format of .dockerconfigjson.
	Keyring []byte
	// PasswordFirst sends a host's password before the host requests it, which saves a request. The host could get the password by requesting
	// it, so no one else learns it. The password is never sent to a host whose certificate is not verified.
	PasswordFirst bool
	// Proxy holds the environment variables that configure the proxy.
	Proxy map[string]string
	// Certificates are trusted in addition to those of the host, as PEM.
	Certificates string
	// Dial opens connections to registries or to the proxy.
	Dial Dial
	// Check returns an error if a request must not be sent; nil allows all.
	Check func(context.Context, Hop) error
}

// Hop is one request for a Request, which may take several.
type Hop struct {
	URL *url.URL
	// From is the URL that led to this one: by a redirect, or by naming an authority for tokens. It is nil for the first request.
	From          *url.URL
	IsTokenServer bool
	// IsProxied means that a proxy connects, which may resolve names differently from this machine.
	IsProxied bool
	// Part and Reference are those of the Request.
	Part, Reference string
}

// Client queries registries.
type Client struct {
	agent   string
	keyring mirrors.Keyring
	// passwordFirst is Options.PasswordFirst.
	passwordFirst bool
	proxy         func(*url.URL) (*url.URL, error)
	roots         *x509.CertPool
	dial          Dial
	check         func(context.Context, Hop) error
	tokens        *cache.LRUExpireCache // authorization headers by tokenKey
	// plain holds the hosts that responded without TLS.
	plain *cache.LRUExpireCache

	mu         sync.Mutex
	transports map[trust]*http.Transport
}

// trust defines which certificates are accepted.
type trust struct {
	insecure bool
	ca       string
}

// New returns a client.
func New(o Options) *Client {
	environment := httpproxy.Config{HTTPProxy: o.Proxy[proxy.HTTPProxy], HTTPSProxy: o.Proxy[proxy.HTTPSProxy], NoProxy: o.Proxy[proxy.NoProxy]}
	if o.Check == nil {
		o.Check = func(context.Context, Hop) error { return nil }
	}
	return &Client{
		agent: o.Agent, keyring: mirrors.ReadKeyring(o.Keyring), passwordFirst: o.PasswordFirst, proxy: environment.ProxyFunc(), roots: rootsWith(nil, o.Certificates), dial: o.Dial, check: o.Check,
		tokens: cache.NewLRUExpireCache(maxRemembered), plain: cache.NewLRUExpireCache(maxRemembered), transports: map[trust]*http.Transport{},
	}
}

// rootsWith adds certificates to a pool, or to the host's pool. Go checks with Windows first, then with the added certificates.
func rootsWith(pool *x509.CertPool, more string) *x509.CertPool {
	if pool == nil {
		var err error
		if pool, err = x509.SystemCertPool(); err != nil {
			pool = x509.NewCertPool()
		}
	}
	pool = pool.Clone()
	pool.AppendCertsFromPEM([]byte(more))
	return pool
}

func (c *Client) transport(t trust) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.transports[t]; have != nil {
		return have
	}
	roots := c.roots
	if t.ca != "" {
		roots = rootsWith(roots, t.ca)
	}
	made := &http.Transport{
		Proxy:       func(r *http.Request) (*url.URL, error) { return c.proxy(r.URL) },
		DialContext: c.dial, TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: t.insecure},
		// Content must match its digest, so it must not be encoded.
		DisableCompression: true, MaxIdleConnsPerHost: connections, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: maxHeader, ReadBufferSize: recordSize,
	}
	c.transports[t] = made
	return made
}

// CloseIdleConnections closes idle connections. Requests in progress continue.
func (c *Client) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}

// Request is a request to a registry.
type Request struct {
	Method string
	// Part of the distribution API, such as manifests; Reference is a tag or a digest.
	Part, Reference string
	Query           url.Values
	Accept          []string
	// From and To limit the requested bytes; To is -1 for the rest.
	From, To int64
	// User and Password are for the image's source and take precedence over the keyring, if set.
	User, Password string
}

var (
	digest = regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)
	tag    = regexp.MustCompile(`^\w[\w.-]{0,127}$`)
)

// IsDigest reports whether a text is the digest of a content.
func IsDigest(text string) bool { return digest.MatchString(text) }

// IsTag reports whether a text is the tag of an image.
func IsTag(text string) bool { return tag.MatchString(text) }

// URL returns the URL of the request.
func (q Request) URL(scheme string, a mirrors.Attempt) *url.URL {
	return &url.URL{Scheme: scheme, Host: a.Host, Path: "/v2/" + a.Repository + "/" + q.Part + "/" + q.Reference, RawQuery: q.Query.Encode()}
}

// Do sends a request and returns a response with status 200, or 206 for a range. ctx must limit the wait.
func (c *Client) Do(ctx context.Context, q Request, a mirrors.Attempt) (*http.Response, error) {
	schemes := []string{"https"}
	if a.Insecure {
		schemes = []string{"https", "http"}
		if _, isPlain := c.plain.Get(a.Host); isPlain {
			schemes = []string{"http", "https"}
		}
	}
	var err error
	for _, scheme := range schemes {
		var response *http.Response
		response, err = c.authorized(ctx, q, a, call{url: q.URL(scheme, a), request: q, trust: trust{a.Insecure, a.CA}})
		var failed *url.Error
		if err == nil || !errors.As(err, &failed) || ctx.Err() != nil {
			if scheme == "http" {
				c.plain.Add(a.Host, nil, remembered)
			}
			return response, err
		}
	}
	return nil, err
}

// call is one HTTP request to a registry.
type call struct {
	request       Request
	url           *url.URL
	authorization string
	trust         trust
}

// send sends a request and follows redirects. Credentials are sent to the original host only.
func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	var from *url.URL
	at, q := k.url, k.request
	for range maxRedirects + 1 {
		if err := c.check(ctx, c.hop(k, from, at)); err != nil {
			return nil, err
		}
		r, err := http.NewRequestWithContext(ctx, q.Method, at.String(), nil)
		if err != nil {
			return nil, errors.New("redirect to an invalid URL")
		}
		r.Header["Accept"] = q.Accept
		r.Header.Set("User-Agent", c.agent)
		if q.From > 0 || q.To >= 0 {
			r.Header.Set("Range", "bytes="+strconv.FormatInt(q.From, 10)+"-"+upTo(q.To))
		}
		if at.Host == k.url.Host && at.Scheme == k.url.Scheme && k.authorization != "" {
			r.Header.Set("Authorization", k.authorization)
		}
		response, err := c.transport(k.trust).RoundTrip(r)
		if err != nil {
			return nil, &url.Error{Op: q.Method, URL: at.Scheme + "://" + at.Host, Err: err}
		}
		if !isRedirect(response.StatusCode) {
			return response, nil
		}
		next, err := response.Location()
		discard(response)
		if err != nil {
			return nil, errors.New("redirect to an invalid URL")
		}
		if next.Scheme != "https" && (next.Scheme != "http" || at.Scheme != "http" && !k.trust.insecure) {
			return nil, fmt.Errorf("redirect to insecure scheme %.20q", next.Scheme)
		}
		next.User = nil
		from, at = at, next
	}
	return nil, fmt.Errorf("more than %d redirects", maxRedirects)
}

// hop returns the hop to a URL. If its proxy cannot be determined, the request fails later.
func (c *Client) hop(k call, from, to *url.URL) Hop {
	proxyURL, err := c.proxy(to)
	return Hop{URL: to, From: from, IsProxied: err == nil && proxyURL != nil, Part: k.request.Part, Reference: k.request.Reference}
}

func upTo(end int64) string {
	if end < 0 {
		return ""
	}
	return strconv.FormatInt(end, 10)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// discard reads a little of the response, so that its connection can be reused, and closes it.
func discard(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, 4096)
	_ = response.Body.Close()
}

// checkStatus returns an error for a response without content. The error contains no text from the registry.
func checkStatus(response *http.Response, method string) error {
	switch s := response.StatusCode; {
	case response.Header.Get("Content-Encoding") != "" && response.Header.Get("Content-Encoding") != "identity":
		return errors.New("the response has a content encoding that was not requested")
	case s == http.StatusOK || s == http.StatusPartialContent:
		return nil
	case s == http.StatusNotFound:
		return ErrNotFound
	case s == http.StatusUnauthorized:
		return ErrUnauthorized
	case s == http.StatusTooManyRequests:
		return ErrTooManyRequests
	case method == http.MethodHead && (s == http.StatusMethodNotAllowed || s == http.StatusNotImplemented):
		return ErrNoHead
	default:
		return fmt.Errorf("responded with status %d %s", s, http.StatusText(s))
	}
}
