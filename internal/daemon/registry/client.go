package registry

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
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/windows-machine-config/wmco/internal/mirrors"
	"github.com/windows-machine-config/wmco/internal/proxy"
)

// Limits of what is asked of registries.
const (
	dialTimeout  = 10 * time.Second
	maxRedirects = 5
	bufferSize   = 64 << 10
	recordSize   = 16 << 10
	connections  = 32
)

// How a registry did not give what it was asked for.
var (
	errNotFound     = errors.New("not found (status 404)")
	errUnauthorized = errors.New(mirrors.RefusesCredentials)
	errDamaged      = errors.New("what it has is not what the digest says")
	errNoHead       = errors.New("it does not answer HEAD")
)

// client asks registries.
type client struct {
	keyring mirrors.Keyring
	proxy   func(*url.URL) (*url.URL, error)
	roots   *x509.CertPool
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	tokens  *recent[tokenKey, string]
	// plain are the hosts that answered without TLS.
	plain *recent[string, bool]

	mu         sync.Mutex
	transports map[trust]*http.Transport
}

// trust says which certificates are good.
type trust struct {
	insecure bool
	ca       string
}

func newClient(c Config, dial func(context.Context, string, string) (net.Conn, error)) *client {
	environment := httpproxy.Config{HTTPProxy: c.Proxy[proxy.HTTPProxy], HTTPSProxy: c.Proxy[proxy.HTTPSProxy], NoProxy: c.Proxy[proxy.NoProxy]}
	return &client{
		keyring: mirrors.ReadKeyring(c.Keyring), proxy: environment.ProxyFunc(), roots: rootsWith(nil, c.Certificates), dial: dial,
		tokens: newRecent[tokenKey, string](remembered), plain: newRecent[string, bool](remembered), transports: map[trust]*http.Transport{},
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

func (c *client) transport(t trust) *http.Transport {
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
		DialContext: c.dialWide, TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: t.insecure},
		// Content is what its digest says: it must come as it is.
		DisableCompression: true, MaxIdleConnsPerHost: connections, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: maxHeader, ReadBufferSize: recordSize,
	}
	c.transports[t] = made
	return made
}

// retire closes connections that are idle. Requests under way go on.
func (c *client) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}

// do asks a place, and returns an answer with status 200, or 206 where a part was asked for. ctx must end the wait for it.
func (c *client) do(ctx context.Context, q request, a mirrors.Attempt, method string, from int64) (*http.Response, error) {
	schemes := []string{"https"}
	if a.Insecure {
		schemes = []string{"https", "http"}
		if isPlain, _ := c.plain.get(a.Host); isPlain {
			schemes = []string{"http", "https"}
		}
	}
	var err error
	for _, scheme := range schemes {
		target := q.path(a.Repository)
		target.Scheme, target.Host = scheme, a.Host
		var answer *http.Response
		answer, err = c.authorized(ctx, q, a, call{method: method, url: target, accept: q.accept, from: from, to: q.end, trust: trust{a.Insecure, a.CA}})
		var failed *url.Error
		if err == nil || !errors.As(err, &failed) || ctx.Err() != nil {
			if scheme == "http" {
				c.plain.put(a.Host, true)
			}
			return answer, err
		}
	}
	return nil, err
}

// call is one request of a registry.
type call struct {
	method        string
	url           *url.URL
	accept        []string
	from, to      int64 // to is -1 for all the rest
	authorization string
	trust         trust
}

// send sends a request and follows redirects. Credentials go to the host that was asked, and nowhere else.
func (c *client) send(ctx context.Context, k call) (*http.Response, error) {
	at := k.url
	for range maxRedirects + 1 {
		r, err := http.NewRequestWithContext(ctx, k.method, at.String(), nil)
		if err != nil {
			return nil, errors.New("it sends on to what is no address")
		}
		r.Header["Accept"] = k.accept
		r.Header.Set("User-Agent", "wicd")
		if k.from > 0 || k.to >= 0 {
			r.Header.Set("Range", "bytes="+strconv.FormatInt(k.from, 10)+"-"+upTo(k.to))
		}
		if at.Host == k.url.Host && at.Scheme == k.url.Scheme && k.authorization != "" {
			r.Header.Set("Authorization", k.authorization)
		}
		answer, err := c.transport(k.trust).RoundTrip(r)
		if err != nil {
			return nil, &url.Error{Op: k.method, URL: at.Scheme + "://" + at.Host, Err: err}
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
		at = next
	}
	return nil, fmt.Errorf("it sends on more than %d times", maxRedirects)
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
		return errNotFound
	case s == http.StatusUnauthorized:
		return errUnauthorized
	case method == http.MethodHead && (s == http.StatusMethodNotAllowed || s == http.StatusNotImplemented):
		return errNoHead
	default:
		return fmt.Errorf("it answers with status %d %s", s, http.StatusText(s))
	}
}
