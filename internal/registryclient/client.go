// Package registryclient asks image registries, as the OCI distribution specification has it: over TLS, with the credentials
// of the place, through a proxy. What registries send is not trusted: headers, redirects, realms and tokens have bounds, and
// credentials go to the host they are for and the authority that it names, and nowhere else.
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

	"github.com/windows-machine-config/wmco/internal/mirrors"
	"github.com/windows-machine-config/wmco/internal/proxy"
)

// Limits of what is asked of registries.
const (
	dialTimeout  = 10 * time.Second // of TLS
	maxRedirects = 5
	connections  = 32
	recordSize   = 16 << 10 // of TLS
	maxHeader    = 64 << 10
	// remembered is how long a password counts that was accepted.
	remembered    = 10 * time.Minute
	maxRemembered = 4096
)

// How a registry did not give what it was asked for.
var (
	ErrNotFound     = errors.New("not found (status 404)")
	ErrUnauthorized = errors.New(mirrors.RefusesCredentials)
	ErrNoHead       = errors.New("it does not answer HEAD")
)

// Dial makes connections.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Options are what a client works with.
type Options struct {
	// Agent is how the client calls itself.
	Agent string
	// Keyring holds the credentials, as .dockerconfigjson.
	Keyring []byte
	// PasswordFirst sends the password of a host before the host asks for one. That saves a request where one is all that is wanted. The host could
	// have the password by asking for it, so it goes to nobody else; it is never sent to a host whose certificate is not verified.
	PasswordFirst bool
	// Proxy are the variables of the environment that say how to reach registries.
	Proxy map[string]string
	// Certificates are trusted besides those of the host, as PEM.
	Certificates string
	// Dial makes connections to registries, or to the proxy.
	Dial Dial
	// Check says whether a request may be sent; nil allows all.
	Check func(context.Context, Hop) error
}

// Hop is one request on the way to what is asked for.
type Hop struct {
	URL *url.URL
	// From sends the request to this URL: by a redirect, or because it takes tokens of an authority there. It is nil for what is asked first.
	From        *url.URL
	IsAuthority bool
	// IsProxied says that a proxy connects, which may resolve names in another way than this machine.
	IsProxied bool
	// Part and Reference are those of the Request.
	Part, Reference string
}

// Client asks registries.
type Client struct {
	agent   string
	keyring mirrors.Keyring
	// passwordFirst is Options.PasswordFirst.
	passwordFirst bool
	proxy         func(*url.URL) (*url.URL, error)
	roots         *x509.CertPool
	dial          Dial
	check         func(context.Context, Hop) error
	tokens        *Recent[tokenKey, string]
	// plain are the hosts that answered without TLS.
	plain *Recent[string, bool]

	mu         sync.Mutex
	transports map[trust]*http.Transport
}

// trust says which certificates are good.
type trust struct {
	insecure bool
	ca       string
}

// New makes a client.
func New(o Options) *Client {
	environment := httpproxy.Config{HTTPProxy: o.Proxy[proxy.HTTPProxy], HTTPSProxy: o.Proxy[proxy.HTTPSProxy], NoProxy: o.Proxy[proxy.NoProxy]}
	if o.Check == nil {
		o.Check = func(context.Context, Hop) error { return nil }
	}
	return &Client{
		agent: o.Agent, keyring: mirrors.ReadKeyring(o.Keyring), passwordFirst: o.PasswordFirst, proxy: environment.ProxyFunc(), roots: rootsWith(nil, o.Certificates), dial: o.Dial, check: o.Check,
		tokens: NewRecent[tokenKey, string](maxRemembered, remembered), plain: NewRecent[string, bool](maxRemembered, remembered), transports: map[trust]*http.Transport{},
	}
}

// rootsWith adds certificates to a pool, or to that of the host. Go asks Windows first, then those that were added.
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
		// Content is what its digest says: it must come as it is.
		DisableCompression: true, MaxIdleConnsPerHost: connections, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: maxHeader, ReadBufferSize: recordSize,
	}
	c.transports[t] = made
	return made
}

// Retire closes connections that are idle. Requests under way go on.
func (c *Client) Retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}

// Request is what a registry is asked for.
type Request struct {
	Method string
	// Part of the distribution API, as manifests; Reference is a tag or a digest.
	Part, Reference string
	Query           url.Values
	Accept          []string
	// From and To bound the bytes that are wanted; To is -1 for all the rest.
	From, To int64
	// User and Password are those for the image's source, where there are some that count more than the keyring.
	User, Password string
}

