//go:build linux

package deploytest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	clusterfacts "github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/windowsimage"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

// tenant creates a namespace, and returns clients of a user who can only create Services there.
func (c *cluster) tenant(t *testing.T, in string) clients {
	t.Helper()
	c.createNamespace(t, in, nil)
	c.permit(t, in, userNamed("tenant"), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"create"}})
	return c.as(t, "tenant")
}

func createService(ctx context.Context, as clients, in, name string, spec corev1.ServiceSpec) error {
	return errOf(as.CoreV1().Services(in).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}))
}

// createEndpoint creates the EndpointSlice of a tenant's Service, in place of its controller.
func (c *cluster) createEndpoint(t *testing.T, in, service string, port int32, hostname *string) {
	t.Helper()
	if _, err := c.admin.DiscoveryV1().EndpointSlices(in).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{nodeAddress}, Hostname: hostname, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("s"), Port: ptr.To(port), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// reserved returns the addresses that hosts cannot have, read with the operator's permissions.
func (c *cluster) reserved(t *testing.T) *source.ReservedAddresses {
	t.Helper()
	must(t, v1alpha1.AddToScheme(scheme.Scheme))
	operator, err := client.New(c.operatorConfig(), client.Options{Scheme: scheme.Scheme})
	must(t, err)
	return source.NewReservedAddresses(operator, operator, clusterfacts.Connection{}, source.NewResolver(nil))
}

// TestHostAddressOfServiceIsRejected simulates a tenant's Service with the address of a host: kube-proxy sends connections to
// this address to the tenant's pod. The operator must reject the address before it connects.
func TestHostAddressOfServiceIsRejected(t *testing.T) {
	if !inOwnNamespaces(t) {
		return
	}
	c, dir := startCluster(t), t.TempDir()
	const host = "203.0.113.50"
	pod, err := net.Listen("tcp", nodeAddress+":2222")
	must(t, err)
	go func() {
		for {
			conn, err := pod.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "SSH-2.0-OpenSSH_for_Windows_of_a_tenant\r\n")
			_ = conn.Close()
		}
	}()
	if _, err := c.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	must(t, c.control.Kubeconfig(filepath.Join(dir, "kubeconfig")))
	proxy, err := c.control.StartProxy(filepath.Join(dir, "log"), "--kubeconfig="+filepath.Join(dir, "kubeconfig"), "--hostname-override=cp-1", "--proxy-mode=nftables",
		"--cluster-cidr=10.244.0.0/16", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0")
	must(t, err)
	t.Cleanup(proxy.Stop)
	operator := c.reserved(t)
	rejection := func(ctx context.Context) string {
		known, err := operator.Live(ctx, "", time.Now())
		if err != nil {
			t.Logf("reading reserved addresses: %v", err) // the control plane of this test has no cluster-info
		}
		return known.Refuse(netip.MustParseAddr(host))
	}
	if reason := rejection(t.Context()); reason != "" {
		t.Fatalf("got rejection %q without the Service, want none", reason)
	}
	tenant := c.tenant(t, "tenant")
	eventually(t, "", func(ctx context.Context) error {
		return createService(ctx, tenant, "tenant", "web", corev1.ServiceSpec{ExternalIPs: []string{host}, Ports: []corev1.ServicePort{{Name: "s", Port: 22}}})
	})
	if reason := rejection(t.Context()); !strings.Contains(reason, "spec.externalIPs of Service tenant/web") {
		t.Errorf("got rejection %q, want one that names the Service", reason)
	}
	c.createEndpoint(t, "tenant", "web", 2222, nil)
	eventually(t, "", func(ctx context.Context) error { // the attack must work without the check
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", host+":22")
		if err != nil {
			return errors.Join(err, proxy.Failure())
		}
		return conn.Close()
	})
}

// TestServiceNamesAreNotResolvedAsHosts simulates Services of a tenant whose names, with the search list of the cluster's DNS,
// are those of a host and of the proxy.
func TestServiceNamesAreNotResolvedAsHosts(t *testing.T) {
	if !inOwnNamespaces(t) {
		return
	}
	c, dir := startCluster(t), t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	must(t, c.control.Kubeconfig(filepath.Join(dir, "kubeconfig")))
	list := file("resolv.conf", "nameserver 127.0.0.1\nsearch "+namespace+".svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n")
	must(t, syscall.Mount(list, "/etc/resolv.conf", "", syscall.MS_BIND, ""))
	dns, err := c.control.StartDNS(t.Context(), filepath.Join(dir, "log"), file("Corefile", `cluster.local:53 {
  kubernetes {
    kubeconfig `+filepath.Join(dir, "kubeconfig")+`
    ttl 0
  }
}
.:53 {
  template IN A win1.lan {
    answer "{{ .Name }} 5 IN A 10.0.0.7"
  }
  template IN A vm.tenant.example {
    answer "{{ .Name }} 5 IN A 198.51.100.66"
  }
  template ANY ANY {
    rcode NXDOMAIN
  }
}
`))
	must(t, err)
	t.Cleanup(dns.Stop)
	tenant := c.tenant(t, "lan")
	eventually(t, "", func(ctx context.Context) error {
		return createService(ctx, tenant, "lan", "win1", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "vm.tenant.example"})
	})
	must(t, createService(t.Context(), tenant, "lan", "corp", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "s", Port: 3128}}}))
	c.createEndpoint(t, "lan", "corp", 3128, ptr.To("proxy"))
	for name, trap := range map[string]string{"win1.lan": "198.51.100.66", "proxy.corp.lan": nodeAddress} { // the attack must work without the operator's resolver
		eventually(t, "", func(ctx context.Context) error {
			got, err := net.DefaultResolver.LookupHost(ctx, name)
			if len(got) != 1 || got[0] != trap {
				return fmt.Errorf("%s resolves to %v (%w), want %s; %w", name, got, err, trap, dns.Failure())
			}
			return nil
		})
	}
	if ips, err := source.NewResolver(nil).Lookup(t.Context(), "win1.lan"); err != nil || len(ips) != 1 || ips[0].String() != "10.0.0.7" {
		t.Errorf("host win1.lan resolves to %v (error %v), want 10.0.0.7", ips, err)
	}
	pod, err := net.Listen("tcp", nodeAddress+":3128")
	must(t, err)
	go func() {
		_ = http.Serve(pod, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t.Errorf("the tenant's pod received %s %s with %q", r.Method, r.Host, r.Header.Get("Proxy-Authorization"))
			w.WriteHeader(http.StatusBadGateway)
		}))
	}()
	guard := windowsimage.Guard{Lookup: net.DefaultResolver.LookupNetIP, Proxies: []string{"proxy.corp.lan:3128"}}
	registry := registryclient.New(registryclient.Options{ // like the controller that explains why pods do not start
		Agent: "test", PasswordFirst: true, Proxy: map[string]string{"HTTPS_PROXY": "http://operator:secret@proxy.corp.lan:3128"}, Dial: guard.Dial(), Check: guard.Check,
	})
	_, err = windowsimage.New(registry, mirrors.Table{}, windowsimage.NewMemory()).Read(t.Context(), "registry.example.com/a/b:1")
	if err == nil || !strings.Contains(err.Error(), "proxy.corp.lan.") {
		t.Errorf("reading an image through the proxy: got error %v, want one about proxy.corp.lan.", err)
	}
}
