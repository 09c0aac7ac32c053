package registry

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

func basic(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }

// auth is an entry of the pull secret.
func auth(key, pair string) string {
	return fmt.Sprintf(`%q: {"auth": %q}`, key, base64.StdEncoding.EncodeToString([]byte(pair)))
}

// withPassword requires a user's password.
func withPassword(pair string, next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != basic(pair) {
			w.Header().Set("WWW-Authenticate", `Basic realm="lab"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}
}

// withToken requires a token of an authority, which issues it for a password.
func withToken(realm string, next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer granted" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="a \"service\"",scope="repository:other:push"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}
}

// tokens issues a token for the requested scope if the account is want.
func tokens(t *testing.T, want, scope string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.FormValue("scope"); got != scope || r.FormValue("service") != `a "service"` {
			t.Errorf("a token was requested with %v", r.Form)
		}
		account := r.Header.Get("Authorization")
		if r.Method == http.MethodPost {
			account = r.FormValue("grant_type") + " " + r.FormValue("refresh_token")
		}
		if account != want {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "granted", "expires_in": 300})
	}
}

func TestEachRegistryGetsOnlyItsCredentials(t *testing.T) {
	blob := strings.Repeat("content", 100)
	content := newFakeRegistry("copies/app", blob)
	store := newFakeRegistry("", "")
	store.repository = "store" // the layer store, to which the registry redirects with a signed address
	store.blobs = content.blobs
	redirects := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://store.test/v2/store/blobs/"+digestOf("", []byte(blob)), http.StatusTemporaryRedirect)
	}
	const deep = "src.test"
	path := "app/blobs/" + digestOf("", []byte(blob))
	for name, test := range map[string]struct {
		auths []string
		first http.Handler
		// sent are the hosts that received credentials, and which.
		sent map[string]string
	}{
		"a password":              {[]string{auth("first.test", "u:p")}, withPassword("u:p", content), map[string]string{"first.test": basic("u:p")}},
		"of the longest entry":    {[]string{auth("first.test", "x:x"), auth("first.test/copies", "u:p")}, withPassword("u:p", content), map[string]string{"first.test": basic("u:p")}},
		"none":                    {[]string{auth(deep, "s:s")}, content, map[string]string{}},
		"not those of the source": {[]string{auth(deep, "s:s")}, withPassword("s:s", content), map[string]string{}},
		"a token":                 {[]string{auth("first.test", "u:p")}, withToken("https://auth.test/token", content), map[string]string{"auth.test": basic("u:p"), "first.test": "Bearer granted"}},
		"an identity token":       {[]string{`"first.test": {"identitytoken": "id"}`}, withToken("https://auth.test/token", content), map[string]string{"first.test": "Bearer granted"}},
		"a redirect":              {[]string{auth("first.test", "u:p"), auth("store.test", "x:x")}, withPassword("u:p", http.HandlerFunc(redirects)), map[string]string{"first.test": basic("u:p")}},
		"a subdomain":             {[]string{auth("test", "x:x"), auth("second.first.test", "x:x")}, content, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			want := basic("u:p")
			if name == "an identity token" {
				want = "refresh_token id"
			}
			w := newWorld(t, entries(mirrors.NeverContactSource, "", "first.test/copies"), strings.Join(test.auths, ","), map[string]http.Handler{
				"first.test": test.first, "store.test": store, "auth.test": tokens(t, want, "repository:copies/app:pull"), "src.test": content,
			})
			if name == "not those of the source" {
				w.expect(http.MethodGet, path, http.StatusForbidden, "")
			} else {
				w.expect(http.MethodGet, path, http.StatusOK, blob)
				w.expect(http.MethodGet, path, http.StatusOK, blob)
			}
			got := map[string]string{}
			for host, values := range w.sent {
				got[host] = strings.Join(slices.Compact(values), " then ")
			}
			if !maps.Equal(got, test.sent) {
				t.Errorf("hosts got %v, want %v", got, test.sent)
			}
			for _, secret := range []string{"u:p", basic("u:p"), "granted"} {
				if strings.Contains(w.log.String(), secret) {
					t.Errorf("%q is in the log:\n%s", secret, w.log)
				}
			}
		})
	}
}

// TestPodCredentialsAreSentToSourceOnly: containerd sends the credentials that the kubelet found for the image to any server that requests them.
func TestPodCredentialsAreSentToSourceOnly(t *testing.T) {
	content := newFakeRegistry("app").tag("1", manifest)
	w := newWorld(t, entries("", "", "first.test"), auth("first.test", "m:m"), map[string]http.Handler{
		"first.test": withPassword("other:one", content), "src.test": withPassword("pod:pw", content),
	})
	if r := w.expect(http.MethodHead, "app/manifests/1", http.StatusUnauthorized, ""); r.header.Get("WWW-Authenticate") != `Basic realm="src.test"` {
		t.Errorf("containerd is queried with %v", r.header)
	}
	w.expect(http.MethodHead, "app/manifests/1", http.StatusOK, "", "Authorization", basic("pod:pw"))
	w.expect(http.MethodGet, "app/manifests/1", http.StatusForbidden, "", "Authorization", basic("pod:wrong"))
	for _, got := range w.sent["first.test"] {
		if got != basic("m:m") {
			t.Errorf("the mirror got %s", got)
		}
	}
}

// TestTokenIsUsedForOneAccount: what one pod may pull, another may not.
func TestTokenIsUsedForOneAccount(t *testing.T) {
	content := newFakeRegistry("app").tag("1", manifest)
	w := newWorld(t, entries("", "", "first.test"), "", map[string]http.Handler{
		"first.test": newFakeRegistry("none"), "src.test": withToken("https://auth.test/token", content), "auth.test": tokens(t, basic("pod:pw"), "repository:app:pull"),
	})
	w.expect(http.MethodGet, "app/manifests/1", http.StatusOK, manifest, "Authorization", basic("pod:pw"))
	w.expect(http.MethodGet, "app/manifests/1", http.StatusForbidden, "", "Authorization", basic("other:pw"))
	w.expect(http.MethodGet, "app/manifests/1", http.StatusUnauthorized, "")
}

// TestAcceptedPasswordIsSentWithoutChallenge after the host has accepted it once, for all repositories that it applies to.
func TestAcceptedPasswordIsSentWithoutChallenge(t *testing.T) {
	both := http.NewServeMux()
	both.Handle("/v2/app/", withPassword("u:p", newFakeRegistry("app").tag("1", manifest)))
	both.Handle("/v2/other/", withPassword("u:p", newFakeRegistry("other").tag("1", manifest)))
	both.Handle("/v2/token/", withToken("https://auth.test/token", newFakeRegistry("token").tag("1", manifest)))
	w := newWorld(t, entries(mirrors.NeverContactSource, "", "first.test"), auth("first.test", "u:p"), map[string]http.Handler{
		"first.test": both, "auth.test": tokens(t, basic("u:p"), "repository:token:pull"),
	})
	for _, test := range []struct {
		repository string
		requests   int
	}{{"app", 2}, {"app", 1}, {"other", 1}, {"token", 3}, {"token", 1}, {"other", 1}} {
		w.requests = nil
		w.expect(http.MethodGet, test.repository+"/manifests/1", http.StatusOK, manifest)
		if len(w.requests) != test.requests {
			t.Errorf("for %s, hosts got %q, want %d requests", test.repository, w.requests, test.requests)
		}
	}
}

// TestOnlyContainerdIsServed counts clients without the certificate of the host's containerd.
func TestOnlyContainerdIsServed(t *testing.T) {
	w := newWorld(t, entries("", "", "first.test"), "", map[string]http.Handler{"first.test": newFakeRegistry("app").tag("1", manifest)})
	own := certificateOf(t, w.config.Endpoint.Client)
	for name, other := range map[string]tls.Certificate{
		"no certificate": {}, "that of the registry": certificateOf(t, w.config.Endpoint.Server), "that of another host": certificateOf(t, newEndpoint(t).Client),
	} {
		if r := w.requestAs(other, http.MethodGet, "app/manifests/1"); r.status != http.StatusUnauthorized {
			t.Errorf("with %s, the status is %d (%v)", name, r.status, r.err)
		}
		if other.PrivateKey == nil {
			continue
		}
		other.Certificate = own.Certificate
		if r := w.requestAs(other, http.MethodGet, "app/manifests/1"); r.err == nil {
			t.Errorf("with the certificate of containerd and the key of %s, the status is %d", name, r.status)
		}
	}
	if n := w.server.Counts()["unauthorized"]; n != 3 {
		t.Errorf("%d were counted", n)
	}
	if hosts := w.queriedHosts(); hosts != "" {
		t.Errorf("%s was queried", hosts)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		w.expect(method, "app/manifests/1", http.StatusMethodNotAllowed, "")
	}
	for _, path := range []string{"app/tags/list", "_catalog", "app/blobs/uploads/", "app/blobs/sha256:1", "App/manifests/1", "a/../b/manifests/1", "app/manifests/" + strings.Repeat("x", 129)} {
		w.expect(http.MethodGet, path, http.StatusNotFound, "")
	}
	if r := w.request(http.MethodGet, ""); r.status != http.StatusOK {
		t.Errorf("the registry responds with status %d", r.status)
	}
}
