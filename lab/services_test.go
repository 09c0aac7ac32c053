//go:build linux

package lab

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/lab/image"
)

func skipWithoutServices(t *testing.T) {
	t.Helper()
	for _, missing := range []error{CanRunWindows(), CanRunRegistries(), CanRunForwardProxy()} {
		if missing != nil {
			t.Skip("SKIPPED:", missing)
		}
	}
}

// startServices starts a registry and a proxy. Only the proxy resolves the registry's name.
func startServices(t *testing.T, l *Lab) (*Registry, *ForwardProxy) {
	t.Helper()
	r, err := l.StartRegistry(t.Context(), RegistryOptions{Listen: "127.0.0.1", Name: "beyond.test"})
	must(t, err)
	p, err := l.StartForwardProxy(t.Context(), map[string]string{"beyond.test": "127.0.0.1"})
	must(t, err)
	return r, p
}

func TestRegistryAndProxyLogRequests(t *testing.T) {
	skipWithoutServices(t)
	l := Start(t, Options{Hosts: []string{"win-1"}, WithoutControlPlane: true})
	r, p := startServices(t, l)
	i, err := image.New("10.0.20348.1", map[string]string{"a.txt": "a"})
	must(t, err)
	must(t, r.Push(t.Context(), "team/app", "1", i))
	through, err := url.Parse(p.URL())
	must(t, err)
	transport := l.registryClient("").Transport.(*http.Transport)
	transport.DialContext, transport.Proxy = nil, http.ProxyURL(through)
	client := http.Client{Transport: transport}
	get := func(password string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.Host+"/v2/team/app/manifests/1", nil)
		must(t, err)
		request.Header.Set("User-Agent", "a test")
		request.SetBasicAuth(r.User, password)
		answer, err := client.Do(request)
		must(t, err)
		defer answer.Body.Close()
		return answer.StatusCode
	}
	if status := get("guessed"); status != http.StatusUnauthorized {
		t.Errorf("status with a wrong password: got %d, want 401", status)
	}
	if status := get(r.Password); status != http.StatusNotFound { // the request accepts no OCI manifest
		t.Errorf("status with the password: got %d, want 404", status)
	}
	requested, err := r.Requests()
	want := []RegistryRequest{
		{From: "127.0.0.1", Agent: "a test", Method: "GET", Path: "/v2/team/app/manifests/1", Status: 401},
		{From: "127.0.0.1", Agent: "a test", Method: "GET", Path: "/v2/team/app/manifests/1", Status: 404},
	}
	if diff := cmp.Diff(want, requested); diff != "" || err != nil {
		t.Errorf("the registry's log: %s (%v)", diff, err)
	}
	through.User = nil
	transport.CloseIdleConnections()
	if response, err := client.Get("https://" + r.Host + "/v2/"); err == nil {
		response.Body.Close()
		t.Error("the proxy accepted a request without a password")
	}
	waitUntil(t, "the proxy logs both requests", func() string {
		requests, err := p.Requests()
		allowed := ProxyRequest{From: l.Address(), User: p.User, Method: "CONNECT", Target: r.Host, Status: 200}
		rejected := ProxyRequest{From: l.Address(), User: "-", Method: "CONNECT", Target: r.Host, Status: 407}
		if err != nil || !slices.Contains(requests, allowed) || !slices.Contains(requests, rejected) {
			return cmp.Diff([]ProxyRequest{allowed, rejected}, requests)
		}
		return ""
	})
}
