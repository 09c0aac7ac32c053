package clusterversion_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windows-machine-config/wmco/internal/operator/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// apiServer serves GET /version at its own address to clients with the operator's token.
func apiServer(t *testing.T, listen, version string, certificate tls.Certificate) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); r.URL.Path != "/version" || got != "Bearer secret" || version == "" {
			t.Errorf("%s received a request for %s with Authorization %q", listen, r.URL, got)
		}
		fmt.Fprintf(w, `{"gitVersion": %q}`, version)
	}))
	s.Listener = listener
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// selfSigned returns a self-signed API server certificate, and its authority in PEM format.
func selfSigned(t *testing.T) (certificate tls.Certificate, authority []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"kubernetes.default.svc"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestEachAPIServerIsQueried(t *testing.T) {
	certificate, authority := selfSigned(t)
	first := apiServer(t, "127.0.0.1:0", "v1.34.1", certificate)
	port := int32(first.Listener.Addr().(*net.TCPAddr).Port)
	second := apiServer(t, fmt.Sprintf("127.0.0.2:%d", port), "v1.33.7", certificate)
	stranger, _ := selfSigned(t)
	apiServer(t, fmt.Sprintf("127.0.0.3:%d", port), "", stranger) // not one of the cluster's servers: it must get no token
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}, {Addresses: []string{"127.0.0.2"}}, {Addresses: []string{"127.0.0.3"}}},
		Ports:      []discoveryv1.EndpointPort{{Port: &port}},
	}
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(slice).Build()
	servers := clusterversion.NewServers(c, &rest.Config{
		Host: first.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: authority},
	})
	expect := func(when string, want ...string) {
		t.Helper()
		if got := servers.Versions(t.Context()); !slices.Equal(got, want) {
			t.Errorf("%s, the versions are %q, want %q", when, got, want)
		}
	}
	expect("while all answer", "v1.33.7", "v1.34.1")
	second.Close()
	expect("while one is away", "v1.33.7", "v1.34.1")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(slice), slice); err != nil {
		t.Fatal(err)
	}
	slice.Endpoints = slice.Endpoints[:1]
	if err := c.Update(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	expect("just after it has left", "v1.33.7", "v1.34.1")
}

// TestMissingEndpointsFallBackToClientHost: the servers of a hosted control plane have no addresses in the cluster.
func TestMissingEndpointsFallBackToClientHost(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"gitVersion": "v1.35.2"}`) }))
	defer s.Close()
	servers := clusterversion.NewServers(fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).Build(), &rest.Config{Host: s.URL})
	if got := servers.Versions(t.Context()); !slices.Equal(got, []string{"v1.35.2"}) {
		t.Errorf("the versions are %q", got)
	}
}

// TestServersBehindOneAddress: a load balancer distributes connections over the servers, and the old one is replaced.
func TestServersBehindOneAddress(t *testing.T) {
	type server struct{}
	var connections, replaced atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version := "v1.35.0"
		if r.Context().Value(server{}).(int64)%3 == 0 && replaced.Load() == 0 {
			version = "v1.34.3"
		}
		fmt.Fprintf(w, `{"gitVersion": %q}`, version)
	}))
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, server{}, connections.Add(1))
	}
	s.Start()
	defer s.Close()
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).Build()
	synctest.Test(t, func(t *testing.T) {
		servers := clusterversion.NewServers(c, &rest.Config{Host: s.URL})
		query := func() []string {
			time.Sleep(30 * time.Second)
			return servers.Versions(t.Context())
		}
		for range 2 {
			query()
		}
		both := []string{"v1.34.3", "v1.35.0"}
		for n := range 20 {
			if got := query(); !slices.Equal(got, both) {
				t.Errorf("query %d: the versions are %q, want %q", n, got, both)
			}
		}
		replaced.Store(1)
		began := time.Now()
		for time.Since(began) < 9*time.Minute {
			if got := query(); !slices.Contains(got, "v1.34.3") {
				t.Fatalf("the old server was forgotten %s after its last answer", time.Since(began))
			}
		}
		time.Sleep(time.Minute)
		if got := query(); !slices.Equal(got, both[1:]) {
			t.Errorf("ten minutes after the old server was replaced, the versions are %q", got)
		}
	})
}

func TestServerVersionsAreParsed(t *testing.T) {
	for answer, want := range map[string]string{
		`{"gitVersion": "v1.36.3", "emulationMajor": "1", "emulationMinor": "36"}`:     "v1.36.3",
		`{"gitVersion": "v1.36.3", "emulationMajor": "1", "emulationMinor": "34"}`:     "v1.34.0",
		`{"gitVersion": "v1.36.3", "emulationMajor": "1", "emulationMinor": "34+"}`:    "v1.34.0",
		`{"gitVersion": "v1.36.3", "emulationMajor": "1", "emulationMinor": "40"}`:     "v1.36.3",
		`{"gitVersion": "v1.36.3", "emulationMajor": "", "emulationMinor": "34"}`:      "v1.36.3",
		`{"gitVersion": "v1.36.3", "emulationMajor": "1", "emulationMinor": "-1"}`:     "v1.36.3",
		`{"gitVersion": "v1.36.3", "emulationMajor": "1", "emulationMinor": "100000"}`: "v1.36.3",
		`{"gitVersion": "v1.34.9+f1a2b3c"}`:                                            "v1.34.9",
		`{"gitVersion": "latest"}`:                                                     "",
		`{"gitVersion": "v1.2000.0"}`:                                                  "",
		`{"gitVersion": 1}`:                                                            "",
		`{}`:                                                                           "",
		`v1.36.3`:                                                                      "",
		`{"gitVersion": "` + strings.Repeat("1", 100_000) + `"}`:                       "",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
		servers := clusterversion.NewServers(fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).Build(), &rest.Config{Host: s.URL})
		if got := strings.Join(servers.Versions(t.Context()), " "); got != want {
			t.Errorf("the version in %.100s is %q, want %q", answer, got, want)
		}
		s.Close()
	}
}

func TestKubeletsOfWindowsNodes(t *testing.T) {
	node := func(name, system, kubelet string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system}}}
		n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem = kubelet, system
		return n
	}
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(node("win-1", "windows", "v1.34.4"), node("linux-1", "linux", "v1.36.0")).Build()
	got, err := clusterversion.NewServers(c, &rest.Config{}).Kubelets(t.Context())
	if err != nil || !slices.Equal(got, []string{"v1.34.4"}) {
		t.Errorf("the kubelets are %q, error %v", got, err)
	}
}

// TestServerNamesAreReadFromCertificate: the names are returned even if the request is rejected, but not if the server's certificate is not
// trusted.
func TestServerNamesAreReadFromCertificate(t *testing.T) {
	certificate, authority := selfSigned(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	config := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority, ServerName: "kubernetes.default.svc"}}
	if names, err := clusterversion.NewServers(nil, config).Names(t.Context()); err != nil || !slices.Equal(names, []string{"kubernetes.default.svc"}) {
		t.Errorf("names %q, error %v", names, err)
	}
	_, config.CAData = selfSigned(t)
	if names, err := clusterversion.NewServers(nil, config).Names(t.Context()); err == nil || names != nil {
		t.Errorf("of a stranger: names %q, error %v", names, err)
	}
}
