package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
)

// metricsServer runs the metrics server against an API server that accepts tokens with prefix good or other and authorizes those with prefix
// good to get metrics.
type metricsServer struct {
	*testing.T
	address string
	// reviews counts the tokens that the API server reviewed.
	reviews atomic.Int64
}

func serveMetrics(t *testing.T, o metricsOptions) *metricsServer {
	t.Helper()
	s := &metricsServer{T: t}
	api := httptest.NewServer(http.HandlerFunc(s.api))
	t.Cleanup(api.Close)
	o.address = "127.0.0.1:0"
	if o.profile == nil {
		o.profile = func() *tlsprofile.Server { return nil }
	}
	if o.minVersion == 0 {
		o.minVersion = tls.VersionTLS12
	}
	server, err := newMetrics(&rest.Config{Host: api.URL, QPS: -1}, api.Client(), o, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.address = server.Listener.Addr().String()
	return s
}

func (s *metricsServer) api(w http.ResponseWriter, r *http.Request) {
	answer := func(review any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		s.reviews.Add(1)
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			s.Error(err)
		}
		token := review.Spec.Token
		review.Status.Authenticated = strings.HasPrefix(token, "good") || strings.HasPrefix(token, "other")
		review.Status.User.Username = token
		answer(review)
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			s.Error(err)
		}
		attributes := review.Spec.NonResourceAttributes
		review.Status.Allowed = strings.HasPrefix(review.Spec.User, "good") && attributes != nil && attributes.Path == "/metrics" && attributes.Verb == "get"
		answer(review)
	default:
		s.Errorf("request to %s", r.URL.Path)
	}
}

// get requests metrics from a local address on a new connection and returns status code and body.
func (s *metricsServer) get(from, token string) (int, string) {
	s.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "https://"+s.address+"/metrics", nil)
	if err != nil {
		s.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestMetricsRequireAuthorization(t *testing.T) {
	s := serveMetrics(t, metricsOptions{})
	for _, test := range []struct {
		token string
		code  int
	}{{"", http.StatusUnauthorized}, {"bad", http.StatusInternalServerError}, {"other", http.StatusForbidden}, {"good", http.StatusOK}} {
		code, body := s.get("127.0.0.1", test.token)
		if code != test.code || strings.Contains(body, "# TYPE") != (code == http.StatusOK) {
			t.Errorf("token %q: %d, want %d: %.200s", test.token, code, test.code, body)
		}
	}
	if n := s.reviews.Load(); n != 3 {
		t.Errorf("the API server received %d reviews of three tokens", n)
	}
}

func TestTokenReviewsAreLimited(t *testing.T) {
	s := serveMetrics(t, metricsOptions{})
	if code, _ := s.get("127.0.0.1", "good-known"); code != http.StatusOK {
		t.Fatalf("a good token: %d", code)
	}
	codes := map[int]int{}
	for i := range 200 {
		code, _ := s.get("127.0.0.1", fmt.Sprintf("other-%d", i))
		codes[code]++
	}
	if n := s.reviews.Load(); n > attemptsPerSource+2 {
		t.Errorf("200 tokens from one stranger led to %d reviews by the API server (responses %v)", n, codes)
	}
	if codes[http.StatusTooManyRequests] < 200-attemptsPerSource-2 {
		t.Errorf("answers were %v", codes)
	}
	if code, _ := s.get("127.0.0.1", "good-known"); code != http.StatusOK {
		t.Errorf("a client with a known token gets status %d at the stranger's address", code)
	}
	if code, _ := s.get("127.0.0.2", "good-new"); code != http.StatusOK {
		t.Errorf("whose token is new gets %d, from another address", code)
	}
	for i := range 20 {
		for j := range 10 {
			s.get(fmt.Sprintf("127.0.1.%d", i), fmt.Sprintf("bad-%d-%d", i, j))
		}
	}
	if n := s.reviews.Load(); n > attempts+15 {
		t.Errorf("strangers at many addresses made %d questions", n)
	}
}

func TestGateCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, good := newGate(), false
		handler, err := g.before(func(h http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if good {
					h.ServeHTTP(w, r)
				}
			}), nil
		}, http.NotFoundHandler())
		if err != nil {
			t.Fatal(err)
		}
		get := func(remote, authorization string) int {
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.RemoteAddr = remote
			r.Header.Set("Authorization", authorization)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		for i := range 5000 {
			get(fmt.Sprintf("[2001:db8:%x::1]:1", i), "Bearer x")
		}
		if len(g.perSource) > maxKnown || len(g.good) > 0 {
			t.Errorf("%d addresses and %d tokens are remembered", len(g.perSource), len(g.good))
		}
		time.Sleep(time.Hour)
		good = true
		for i := range 3000 {
			get("192.0.2.1:1", fmt.Sprintf("bearer token-%d", i))
			time.Sleep(time.Minute)
		}
		if len(g.good) > maxKnown || len(g.good) < 100 {
			t.Errorf("%d tokens are remembered", len(g.good))
		}
		good = false
		if code := get("192.0.2.1:1", "Bearer token-2999"); code != http.StatusOK {
			t.Errorf("a known token: %d", code)
		}
		for range attemptsPerSource { // the token is rejected, so it is like any other
			get("192.0.2.1:1", "Bearer token-2999")
		}
		if code := get("192.0.2.1:1", "Bearer token-2999"); code != http.StatusTooManyRequests {
			t.Errorf("a revoked token gets status %d", code)
		}
		for _, authorization := range []string{"", "Bearer", "Bearer ", "Basic dXNlcg=="} {
			if code := get("192.0.2.2:1", authorization); code != http.StatusUnauthorized {
				t.Errorf("%q: %d", authorization, code)
			}
		}
	})
}

