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

// Limits of requests whose token is not known to be good: each costs the API server a review. What the API server said of a token counts
// for a minute (controller-runtime's filter), so that whoever is known costs little however often it asks.
const (
	attemptsOfOne, attemptsOfOneEvery = 10, 10 * time.Second
	attempts, attemptsEvery           = 40, time.Second
	// knownFor is how long a token is known after its last good request.
	knownFor = 10 * time.Minute
	// maxKnown bounds tokens and addresses that are remembered, of each kind.
	maxKnown = 1024
)

// gate stands before the question to the API server who somebody is. It lets in at once whose token was good lately, and of others only a
// few, counted by address and in all, so that strangers can neither keep the API server busy by asking for metrics nor keep Prometheus out.
type gate struct {
	mu sync.Mutex
	// good is when the API server accepted a token last, by its hash.
	good map[[sha256.Size]byte]time.Time
	// of are the limits of addresses.
	of  map[netip.Prefix]*rate.Limiter
	all *rate.Limiter
}

func newGate() *gate {
	return &gate{good: map[[sha256.Size]byte]time.Time{}, of: map[netip.Prefix]*rate.Limiter{}, all: rate.NewLimiter(rate.Every(attemptsEvery), attempts)}
}

// acceptedKey is that of the *bool in a request's context which says that the request was answered.
type acceptedKey struct{}

// before puts the gate before a filter that calls the handler for who is authorized.
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
		if !g.lets(key, sourceOf(r.RemoteAddr)) {
			w.Header().Set("Retry-After", "30")
			refuse(w, "Too many requests with tokens that are not known", http.StatusTooManyRequests)
			return
		}
		r.Header.Del("Sec-Websocket-Protocol") // a second place for a token
		var accepted bool
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), acceptedKey{}, &accepted)))
		g.learn(key, accepted)
	}), nil
}

// refuse answers, and closes the connection: strangers shall not keep it.
func refuse(w http.ResponseWriter, text string, code int) {
	w.Header().Set("Connection", "close")
	http.Error(w, text, code)
}

// lets tells whether the API server may be asked about a token.
func (g *gate) lets(token [sha256.Size]byte, source netip.Prefix) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, known := g.good[token]; known && time.Since(at) < knownFor {
		return true
	}
	limit := g.of[source]
	if limit == nil {
		if len(g.of) >= maxKnown {
			clear(g.of) // the limit of all still holds
		}
		limit = rate.NewLimiter(rate.Every(attemptsOfOneEvery), attemptsOfOne)
		g.of[source] = limit
	}
	return limit.Allow() && g.all.Allow()
}

// learn takes notice of what became of a token.
func (g *gate) learn(token [sha256.Size]byte, good bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !good {
		delete(g.good, token)
		return
	}
	if _, known := g.good[token]; !known && len(g.good) >= maxKnown {
		clear(g.good) // they become known again one by one
	}
	g.good[token] = time.Now()
}

// sourceOf is the address of a client, or the network of 64 bits of which it can choose one.
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
	source, _ := address.Prefix(bits) // both are lengths of such addresses
	return source
}

// boundedListener closes connections beyond a number at once.
type boundedListener struct {
	net.Listener
	all, each int

	mu   sync.Mutex
	open int
	of   map[netip.Prefix]int
}

func newBoundedListener(l net.Listener, all, each int) *boundedListener {
	return &boundedListener{Listener: l, all: all, each: each, of: map[netip.Prefix]int{}}
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
	if l.open >= l.all || l.of[source] >= l.each {
		return false
	}
	l.open++
	l.of[source]++
	return true
}

func (l *boundedListener) leave(source netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.of[source]--; l.of[source] == 0 {
		delete(l.of, source)
	}
}

// countedConn says when it is closed.
type countedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
