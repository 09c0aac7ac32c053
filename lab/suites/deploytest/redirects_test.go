//go:build linux

package deploytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// testRedirects has the kubelet of win-1 redirect the API server to a server of the attacker. The API server forwards the redirect to
// kubectl windows, which must not send the user's token there.
func (c *cluster) testRedirects(t *testing.T) {
	program := buildPlugin(t)
	var lock sync.Mutex
	var stolen, requested []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		stolen = append(stolen, r.URL.Path+" "+r.Header.Get("Authorization"))
		_, _ = w.Write([]byte("x\n"))
	}))
	defer other.Close()
	port := c.serveAsKubelet(t, func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		requested = append(requested, r.URL.Path)
		http.Redirect(w, r, other.URL+"/stolen", http.StatusFound)
	})
	kubeconfig := c.administrator(t)
	for _, args := range [][]string{{"logs", "win-1", "kubelet"}, {"logs", "win-1", "wicd"}, {"logs", "win-1", "--list"}} {
		output, err := exec.CommandContext(t.Context(), program, append(args, "--kubeconfig", kubeconfig)...).CombinedOutput()
		want := "the kubelet of node win-1 redirects the request (to " + strings.TrimPrefix(other.URL, "http://") + ")"
		if err == nil || !strings.Contains(string(output), want) {
			t.Errorf("kubectl windows %v: got error %v and output %s, want %s", args, err, output, want)
		}
	}
	lock.Lock()
	defer lock.Unlock()
	if len(requested) != 3 || len(stolen) > 0 {
		t.Errorf("the kubelet at port %d received %q, and the other server %q; want three requests and none", port, requested, stolen)
	}
}

func buildPlugin(t *testing.T) (program string) {
	t.Helper()
	root, err := testenv.Repository(t.Context())
	must(t, err)
	program = filepath.Join(t.TempDir(), "kubectl-windows")
	must(t, lab.BuildProgram(t.Context(), root, "./cmd/kubectl-windows", program, lab.BuildOptions{}, nil))
	return program
}

// serveAsKubelet serves as the kubelet of win-1, with a certificate of the cluster, until the test ends. It updates the address
// in the Node.
func (c *cluster) serveAsKubelet(t *testing.T, handle http.HandlerFunc) (port int) {
	t.Helper()
	address := ownAddress(t) // the API server does not connect to kubelets at loopback addresses
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address.String(), "0"))
	must(t, err)
	node := c.as(t, "system:node:win-1", "system:nodes")
	kubelet := httptest.NewUnstartedServer(handle)
	_ = kubelet.Listener.Close()
	kubelet.Listener, kubelet.TLS = listener, &tls.Config{Certificates: []tls.Certificate{c.servingCertificate(t, node, address)}}
	kubelet.StartTLS()
	t.Cleanup(kubelet.Close)
	port = listener.Addr().(*net.TCPAddr).Port
	status := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, address, port)
	must(t, errOf(node.CoreV1().Nodes().Patch(t.Context(), "win-1", types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")))
	return port
}

func ownAddress(t *testing.T) net.IP {
	t.Helper()
	all, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP
		}
	}
	t.Fatal("this machine has only loopback addresses of IPv4")
	return nil
}

// servingCertificate obtains a serving certificate for the kubelet of win-1.
func (c *cluster) servingCertificate(t *testing.T, node clients, address net.IP) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	request, err := cert.MakeCSR(key, &pkix.Name{CommonName: "system:node:win-1", Organization: []string{"system:nodes"}}, nil, []net.IP{address})
	must(t, err)
	created, err := createRequest(t.Context(), node, certificatesv1.KubeletServingSignerName, request, "digital signature", "server auth")
	must(t, err)
	must(t, approve(t.Context(), c.admin, created))
	block, _ := pem.Decode(waitForCertificate(t, c.admin, created.Name))
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
}

// administrator creates a ServiceAccount with role cluster-admin, and returns the path of a kubeconfig with its token.
func (c *cluster) administrator(t *testing.T) (kubeconfig string) {
	t.Helper()
	const name = "administrator"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(t, errOf(c.admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(t.Context(), account, metav1.CreateOptions{})))
	c.bind(t, "", "cluster-admin", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name})
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, c.control.KubeconfigFor(t.Context(), metav1.NamespaceDefault, name, kubeconfig))
	return kubeconfig
}
