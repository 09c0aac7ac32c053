package clusterversion_test

import (
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
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windows-machine-config/wmco/internal/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/controllers/controllertest"
)

// apiServer answers GET /version on an address of its own, to clients with the operator's token.
func apiServer(t *testing.T, listen, version string, certificate tls.Certificate) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if is := r.Header.Get("Authorization"); r.URL.Path != "/version" || is != "Bearer secret" || version == "" {
			t.Errorf("%s was asked for %s with Authorization %q", listen, r.URL, is)
		}
		fmt.Fprintf(w, `{"gitVersion": %q}`, version)
	}))
	s.Listener = listener
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// selfSigned is the certificate of an API server, and its authority.
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

func TestEachAPIServerIsAsked(t *testing.T) {
	certificate, authority := selfSigned(t)
	first := apiServer(t, "127.0.0.1:0", "v1.34.1", certificate)
	port := int32(first.Listener.Addr().(*net.TCPAddr).Port)
	second := apiServer(t, fmt.Sprintf("127.0.0.2:%d", port), "v1.33.7", certificate)
	stranger, _ := selfSigned(t)
	apiServer(t, fmt.Sprintf("127.0.0.3:%d", port), "", stranger) // not one of the cluster's: it must get no token
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
	expect("while all answer", "v1.34.1", "v1.33.7")
	second.Close()
	expect("while one is away", "v1.34.1", "v1.33.7")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(slice), slice); err != nil {
		t.Fatal(err)
	}
	slice.Endpoints = slice.Endpoints[:1]
	if err := c.Update(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	expect("after it has left", "v1.34.1")
}

// TestWithoutAddressesTheClusterIsAskedWhereRequestsArrive: as in a hosted control plane, whose servers have no addresses here.
func TestWithoutAddressesTheClusterIsAskedWhereRequestsArrive(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"gitVersion": "v1.35.2"}`) }))
	defer s.Close()
	servers := clusterversion.NewServers(fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).Build(), &rest.Config{Host: s.URL})
	if got := servers.Versions(t.Context()); !slices.Equal(got, []string{"v1.35.2"}) {
		t.Errorf("the versions are %q", got)
	}
}
