package dashboard

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// guard admits only the user's browser, which has the address with the token that was printed on the user's terminal. Other programs and users
// of this machine and pages of other origins in the same browser are refused. It uses no cookie: browsers send those of 127.0.0.1 to all of its
// ports, where other users may run servers.
type guard struct {
	hosts []string // allowed Host headers

	mu      sync.Mutex
	token   string // empty once used
	session string
}

// newGuard returns a guard for a server that listens on an address.
func newGuard(address net.Addr) *guard {
	_, port, _ := net.SplitHostPort(address.String())
	return &guard{hosts: []string{address.String(), net.JoinHostPort("localhost", port)}, token: rand.Text(), session: rand.Text()}
}

// loginPath is the prefix of the path with the token; sessionPath is the prefix of all other paths, which contain the session's secret.
const (
	loginPath   = "/login/"
	sessionPath = "/s/"
)

// link returns the address that admits a browser, once.
func (g *guard) link() string { return "http://" + g.hosts[0] + loginPath + g.token }

// refusal returns the status and the reason with which a request is refused; zero if it is accepted.
func (g *guard) refusal(r *http.Request) (status int, reason string) {
	if r.Method != http.MethodGet {
		return http.StatusMethodNotAllowed, "only GET is allowed: this page changes nothing"
	}
	// With DNS rebinding, a browser sends requests here with the attacker's name in Host.
	if !slices.Contains(g.hosts, r.Host) {
		return http.StatusMisdirectedRequest, "this page is served at " + g.hosts[0] + " only"
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return http.StatusForbidden, "requests from other origins are refused"
	}
	login := strings.HasPrefix(r.URL.Path, loginPath)
	if site := r.Header.Get("Sec-Fetch-Site"); !login && site != "" && site != "same-origin" && site != "none" {
		return http.StatusForbidden, "requests from other sites are refused"
	}
	if _, known := g.inside(r); !login && !known {
		return http.StatusUnauthorized, "open the address that kubectl windows dashboard printed; it works once. For a new address, run the command again."
	}
	return 0, ""
}

// inside returns the path below that of the session, if the request has the session's secret.
func (g *guard) inside(r *http.Request) (path string, known bool) {
	rest, isSession := strings.CutPrefix(r.URL.Path, sessionPath)
	secret, path, found := strings.Cut(rest, "/")
	return "/" + path, isSession && found && equal(secret, g.session)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// redeem exchanges the token for the path of the session. The token works only once, since other users may see it on the browser's command line.
func (g *guard) redeem(token string) (path string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == "" || !equal(token, g.token) {
		return "", false
	}
	g.token = ""
	return sessionPath + g.session + "/", true
}

// harden sets the headers of every response: nothing is loaded from elsewhere, inline scripts do not run, and no other page can embed or read
// this one.
func harden(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), clipboard-read=()")
	h.Set("Cache-Control", "no-store")
}
