package dashboard

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
)

//go:embed assets report.html
var assets embed.FS

const (
	// maxStreams limits the pages that can be open at the same time.
	maxStreams = 8
	// minPause is the minimum time between two updates of a page.
	minPause = 150 * time.Millisecond
	// keepAlive is how often an idle stream sends data, so that the browser detects its end.
	keepAlive = 15 * time.Second
	// writeDeadline is how long a browser may take to receive one update.
	writeDeadline = 10 * time.Second
)

type server struct {
	*guard
	hub    *hub
	client client.WithWatch
	files  *nodefiles.Client
	now    func() time.Time

	mu      sync.Mutex
	streams int
	last    time.Time // when a page was last open
}

// contentTypes maps extensions of the page's files to content types. The types that this machine knows may differ.
func contentTypes() map[string]string {
	return map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
}

// ServeHTTP implements http.Handler. It serves no other paths than these.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	if status, reason := s.refusal(r); status != 0 {
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodGet)
		}
		http.Error(w, reason, status)
		return
	}
	s.touch()
	if token, isLogin := strings.CutPrefix(r.URL.Path, loginPath); isLogin {
		s.login(w, token)
		return
	}
	switch page, _ := s.inside(r); page {
	case "/":
		s.asset(w, "index.html")
	case "/api/events":
		s.stream(w, r)
	case "/api/logs":
		s.log(w, r)
	default:
		name, isAsset := strings.CutPrefix(page, "/assets/")
		if !isAsset {
			http.Error(w, "page not found", http.StatusNotFound)
			return
		}
		s.asset(w, name)
	}
}

func (s *server) touch() {
	s.mu.Lock()
	s.last = s.now()
	s.mu.Unlock()
}

// idle returns for how long no page has been open.
func (s *server) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams > 0 {
		return 0
	}
	return s.now().Sub(s.last)
}

// login leads to the page. A redirect would count as a request from the site that the browser came from, which is refused.
func (s *server) login(w http.ResponseWriter, token string) {
	session, ok := s.redeem(token)
	if !ok {
		http.Error(w, "this address has already been used, or is incomplete. For a new address, run kubectl windows dashboard again.", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=%[1]s"><title>Windows nodes</title><a href="%[1]s">Windows nodes</a></html>`, session)
}

func (s *server) asset(w http.ResponseWriter, name string) {
	kind, known := contentTypes()[path.Ext(name)]
	content, err := assets.ReadFile("assets/" + name)
	if !known || err != nil {
		http.Error(w, "file not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(content)
}

// stream sends the fleet, or one host, whenever it changes, as server-sent events.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	if !s.open() {
		http.Error(w, fmt.Sprintf("at most %d pages can be open", maxStreams), http.StatusServiceUnavailable)
		return
	}
	defer s.close()
	w.Header().Set("Content-Type", "text/event-stream")
	p := page{server: s, w: w, control: http.NewResponseController(w), host: r.URL.Query().Get("host")}
	if err := p.follow(r.Context()); err != nil && r.Context().Err() == nil {
		_ = p.send("failed", map[string]string{"error": err.Error()})
	}
}

func (s *server) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams >= maxStreams {
		return false
	}
	s.streams++
	return true
}

func (s *server) close() {
	s.mu.Lock()
	s.streams--
	s.last = s.now()
	s.mu.Unlock()
}

func (s *server) log(w http.ResponseWriter, r *http.Request) {
	snapshot, _, err := s.hub.current()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h, found := snapshot.fleet.Find(r.URL.Query().Get("host"))
	if !found || h.Node == "" {
		http.Error(w, "node not found", http.StatusNotFound)
		return
	}
	answer := s.tail(r.Context(), h.Node, r.URL.Query().Get("service"))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
