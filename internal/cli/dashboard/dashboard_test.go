package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
)

// openPage is a running page and its user's browser.
type openPage struct {
	t      *testing.T
	link   string
	origin string
	// session is the path prefix of the session.
	session string
}

// open starts the page for a cluster and logs in.
func open(t *testing.T, a *apiServer) *openPage {
	t.Helper()
	links := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Config: a.config(), Namespace: "wmco", Cluster: "test", Started: func(l string) { links <- l }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	o := &openPage{t: t, link: <-links}
	o.origin = o.link[:strings.Index(o.link, loginPath)]
	response := o.ask(http.MethodGet, strings.TrimPrefix(o.link, o.origin), nil)
	text, err := io.ReadAll(response.body)
	if err != nil || response.status != http.StatusOK {
		t.Fatalf("the login returns %d, %v", response.status, err)
	}
	if found := regexp.MustCompile(`content="0;url=(/s/\w+/)"`).FindSubmatch(text); found != nil {
		o.session = string(found[1])
		return o
	}
	t.Fatalf("the login returns %s", text)
	return nil
}

// do requests a path of the session, as the user's browser does, with additional headers.
func (o *openPage) do(method, path string, headers map[string]string) answer {
	o.t.Helper()
	return o.ask(method, o.session+strings.TrimPrefix(path, "/"), headers)
}

// ask requests any path.
func (o *openPage) ask(method, path string, headers map[string]string) answer {
	o.t.Helper()
	request, err := http.NewRequestWithContext(o.t.Context(), method, o.origin, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	request.URL.Opaque = path // unmodified, including dots
	for name, value := range headers {
		if request.Header.Set(name, value); name == "Host" {
			request.Host = value
		}
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = response.Body.Close() })
	return answer{status: response.StatusCode, header: response.Header, body: response.Body}
}

// answer is a response of the page. The test closes its body at its end.
type answer struct {
	status int
	header http.Header
	body   io.Reader
}

func TestUnknownRequestsAreRejected(t *testing.T) {
	o := open(t, newAPIServer(t, host("win-1", api.ReasonReady, "")))
	port := o.origin[strings.LastIndexByte(o.origin, ':'):]
	for _, test := range []struct {
		name, method, path string
		headers            map[string]string
		want               int
	}{
		{"the page", "GET", "/", nil, 200},
		{"by the other name of this machine", "GET", "/", map[string]string{"Host": "localhost" + port}, 200},
		{"its own origin", "GET", "/", map[string]string{"Origin": o.origin}, 200},
		{"a name that is rebound to this machine", "GET", "/", map[string]string{"Host": "evil.example.com" + port}, 421},
		{"another port", "GET", "/", map[string]string{"Host": "127.0.0.1:1"}, 421},
		{"a foreign origin", "GET", "/api/events", map[string]string{"Origin": "https://evil.example.com"}, 403},
		{"no origin in particular", "GET", "/api/events", map[string]string{"Origin": "null"}, 403},
		{"a foreign site", "GET", "/api/events", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"another port of this machine", "GET", "/api/events", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"POST", "POST", "/", nil, 405},
		{"OPTIONS", "OPTIONS", "/api/events", map[string]string{"Origin": "https://evil.example.com"}, 405},
		{"a file that does not exist", "GET", "/assets/secret.js", nil, 404},
		{"the folder", "GET", "/assets/", nil, 404},
		{"path traversal", "GET", "/assets/../dashboard.go", nil, 404},
		{"path traversal, encoded", "GET", "/assets/%2e%2e/%2e%2e/etc/passwd", nil, 404},
		{"path traversal with a backslash", "GET", "/assets/..%5c..%5cwin.ini", nil, 404},
		{"the API server", "GET", "/api/v1/namespaces/kube-system/secrets", nil, 404},
		{"a log that is none", "GET", "/api/logs?host=win-1&service=../../k/state/key.json", nil, 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := o.do(test.method, test.path, test.headers)
			if response.status != test.want {
				t.Errorf("status %d, want %d", response.status, test.want)
			}
			expectHardened(t, response.header)
		})
	}
}

// expectHardened checks the headers that every response must have.
func expectHardened(t *testing.T, h http.Header) {
	t.Helper()
	policy := h.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the content security policy is %q, without %s", policy, part)
		}
	}
	if strings.Contains(policy, "unsafe") || h.Get("Access-Control-Allow-Origin") != "" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("the headers are %v", h)
	}
}

