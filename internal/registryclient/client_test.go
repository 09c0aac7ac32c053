package registryclient

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/mirrors"
)

// Mirrors, credentials, redirects and what registries do wrong are tested with internal/daemon/registry, which hands all of it on.

// TestAHostThatMayNotBeAskedIsNotAsked has a registry that sends on to such a host, or names it as its authority.
func TestAHostThatMayNotBeAskedIsNotAsked(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://inside.test/secret", http.StatusFound)
		},
		"an authority": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://inside.test/token"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			refused := errors.New("refused")
			var dialed []string
			c := New(Options{
				Agent: "test",
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					dialed = append(dialed, address)
					if strings.HasSuffix(address, ":443") {
						return nil, errors.New("no TLS here")
					}
					return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
				},
				Check: func(host string) error {
					if host == "inside.test" {
						return refused
					}
					return nil
				},
			})
			a := mirrors.Attempt{Name: mirrors.Name{Registry: "r.test", Repository: "a"}, Host: "r.test", Insecure: true}
			answer, err := c.Do(t.Context(), Request{Method: http.MethodGet, Part: "manifests", Reference: "1", To: -1}, a)
			if err == nil {
				answer.Body.Close()
			}
			if !errors.Is(err, refused) {
				t.Errorf("it fails with %v", err)
			}
			if got := strings.Join(dialed, " "); got != "r.test:443 r.test:80" {
				t.Errorf("connections were made to %s", got)
			}
		})
	}
}

func TestAFullMemoryForgets(t *testing.T) {
	r := NewRecent[int, int](2, remembered)
	for i := range 3 {
		r.Put(i, i)
	}
	_, first := r.Get(0)
	_, last := r.Get(2)
	if first || !last || len(r.all) > 2 {
		t.Errorf("it remembers %v", r.all)
	}
	if r.PutFor(4, 4, -1); len(r.all) != 2 {
		t.Errorf("it remembers %v", r.all)
	}
	if _, old := r.Get(4); old {
		t.Error("what is too old counts")
	}
}

func FuzzAuthority(f *testing.F) {
	f.Add(`Bearer realm="https://auth.test/token",service="x",scope="a b,c"`, `{"token": "x", "expires_in": 1e300}`)
	f.Add(`Basic realm="\"`, `{"access_token": " "}`)
	f.Fuzz(func(t *testing.T, challenge, body string) {
		scheme, parameters := parseChallenge(challenge)
		if len(parameters) > 16 || scheme != strings.ToLower(scheme) {
			t.Errorf("challenge %q", challenge)
		}
		token, lasts, err := readToken(strings.NewReader(body))
		if err == nil && (strings.ContainsAny(token, "\r\n ") || lasts < 0 || lasts > remembered) {
			t.Errorf("token %q for %v", token, lasts)
		}
	})
}
