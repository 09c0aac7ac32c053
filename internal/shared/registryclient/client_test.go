package registryclient

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// Mirrors, credentials, redirects and registry errors are tested with internal/node/daemon/registry, which forwards all of them.

// TestForbiddenHostIsNotContacted uses a registry that redirects to a forbidden host, or names it as its authority.
func TestForbiddenHostIsNotContacted(t *testing.T) {
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
				Check: func(_ context.Context, hop Hop) error {
					if hop.URL.Host == "inside.test" && hop.From.Host == "r.test" && hop.IsTokenServer == (name == "an authority") && hop.Part == "manifests" && hop.Reference == "1" {
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

// TestPasswordIsSentWithoutChallenge expects the password in the first request, and that anonymous access still works.
func TestPasswordIsSentWithoutChallenge(t *testing.T) {
	const good = "Basic dTpw" // u:p
	challenges := func(challenge string, status int, takes ...string) func(authorization string) (int, string) {
		return func(authorization string) (int, string) {
			if slices.Contains(takes, authorization) {
				return http.StatusOK, ""
			}
			if authorization == "" {
				return http.StatusUnauthorized, challenge
			}
			return status, challenge
		}
	}
	const authority = `Bearer realm="https://example.com/token"`
	for name, test := range map[string]struct {
		password string
		insecure bool
		answers  func(authorization string) (int, string)
		sent     []string
		fails    bool
	}{
		"a password":                      {"p", false, challenges(`Basic realm="x"`, 401, good), []string{good}, false},
		"nothing is wanted":               {"p", false, challenges("", 200, ""), []string{good}, false},
		"a token":                         {"p", false, challenges(authority, 401, "Bearer t"), []string{good, "Bearer t"}, false},
		"a token, and passwords are 403":  {"p", false, challenges(authority, 403, "Bearer t"), []string{good, "", "Bearer t"}, false},
		"a token, and passwords are 400":  {"p", false, challenges(authority, 400, "Bearer t"), []string{good, "", "Bearer t"}, false},
		"a wrong password":                {"x", false, challenges(`Basic realm="x"`, 401, good), []string{"Basic dTp4", ""}, true},
		"a wrong one, and none is wanted": {"x", false, challenges(`Basic realm="x"`, 401, good, ""), []string{"Basic dTp4", ""}, false},
		"no password":                     {"", false, challenges(`Basic realm="x"`, 401, good), []string{""}, true},
		"not verified":                    {"p", true, challenges(`Basic realm="x"`, 401, good), []string{"", good}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/token" {
					_, _ = io.WriteString(w, `{"token": "t"}`)
					return
				}
				sent = append(sent, r.Header.Get("Authorization"))
				status, challenge := test.answers(r.Header.Get("Authorization"))
				w.Header().Set("WWW-Authenticate", challenge)
				w.WriteHeader(status)
			}))
			defer server.Close()
			keyring := "{}"
			if test.password != "" {
				keyring = fmt.Sprintf(`{"auths": {"example.com": {"username": "u", "password": %q}}}`, test.password)
			}
			c := New(Options{
				Agent: "test", PasswordFirst: true, Keyring: []byte(keyring),
				Certificates: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
				Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
				},
			})
			defer c.CloseIdleConnections()
			a := mirrors.Attempt{Name: mirrors.Name{Registry: "example.com", Repository: "a"}, Host: "example.com", Insecure: test.insecure}
			answer, err := c.Do(t.Context(), Request{Method: http.MethodGet, Part: "manifests", Reference: "1", To: -1}, a)
			if err == nil {
				answer.Body.Close()
			}
			if (err != nil) != test.fails || !slices.Equal(sent, test.sent) {
				t.Errorf("the host got %q, want %q (%v)", sent, test.sent, err)
			}
		})
	}
}

// TestRejectedPasswordIsForgotten: the registry accepts the password, which the client caches, until it is changed. Repository "b" is public.
func TestRejectedPasswordIsForgotten(t *testing.T) {
	for name, first := range map[string]bool{"password first": true, "after a challenge": false} {
		t.Run(name, func(t *testing.T) {
			const password = "Basic dTpw" // u:p
			changed := false
			var sent []string
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				authorization := r.Header.Get("Authorization")
				sent = append(sent, authorization)
				if authorization == password && !changed || authorization == "" && strings.HasPrefix(r.URL.Path, "/v2/b/") {
					return
				}
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
			}))
			defer server.Close()
			c := New(Options{
				Agent: "test", PasswordFirst: first, Keyring: []byte(`{"auths": {"example.com": {"username": "u", "password": "p"}}}`),
				Certificates: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
				Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
				},
			})
			defer c.CloseIdleConnections()
			get := func(repository string) ([]string, error) {
				sent = nil
				a := mirrors.Attempt{Name: mirrors.Name{Registry: "example.com", Repository: repository}, Host: "example.com"}
				answer, err := c.Do(t.Context(), Request{Method: http.MethodGet, Part: "manifests", Reference: "1", To: -1}, a)
				if err == nil {
					answer.Body.Close()
				}
				return sent, err
			}
			if _, err := get("a"); err != nil {
				t.Fatal(err)
			}
			if got, err := get("a"); err != nil || !slices.Equal(got, []string{password}) {
				t.Fatalf("with a cached password, the registry got %q (%v)", got, err)
			}
			changed = true
			if got, err := get("b"); err != nil || !slices.Equal(got, []string{password, ""}) {
				t.Errorf("a public repository got %q, want the cached password and an anonymous request (%v)", got, err)
			}
			want := []string{"", password}
			if first {
				want = []string{password, ""}
			}
			if got, err := get("a"); !errors.Is(err, ErrUnauthorized) || !slices.Equal(got, want) {
				t.Errorf("after the password was rejected, the registry got %q, want %q (%v)", got, want, err)
			}
		})
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
		token, validFor, err := readToken(strings.NewReader(body))
		if err == nil && (strings.ContainsAny(token, "\r\n ") || validFor < 0 || validFor > remembered) {
			t.Errorf("token %q for %v", token, validFor)
		}
	})
}
