package servers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/test/bufconn"
	certificatesv1 "k8s.io/api/certificates/v1"
)

// Cluster is a simulated API server with only the features that hosts need to become nodes, for tests in which a real one would be too slow. It
// stores any object. It authenticates its token and the certificates that it issued. It has no admission and no authorization.
type Cluster struct {
	// URL, CA (PEM) and Token are for clients.
	URL, CA, Token string

	server   *httptest.Server
	listener *bufconn.Listener // nil on this machine's network
	key      *ecdsa.PrivateKey
	ca       *x509.Certificate

	mu      sync.Mutex
	objects map[string]map[string]any // by path
	version int
	changed chan struct{} // closed at the next change
	history []change
	approve func(*certificatesv1.CertificateSigningRequest) bool
	// life is the duration of certificates; 0 means the requested one.
	life time.Duration
	// ahead is how far the cluster's clock is ahead of the hosts' clocks.
	ahead  time.Duration
	counts map[string]int
	away   bool
	// forgotten is the oldest version from which a watch can continue.
	forgotten int
	// listsOnly is true if watches cannot start with the existing objects.
	listsOnly bool
	// forbidden are rejected requests, each as user, method and path.
	forbidden [][3]string
}

// change is an event for watches.
type change struct {
	version int
	kind    string
	path    string
	object  map[string]any
}

// NewCluster starts an API server that approves and issues every certificate.
func NewCluster() (*Cluster, error) { return newCluster(nil) }

// NewIsolatedCluster is NewCluster for tests with simulated time (testing/synctest): only its Dial connects to it.
func NewIsolatedCluster() (*Cluster, error) { return newCluster(bufconn.Listen(buffer)) }

// newCluster starts an API server on a listener, or on this machine's network if it is nil.
func newCluster(on *bufconn.Listener) (*Cluster, error) {
	c := &Cluster{
		Token: "bootstrap-token", objects: map[string]map[string]any{}, changed: make(chan struct{}), counts: map[string]int{},
		approve: func(*certificatesv1.CertificateSigningRequest) bool { return true }, listener: on,
	}
	if err := c.makeCA(); err != nil {
		return nil, fmt.Errorf("starting a simulated API server: %w", err)
	}
	certificate, err := c.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, c.key.Public(), 999*time.Hour)
	if err != nil {
		return nil, fmt.Errorf("starting a simulated API server: %w", err)
	}
	c.server = httptest.NewUnstartedServer(c)
	c.server.EnableHTTP2 = true
	c.server.Config.ErrorLog = log.New(io.Discard, "", 0) // disconnecting clients are expected
	c.server.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: c.key}},
		ClientAuth:   tls.RequestClientCert, MinVersion: tls.VersionTLS12,
	}
	if on != nil {
		_ = c.server.Listener.Close()
		c.server.Listener = on
	}
	c.server.StartTLS()
	c.URL = c.server.URL
	if on != nil {
		c.URL = "https://127.0.0.1:6443" // for which it has a certificate
	}
	return c, nil
}

// buffer is the size of the buffers of a connection in memory, in bytes.
const buffer = 64 << 10

// Dial connects to the API server. It is the only way to reach that of NewIsolatedCluster. Use it as WindowsOptions.Dial of
// hosts.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.listener == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return c.listener.DialContext(ctx)
}

func (c *Cluster) makeCA() (err error) {
	if c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "simulated CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-1000 * time.Hour), NotAfter: time.Now().Add(1000 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, c.key.Public(), c.key)
	if err != nil {
		return err
	}
	c.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	c.ca, err = x509.ParseCertificate(der)
	return err
}

// issue signs a certificate and returns its DER.
func (c *Cluster) issue(template *x509.Certificate, public any, life time.Duration) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template.SerialNumber, template.KeyUsage = serial, x509.KeyUsageDigitalSignature
	now := time.Now().Add(c.ahead)
	template.NotBefore, template.NotAfter = now.Add(-time.Second), now.Add(life)
	return x509.CreateCertificate(rand.Reader, template, c.ca, public, c.key)
}

// Close ends the server.
func (c *Cluster) Close() {
	c.server.CloseClientConnections()
	c.server.Close()
}

// Approve sets which certificate requests are approved from now on, including pending ones.
func (c *Cluster) Approve(approve func(*certificatesv1.CertificateSigningRequest) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.approve = approve
	for path := range maps.Clone(c.objects) {
		c.answer(path)
	}
}

// SetCertificateLife sets the duration of all certificates from now on, regardless of the request.
func (c *Cluster) SetCertificateLife(life time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life = life
}

// SetClock sets how far the cluster's clock is ahead of the hosts' clocks. It applies to issuing certificates and checking their expiry.
func (c *Cluster) SetClock(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = ahead
}

// SetToken sets another valid token.
func (c *Cluster) SetToken(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Token = token
}

// SetUnavailable makes the server reject all requests and close all connections, until it is called with false.
func (c *Cluster) SetUnavailable(away bool) {
	c.mu.Lock()
	c.away = away
	c.mu.Unlock()
	if away {
		c.server.CloseClientConnections()
	}
}

// Forget closes all connections. Watches cannot continue; clients must read everything again.
func (c *Cluster) Forget() {
	c.mu.Lock()
	c.version++
	c.forgotten = c.version
	c.mu.Unlock()
	c.server.CloseClientConnections()
}

// ListOnly disables watches that start with the existing objects, as on older servers.
func (c *Cluster) ListOnly() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listsOnly = true
}

// Forbid rejects, from now on, requests with this method and path by users whose name has the prefix.
func (c *Cluster) Forbid(user, method, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forbidden = append(c.forbidden, [3]string{user, method, path})
}

// Permit ends the effect of Forbid.
func (c *Cluster) Permit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forbidden = nil
}

// isForbidden reports whether a request of a user with a certificate is rejected.
func (c *Cluster) isForbidden(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.forbidden, func(f [3]string) bool {
		return strings.HasPrefix(r.TLS.PeerCertificates[0].Subject.CommonName, f[0]) && r.Method == f[1] && r.URL.Path == f[2]
	})
}

// Count returns the number of requests so far with this method whose path contains the text.
func (c *Cluster) Count(method, path string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, count := range c.counts {
		if strings.HasPrefix(key, method+" ") && strings.Contains(key, path) {
			n += count
		}
	}
	return n
}

// Get reads the object at a path such as /api/v1/nodes/win-1, and reports whether it exists.
func (c *Cluster) Get(path string, into any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	object, found := c.objects[path]
	if !found {
		return false
	}
	b, err := json.Marshal(object)
	return err == nil && json.Unmarshal(b, into) == nil
}

// Paths lists the objects, sorted.
func (c *Cluster) Paths() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.objects))
}

// Patch merges a patch into the object at a path, like the cluster's controllers.
func (c *Cluster) Patch(path string, patch map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object, found := c.objects[path]; found {
		c.put(path, "MODIFIED", merge(object, patch))
	}
}

// Put creates or replaces the object at a path, like an administrator.
func (c *Cluster) Put(path string, object any) error {
	b, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var o map[string]any
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := "ADDED"
	if _, found := c.objects[path]; found {
		kind = "MODIFIED"
	}
	parent := path[:strings.LastIndexByte(path, '/')]
	o["apiVersion"], o["kind"] = versionOf(path), collection(parent)
	c.put(path, kind, o)
	return nil
}

// Delete removes the object at a path.
func (c *Cluster) Delete(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object, found := c.objects[path]; found {
		delete(c.objects, path)
		c.notify(path, "DELETED", object)
	}
}
