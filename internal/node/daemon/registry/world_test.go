package registry

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// world is a network of registries with WICD's registry. Each host of the network answers with TLS at port 443 and without TLS at port 80.
type world struct {
	t      *testing.T
	server *Server
	hosts  map[string]http.Handler
	// address is that of WICD's registry.
	address string
	config  Config
	log     *bytes.Buffer
	// writes counts the write calls of WICD's registry.
	writes atomic.Int64

	mu       sync.Mutex
	requests []string
	// sent are the Authorization headers that hosts received.
	sent map[string][]string
}

// newWorld starts it with a table rendered from a cluster's objects, and the pull secret's auths.
func newWorld(t *testing.T, in mirrors.Input, auths string, hosts map[string]http.Handler) *world {
	t.Helper()
	w := &world{t: t, hosts: hosts, sent: map[string][]string{}, log: &bytes.Buffer{}}
	pair, ca := authority(t)
	secure := httptest.NewUnstartedServer(w)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	plain := httptest.NewServer(w)
	t.Cleanup(func() { secure.CloseClientConnections(); secure.Close(); plain.CloseClientConnections(); plain.Close() })
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		name, port, _ := net.SplitHostPort(address)
		to := map[string]string{"443": secure.Listener.Addr().String(), "80": plain.Listener.Addr().String()}[port]
		if w.hosts[name] == nil || to == "" || strings.HasPrefix(name, "plain") && port == "443" {
			return nil, fmt.Errorf("connecting to %s: no such host", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
	listening := make(chan string, 1)
	listen := func(ctx context.Context, network, _ string) (net.Listener, error) {
		l, err := (&net.ListenConfig{}).Listen(ctx, network, "127.0.0.1:0")
		if err == nil {
			listening <- l.Addr().String()
			l = countingListener{l, &w.writes}
		}
		return l, err
	}
	w.server = NewServer(listen, dial, slog.New(slog.NewTextHandler(&lockedWriter{w: w.log}, nil)))
	w.server.limits = limits{timeout: 900 * time.Millisecond, idle: 500 * time.Millisecond, gather: 50 * time.Millisecond}
	endpoint := newEndpoint(t)
	table := mirrors.Render(in).Table
	w.config = Config{Table: table, Keyring: []byte(`{"auths": {` + auths + `}}`), Certificates: ca, Endpoint: endpoint}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.server.Run(ctx) }()
	t.Cleanup(func() { end(); <-done })
	if err := w.server.Use(w.config); err != nil {
		t.Fatal(err)
	}
	w.address = <-listening
	return w
}

// newEndpoint creates the certificates of a host.
func newEndpoint(t *testing.T) credentials.RegistryEndpoint {
	t.Helper()
	e, _, err := credentials.MakeRegistry(hostapi.Host{Disk: hostapi.Disk{Root: t.TempDir()}, Rights: openRights{}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// openRights are those of a drive without access control.
type openRights struct{ hostapi.Rights }

func (openRights) Check(string, hostapi.Access) (bool, string, error) { return true, "", nil }

// authority returns a self-signed certificate for all hosts.
func authority(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"*.test", "registry-1.docker.io"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// ServeHTTP answers for all hosts of the network.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(r.Host, ":")
	w.mu.Lock()
	w.requests = append(w.requests, r.Method+" "+name+r.URL.Path)
	if a := r.Header.Get("Authorization"); a != "" {
		w.sent[name] = append(w.sent[name], a)
	}
	handler := w.hosts[name]
	w.mu.Unlock()
	if handler == nil {
		rw.WriteHeader(http.StatusMisdirectedRequest)
		return
	}
	handler.ServeHTTP(rw, r)
}

// queriedHosts returns the hosts that were queried since the last call, without consecutive duplicates.
func (w *world) queriedHosts() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, a := range w.requests {
		_, rest, _ := strings.Cut(a, " ")
		name, _, _ := strings.Cut(rest, "/")
		names = append(names, name)
	}
	w.requests = nil
	return strings.Join(slices.Compact(names), " ")
}

type reply struct {
	status int
	body   string
	header http.Header
	err    error
}

// request sends a request for /v2/<path> to WICD's registry, as containerd would for an image of src.test.
func (w *world) request(method, path string, header ...string) reply {
	w.t.Helper()
	return w.requestAs(certificateOf(w.t, w.config.Endpoint.Client), method, path, header...)
}

// certificateOf converts a pair for a TLS client.
func certificateOf(t *testing.T, pair credentials.KeyPair) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// requestAs sends a request with a client certificate, or without one if it is empty.
func (w *world) requestAs(certificate tls.Certificate, method, path string, header ...string) reply {
	w.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(w.config.Endpoint.Server.Certificate))
	trusts := &tls.Config{RootCAs: pool}
	if certificate.Certificate != nil {
		trusts.Certificates = []tls.Certificate{certificate}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusts, DisableCompression: true, DisableKeepAlives: true}}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	r, err := http.NewRequest(method, "https://"+w.address+"/v2/"+path+separator+"ns=src.test", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, string(text), answer.Header, err}
}

func (w *world) expect(method, path string, status int, body string, header ...string) reply {
	w.t.Helper()
	r := w.request(method, path, header...)
	if method == http.MethodHead {
		body = ""
	}
	if r.err != nil || r.status != status || status < 300 && r.body != body {
		w.t.Errorf("%s %s: %d %.200q (%v), want %d %.200q", method, path, r.status, r.body, r.err, status, body)
	}
	return r
}

// fakeRegistry is a good registry: it has contents by digest, and manifests by tag.
type fakeRegistry struct {
	repository string
	blobs      map[string]string
	tags       map[string]string
}

func newFakeRegistry(repository string, blobs ...string) *fakeRegistry {
	s := &fakeRegistry{repository: repository, blobs: map[string]string{}, tags: map[string]string{}}
	for _, b := range blobs {
		s.blobs[digestOf("", []byte(b))] = b
	}
	return s
}

func (s *fakeRegistry) tag(name, manifest string) *fakeRegistry {
	s.tags[name], s.blobs[digestOf("", []byte(manifest))] = manifest, manifest
	return s
}

func (s *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2/"+s.repository+"/")
	_, reference, _ := strings.Cut(rest, "/")
	text, found := s.blobs[reference]
	if tagged, isTag := s.tags[reference]; isTag {
		text, found = tagged, true
	}
	if !ok || !found {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Docker-Content-Digest", digestOf("", []byte(text)))
	w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}

// entries returns a set of mirrors for src.test.
func entries(policy mirrors.Policy, kind mirrors.Kind, locations ...string) mirrors.Input {
	e := mirrors.Entry{Source: "src.test", Policy: policy, For: kind}
	for _, l := range locations {
		e.Mirrors = append(e.Mirrors, mirrors.Mirror{Location: l})
	}
	return mirrors.Input{Sets: []mirrors.Set{{Kind: "WindowsConfig", Name: "cluster", Entries: []mirrors.Entry{e}}}}
}
