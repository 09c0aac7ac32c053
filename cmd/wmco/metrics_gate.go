package main

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of requests whose token is not known to be good: each costs the API server a review. controller-runtime's filter caches the result for
// a minute, so a known client costs little however often it sends requests.
const (
	attemptsPerSource, attemptIntervalPerSource = 10, 10 * time.Second
	attempts, attemptInterval                   = 40, time.Second
	// tokenLifetime is how long a token stays known after its last accepted request.
	tokenLifetime = 10 * time.Minute
	// maxKnown bounds the number of remembered tokens and addresses, each.
	maxKnown = 1024
)

// gate limits token reviews. It admits recently accepted tokens at once, and only a few others, counted per address and in total, so that
// unknown clients can neither overload the API server with metrics requests nor lock out Prometheus.
type gate struct {
	mu sync.Mutex
	// good maps the hash of a token to the time at which the API server last accepted it.
	good map[[sha256.Size]byte]time.Time
	// perSource holds the limit of each address.
	perSource map[netip.Prefix]*rate.Limiter
	all       *rate.Limiter
}

func newGate() *gate {
	return &gate{good: map[[sha256.Size]byte]time.Time{}, perSource: map[netip.Prefix]*rate.Limiter{}, all: rate.NewLimiter(rate.Every(attemptInterval), attempts)}
}

// acceptedKey is the context key of a *bool that records whether the request was authorized.
type acceptedKey struct{}

// before puts the gate before a filter that calls the handler for authorized requests.
func (g *gate) before(filter func(http.Handler) (http.Handler, error), handler http.Handler) (http.Handler, error) {
	inner, err := filter(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accepted, ok := r.Context().Value(acceptedKey{}).(*bool); ok {
			*accepted = true
		}
		handler.ServeHTTP(w, r)
	}))
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			refuse(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		key := sha256.Sum256([]byte(token))
		if !g.allows(key, sourceOf(r.RemoteAddr)) {
			w.Header().Set("Retry-After", "30")
			refuse(w, "Too many requests with unknown tokens", http.StatusTooManyRequests)
			return
		}
		r.Header.Del("Sec-Websocket-Protocol") // another place for a token
		var accepted bool
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), acceptedKey{}, &accepted)))
		g.record(key, accepted)
	}), nil
}

// refuse responds and closes the connection, so that unknown clients cannot hold it.
func refuse(w http.ResponseWriter, text string, code int) {
	w.Header().Set("Connection", "close")
	http.Error(w, text, code)
}

// allows reports whether the API server may review a token.
func (g *gate) allows(token [sha256.Size]byte, source netip.Prefix) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, known := g.good[token]; known && time.Since(at) < tokenLifetime {
		return true
	}
	limit := g.perSource[source]
	if limit == nil {
		if len(g.perSource) >= maxKnown {
			clear(g.perSource) // the overall limit still applies
		}
		limit = rate.NewLimiter(rate.Every(attemptIntervalPerSource), attemptsPerSource)
		g.perSource[source] = limit
	}
	return limit.Allow() && g.all.Allow()
}

func (g *gate) record(token [sha256.Size]byte, good bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !good {
		delete(g.good, token)
		return
	}
	if _, known := g.good[token]; !known && len(g.good) >= maxKnown {
		clear(g.good) // tokens become known again one by one
	}
	g.good[token] = time.Now()
}

// sourceOf returns the address of a client, or its /64 network for IPv6, where a client can choose its address.
func sourceOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 32
	address := at.Addr().Unmap().WithZone("")
	if address.Is6() {
		bits = 64
	}
	source, _ := address.Prefix(bits) // cannot fail: both are valid lengths
	return source
}

// boundedListener closes connections beyond a limit at once.
type boundedListener struct {
	net.Listener
	all, each int

	mu        sync.Mutex
	open      int
	perSource map[netip.Prefix]int
}

func newBoundedListener(l net.Listener, all, each int) *boundedListener {
	return &boundedListener{Listener: l, all: all, each: each, perSource: map[netip.Prefix]int{}}
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if source := sourceOf(c.RemoteAddr().String()); l.enter(source) {
			return &countedConn{Conn: c, leave: sync.OnceFunc(func() { l.leave(source) })}, nil
		}
		c.Close()
	}
}

func (l *boundedListener) enter(source netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.all || l.perSource[source] >= l.each {
		return false
	}
	l.open++
	l.perSource[source]++
	return true
}

func (l *boundedListener) leave(source netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.perSource[source]--; l.perSource[source] == 0 {
		delete(l.perSource, source)
	}
}

type countedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
