package nodefiles

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// redirectTarget returns a server to which a kubelet redirects the user. It requests a client certificate and records requests and tokens.
func redirectTarget(t *testing.T) (server *httptest.Server, got *[]string) {
	t.Helper()
	got = &[]string{}
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*got = append(*got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		_, _ = w.Write([]byte("x\n"))
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, got
}

// pair returns a self-signed certificate and its key, as PEM.
func pair(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "admin"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
}

func TestRedirectReceivesNoCredentials(t *testing.T) {
	certificate, key := pair(t)
	tokenFile := filepath.Join(t.TempDir(), "token")
	plugin := filepath.Join(t.TempDir(), "plugin")
	script := "#!/bin/sh\n" + `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"of-the-plugin"}}'` + "\n"
	if err := os.WriteFile(tokenFile, []byte("of-the-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plugin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, credentials := range map[string]rest.Config{
		"bearer token":       {BearerToken: "of-the-administrator"},
		"file with a token":  {BearerTokenFile: tokenFile},
		"exec plugin":        {ExecProvider: &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: plugin, InteractiveMode: clientcmdapi.NeverExecInteractiveMode}},
		"password":           {Username: "admin", Password: "secret"},
		"client certificate": {TLSClientConfig: rest.TLSClientConfig{CertData: certificate, KeyData: key}},
	} {
		t.Run(name, func(t *testing.T) {
			other, got := redirectTarget(t)
			requested := 0
			api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requested++
				if r.Header.Get("Authorization") == "" && len(r.TLS.PeerCertificates) == 0 {
					t.Error("the API server gets no credentials")
				}
				http.Redirect(w, r, other.URL+"/stolen", http.StatusFound)
			}))
			api.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
			api.StartTLS()
			defer api.Close()
			config := credentials
			config.Host, config.Insecure = api.URL, true
			c, err := New(&config)
			if err != nil {
				t.Fatal(err)
			}
			for what, read := range map[string]func() error{
				"the end of a log": func() error { _, err := c.Tail(t.Context(), "win-1", "kubelet/kubelet.log", 10); return err },
				"a file":           func() error { _, err := c.From(t.Context(), "win-1", "collect/x.zip", 0); return err },
				"a folder":         func() error { _, err := c.List(t.Context(), "win-1", "kubelet"); return err },
				"an object":        func() error { _, err := c.Get(t.Context(), "/api/v1/nodes", nil, 10); return err },
				"output": func() error {
					_, err := c.Stream(t.Context(), "/api/v1/namespaces/a/pods/b/log", url.Values{})
					return err
				},
			} {
				if err := read(); err == nil || session.CodeOf(err) != session.CodeFailed {
					t.Errorf("%s: %v", what, err)
				}
			}
			if requested != 5 || len(*got) > 0 {
				t.Errorf("%d requests; the other server got %q", requested, *got)
			}
		})
	}
}

func TestRedirectErrorNamesTarget(t *testing.T) {
	to := ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	defer api.Close()
	c, err := New(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	for location, want := range map[string][]string{
		"https://evil.example.com:8443/x?y=z":         {"the kubelet of node win-1 redirects the request (to evil.example.com:8443)", "are not followed", "an attacker may control"},
		"http://%1b[31mred/":                          {"the kubelet of node win-1 redirects the request", "are not followed"},
		"//" + strings.Repeat("a", 5000) + ".example": {"the kubelet of node win-1", "aaa..."},
		"":             {"the kubelet of node win-1 redirects the request (to no address)"},
		"kubelet.log/": {"is a folder"},
	} {
		to = location
		_, err := c.Tail(t.Context(), "win-1", "kubelet/kubelet.log", 10)
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) || len(err.Error()) > 1024 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Errorf("%.80q: %v, want %q", location, err, part)
			}
		}
		if strings.Contains(err.Error(), "y=z") {
			t.Errorf("%q contains more than the host", err)
		}
	}
	to = "https://evil.example.com/"
	if _, err := c.Get(t.Context(), "/api/v1/nodes", nil, 10); err == nil || !strings.Contains(err.Error(), "the API server redirects the request (to evil.example.com)") {
		t.Errorf("an object: %v", err)
	}
}