// IsDigest says whether a text is the digest of a content.
func IsDigest(text string) bool {
	return regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`).MatchString(text)
}

// IsTag says whether a text is the tag of an image.
func IsTag(text string) bool { return regexp.MustCompile(`^\w[\w.-]{0,127}$`).MatchString(text) }

// URL is where the request goes.
func (q Request) URL(scheme string, a mirrors.Attempt) *url.URL {
	return &url.URL{Scheme: scheme, Host: a.Host, Path: "/v2/" + a.Repository + "/" + q.Part + "/" + q.Reference, RawQuery: q.Query.Encode()}
}

// Do asks a place, and returns an answer with status 200, or 206 where a part was asked for. ctx must end the wait for it.
func (c *Client) Do(ctx context.Context, q Request, a mirrors.Attempt) (*http.Response, error) {
	schemes := []string{"https"}
	if a.Insecure {
		schemes = []string{"https", "http"}
		if isPlain, _ := c.plain.Get(a.Host); isPlain {
			schemes = []string{"http", "https"}
		}
	}
	var err error
	for _, scheme := range schemes {
		var answer *http.Response
		answer, err = c.authorized(ctx, q, a, call{url: q.URL(scheme, a), request: q, trust: trust{a.Insecure, a.CA}})
		var failed *url.Error
		if err == nil || !errors.As(err, &failed) || ctx.Err() != nil {
			if scheme == "http" {
				c.plain.Put(a.Host, true)
			}
			return answer, err
		}
	}
	return nil, err
}

// call is one request of a registry.
type call struct {
	request       Request
	url           *url.URL
	authorization string
	trust         trust
}

// send sends a request and follows redirects. Credentials go to the host that was asked, and nowhere else.
func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	var from *url.URL
	at, q := k.url, k.request
	for range maxRedirects + 1 {
		if err := c.check(ctx, c.hop(k, from, at)); err != nil {
			return nil, err
		}
		r, err := http.NewRequestWithContext(ctx, q.Method, at.String(), nil)
		if err != nil {
			return nil, errors.New("it sends on to what is no address")
		}
		r.Header["Accept"] = q.Accept
		r.Header.Set("User-Agent", c.agent)
		if q.From > 0 || q.To >= 0 {
			r.Header.Set("Range", "bytes="+strconv.FormatInt(q.From, 10)+"-"+upTo(q.To))
		}
		if at.Host == k.url.Host && at.Scheme == k.url.Scheme && k.authorization != "" {
			r.Header.Set("Authorization", k.authorization)
		}
		answer, err := c.transport(k.trust).RoundTrip(r)
		if err != nil {
			return nil, &url.Error{Op: q.Method, URL: at.Scheme + "://" + at.Host, Err: err}
		}
		if !isRedirect(answer.StatusCode) {
			return answer, nil
		}
		next, err := answer.Location()
		discard(answer)
		if err != nil {
			return nil, errors.New("it sends on to what is no address")
		}
		if next.Scheme != "https" && (next.Scheme != "http" || at.Scheme != "http" && !k.trust.insecure) {
			return nil, fmt.Errorf("it sends on to %.20q, which is no secure address", next.Scheme)
		}
		next.User = nil
		from, at = at, next
	}
	return nil, fmt.Errorf("it sends on more than %d times", maxRedirects)
}

// hop is a request to a URL. A URL whose proxy cannot be told is sent to none, and fails.
func (c *Client) hop(k call, from, to *url.URL) Hop {
	by, err := c.proxy(to)
	return Hop{URL: to, From: from, IsProxied: err == nil && by != nil, Part: k.request.Part, Reference: k.request.Reference}
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

// discard reads a little of what an answer says, so that its connection can be used again, and closes it.
func discard(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, 4096)
	_ = answer.Body.Close()
}

// checkStatus says what an answer that gives nothing means. Nothing that a registry writes is in it.
func checkStatus(answer *http.Response, method string) error {
	switch s := answer.StatusCode; {
	case answer.Header.Get("Content-Encoding") != "" && answer.Header.Get("Content-Encoding") != "identity":
		return errors.New("it sends the content encoded, though that was not asked for")
	case s == http.StatusOK || s == http.StatusPartialContent:
		return nil
	case s == http.StatusNotFound:
		return ErrNotFound
	case s == http.StatusUnauthorized:
		return ErrUnauthorized
	case method == http.MethodHead && (s == http.StatusMethodNotAllowed || s == http.StatusNotImplemented):
		return ErrNoHead
	default:
		return fmt.Errorf("it answers with status %d %s", s, http.StatusText(s))
	}
}