// writeCertificate writes a certificate for a name into the folder and returns it.
func writeCertificate(t *testing.T, dir, name string) *x509.CertPool {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures(name, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pool
}

// handshake connects as a client with this TLS configuration.
func (s *metricsServer) handshake(config *tls.Config) error {
	c, err := tls.Dial("tcp", s.address, config)
	if err == nil {
		c.Close()
	}
	return err
}

func TestCertificateFromFolderIsServed(t *testing.T) {
	const name = "windows-machine-config-operator-metrics.openshift-windows-machine-config-operator.svc"
	dir := t.TempDir()
	authorities := writeCertificate(t, dir, name)
	s := serveMetrics(t, metricsOptions{certDir: dir})
	if err := s.handshake(&tls.Config{RootCAs: authorities, ServerName: name}); err != nil {
		t.Errorf("who checks the certificate: %v", err)
	}
	if err := s.handshake(&tls.Config{RootCAs: authorities, ServerName: "else"}); err == nil {
		t.Error("the certificate is for any name")
	}
	if err := serveMetrics(t, metricsOptions{}).handshake(&tls.Config{RootCAs: authorities, ServerName: name}); err == nil {
		t.Error("without a folder, the same certificate is served")
	}
}

func TestChangedCertificateIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c, err := newServingCertificate(dir, logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		serves := func(name string) bool {
			t.Helper()
			time.Sleep(certificateReadInterval)
			got, err := c.get(nil)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := x509.ParseCertificate(got.Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			return leaf.VerifyHostname(name) == nil
		}
		if !serves("localhost") {
			t.Error("no certificate without a Secret")
		}
		writeCertificate(t, dir, "first")
		if !serves("first") {
			t.Error("a Secret that is mounted later is not served")
		}
		writeCertificate(t, dir, "second")
		if !serves("second") {
			t.Error("the Secret that changed is not served")
		}
		if err := os.WriteFile(filepath.Join(dir, "tls.key"), []byte("none"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !serves("second") {
			t.Error("the previous certificate is no longer served")
		}
		if err := errors.Join(os.Remove(filepath.Join(dir, "tls.key")), os.Remove(filepath.Join(dir, "tls.crt"))); err != nil {
			t.Fatal(err)
		}
		if !serves("second") {
			t.Error("the previous certificate is no longer served without the Secret")
		}
	})
}

func TestOldTLSVersionsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		server uint16
		client *tls.Config
		works  bool
	}{
		"1.1":                         {tls.VersionTLS12, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		"1.2":                         {tls.VersionTLS12, &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		"1.2 with CBC":                {tls.VersionTLS12, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}}, false},
		"1.2 without forward secrecy": {tls.VersionTLS12, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}}, false},
		"1.3":                         {tls.VersionTLS12, &tls.Config{}, true},
		"1.2 where 1.3 is required":   {tls.VersionTLS13, &tls.Config{MaxVersion: tls.VersionTLS12}, false},
		"1.3 where it is required":    {tls.VersionTLS13, &tls.Config{}, true},
	} {
		test.client.InsecureSkipVerify = true
		if err := serveMetrics(t, metricsOptions{minVersion: test.server}).handshake(test.client); (err == nil) != test.works {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConnectionsAndHeadersAreBounded(t *testing.T) {
	s := serveMetrics(t, metricsOptions{})
	dial := func(from string) net.Conn {
		t.Helper()
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	isClosedWithin := func(timeout time.Duration, c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(timeout))
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	}
	var held []net.Conn
	for range maxConnectionsPerSource {
		held = append(held, dial("127.0.0.1"))
	}
	const moment, timeout = 200 * time.Millisecond, 10 * time.Second
	if isClosedWithin(moment, held[0]) || isClosedWithin(moment, held[maxConnectionsPerSource-1]) {
		t.Error("a connection within the limit is closed")
	}
	if !isClosedWithin(timeout, dial("127.0.0.1")) {
		t.Error("an address has more connections than it may")
	}
	if code, _ := s.get("127.0.0.2", "good"); code != http.StatusOK {
		t.Errorf("another address gets %d", code)
	}
	for _, c := range held {
		c.Close()
	}
	for began := time.Now(); isClosedWithin(moment, dial("127.0.0.1")); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("closed connections are not released")
		}
	}
	if code, _ := s.get("127.0.0.2", "good"+strings.Repeat("x", 64<<10)); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("64 KiB of headers: %d", code)
	}
	for i := range maxConnections {
		dial(fmt.Sprintf("127.0.1.%d", 1+i/maxConnectionsPerSource))
	}
	if !isClosedWithin(timeout, dial("127.0.2.1")) {
		t.Error("many addresses have more connections than all may")
	}
}

func TestTLSVersionNames(t *testing.T) {
	for name, want := range map[string]uint16{"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13, "VersionTLS11": 0, "": 0} {
		if got, err := tlsVersion(name); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q is %d (%v)", name, got, err)
		}
	}
}
