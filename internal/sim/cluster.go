package sim

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

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Cluster is a simulated API server: just enough of one for hosts to become nodes, where a real one would be too slow.
// It keeps any object it is given; it lets in whoever has the token, or a certificate it issued; it has no admission and
// no authorization.
type Cluster struct {
	// URL and CA (PEM) are what clients need, with Token.
	URL, CA, Token string

	server *httptest.Server
	cable  *cable // nil on this machine's network
	key    *ecdsa.PrivateKey
	ca     *x509.Certificate

	mu      sync.Mutex
	objects map[string]map[string]any // by path
	version int
	changed chan struct{} // closed at the next change
	history []change
	approve func(*certificatesv1.CertificateSigningRequest) bool
	// life of certificates; as asked for when 0.
	life time.Duration
	// ahead is how much the cluster's clock is ahead of the hosts'.
	ahead  time.Duration
	counts map[string]int
	away   bool
	// forgotten is the version before which no watch can go on.
	forgotten int
	// listsOnly is true when watches cannot begin with what there is.
	listsOnly bool
	// forbidden is a list of what is refused, each as user, method and path.
	forbidden [][3]string
}

// change is one event of watches.
type change struct {
	version int
	kind    string
	path    string
	object  map[string]any
}

// NewCluster starts an API server, which issues every certificate it is asked for.
func NewCluster() (*Cluster, error) { return newCluster(nil) }

// NewIsolatedCluster does the same for tests in which time is simulated (testing/synctest): no network leads to it, but
// its Dial does.
func NewIsolatedCluster() (*Cluster, error) { return newCluster(newCable()) }

// newCluster starts an API server on a cable, or on this machine's network without one.
func newCluster(on *cable) (*Cluster, error) {
	c := &Cluster{
		Token: "bootstrap-token", objects: map[string]map[string]any{}, changed: make(chan struct{}), counts: map[string]int{},
		approve: func(*certificatesv1.CertificateSigningRequest) bool { return true }, cable: on,
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
	c.server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that end in the middle are expected
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
	return c, nil
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

// issue signs a certificate; it returns DER.
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

// Approve sets which certificate requests are answered from now on, and asks again about those that wait.
func (c *Cluster) Approve(approve func(*certificatesv1.CertificateSigningRequest) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.approve = approve
	for path := range maps.Clone(c.objects) {
		c.answer(path)
	}
}

// SetCertificateLife makes every certificate from now on valid for that long, whatever was asked for.
func (c *Cluster) SetCertificateLife(life time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life = life
}

// SetClock sets how much the cluster's clock is ahead of the hosts': by it, certificates are issued and expire.
func (c *Cluster) SetClock(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = ahead
}

// SetToken makes another token the one that is let in.
func (c *Cluster) SetToken(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Token = token
}

// SetAway makes the server refuse everything, and end all connections, until it is called with false.
func (c *Cluster) SetAway(away bool) {
	c.mu.Lock()
	c.away = away
	c.mu.Unlock()
	if away {
		c.server.CloseClientConnections()
	}
}

// Forget ends all connections. Watches cannot go on from what clients have seen: they must read everything again.
func (c *Cluster) Forget() {
	c.mu.Lock()
	c.version++
	c.forgotten = c.version
	c.mu.Unlock()
	c.server.CloseClientConnections()
}

// ListOnly makes it one of the servers, older or set so, whose watches cannot begin with what there is.
func (c *Cluster) ListOnly() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listsOnly = true
}

// Forbid refuses, from now on, requests of users whose name begins so, with this method and path.
func (c *Cluster) Forbid(user, method, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forbidden = append(c.forbidden, [3]string{user, method, path})
}

// isForbidden tells whether a request of somebody with a certificate is to be refused.
func (c *Cluster) isForbidden(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.forbidden, func(f [3]string) bool {
		return strings.HasPrefix(r.TLS.PeerCertificates[0].Subject.CommonName, f[0]) && r.Method == f[1] && r.URL.Path == f[2]
	})
}

// Count is the number of requests so far with this method whose path contains the text.
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

// Get reads the object at a path such as /api/v1/nodes/win-1; it returns false when there is none.
func (c *Cluster) Get(path string, into any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	object, there := c.objects[path]
	if !there {
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

// Patch merges a patch into the object at a path, as the cluster's own controllers do.
func (c *Cluster) Patch(path string, patch map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object, there := c.objects[path]; there {
		c.put(path, "MODIFIED", merge(object, patch))
	}
}

// Put makes the object at a path, or replaces it, as an administrator would.
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
	if _, there := c.objects[path]; there {
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
	if object, there := c.objects[path]; there {
		delete(c.objects, path)
		c.tell(path, "DELETED", object)
	}
}

// Await returns when the condition holds; it is asked again after each change. The error is that of ctx.
func (c *Cluster) Await(ctx context.Context, holds func() bool) error {
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if holds() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