func TestDashboardRequiresSession(t *testing.T) {
	o := open(t, newAPIServer(t, host("win-1", api.ReasonReady, "")))
	for _, test := range []struct {
		name, path string
		headers    map[string]string
		want       int
	}{
		{"without the session", "/", nil, 401},
		{"events without the session", "/api/events", nil, 401},
		{"another session", sessionPath + rand.Text() + "/", nil, 401},
		{"the token as a session", sessionPath + strings.TrimPrefix(o.link, o.origin+loginPath) + "/", nil, 401},
		{"the session without its slash", strings.TrimSuffix(o.session, "/"), nil, 401},
		{"no session", sessionPath, nil, 401},
		{"the session as a cookie", "/api/events", map[string]string{"Cookie": "wmco-dashboard=" + strings.Trim(strings.TrimPrefix(o.session, sessionPath), "/")}, 401},
		{"a way into the session", sessionPath + "x/../" + strings.TrimPrefix(o.session, sessionPath), nil, 401},
		{"the token a second time", strings.TrimPrefix(o.link, o.origin), nil, 403},
		{"another token", loginPath + rand.Text(), nil, 403},
		{"no token", loginPath, nil, 403},
		{"a foreign name at the login", loginPath + rand.Text(), map[string]string{"Host": "evil.example.com"}, 421},
		{"an address of another server", "//evil.example.com" + o.session + "api/events", nil, 421},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := o.ask(http.MethodGet, test.path, test.headers)
			if response.status != test.want {
				t.Errorf("status %d, want %d", response.status, test.want)
			}
			expectHardened(t, response.header)
		})
	}
}

// TestOtherPortsGetNoSecret expects no cookies: browsers send those of 127.0.0.1 to its other ports, where other users may run servers.
func TestOtherPortsGetNoSecret(t *testing.T) {
	var sent string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = fmt.Sprint(r.URL, r.Header) }))
	defer other.Close()
	page := httptest.NewServer(nil)
	defer page.Close()
	s := &server{guard: newGuard(page.Listener.Addr()), now: time.Now}
	page.Config.Handler = s
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	for _, link := range []string{s.link(), page.URL + sessionPath + s.session + "/", other.URL} {
		answer, err := browser.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Set-Cookie") != "" || link != other.URL && answer.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s gives %s, %v", link, answer.Status, answer.Header)
		}
	}
	if strings.Contains(sent, s.session) || strings.Contains(sent, "Cookie") {
		t.Errorf("the other server was sent %s", sent)
	}
}

func TestPageListensOnLoopback(t *testing.T) {
	o := open(t, newAPIServer(t))
	if origin, err := url.Parse(o.origin); err != nil || origin.Hostname() != "127.0.0.1" {
		t.Errorf("the page is at %s, want 127.0.0.1 (%v)", o.origin, err)
	}
}

// message is an event of a stream.
type message struct {
	name string
	data []byte
}

// stream returns the events of a stream.
func (o *openPage) stream(path string) <-chan message {
	o.t.Helper()
	response := o.do(http.MethodGet, path, nil)
	if response.status != http.StatusOK {
		text, _ := io.ReadAll(response.body)
		o.t.Fatalf("the stream returns %d: %s", response.status, text)
	}
	events := make(chan message)
	go func() {
		defer close(events)
		lines := bufio.NewReader(response.body)
		var m message
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			line = bytes.TrimSuffix(line, []byte("\n"))
			switch {
			case bytes.HasPrefix(line, []byte("event: ")):
				m.name = string(line[7:])
			case bytes.HasPrefix(line, []byte("data: ")):
				m.data = bytes.Clone(line[6:])
			case len(line) == 0 && m.name != "":
				select {
				case events <- m:
				case <-o.t.Context().Done():
					return
				}
				m = message{}
			}
		}
	}()
	return events
}

// until reads events until one satisfies a condition.
func until[T any](t *testing.T, events <-chan message, what string, matches func(T) bool) T {
	t.Helper()
	deadline := time.After(30 * time.Second)
	var last message
	for {
		select {
		case m, open := <-events:
			if !open {
				t.Fatalf("the stream ended before %s; the last event was %s", what, last.data)
			}
			last = m
			var value T
			if err := json.Unmarshal(m.data, &value); err != nil {
				t.Fatalf("event %s: %v", m.data, err)
			}
			if matches(value) {
				return value
			}
		case <-deadline:
			t.Fatalf("no event with %s; the last one was %s", what, last.data)
		}
	}
}

// sent is an update as a page receives it.
type sent struct {
	Overview overview `json:"overview"`
	Full     bool     `json:"full"`
	Rows     [][]any  `json:"rows"`
	Removed  []string `json:"removed"`
}
