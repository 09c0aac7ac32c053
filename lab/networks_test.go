//go:build linux

package lab_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// The pod network of the host in these tests, and of another node.
const (
	overlayName  = "OVNKubernetesHybridOverlayNetwork"
	overlayRange = "10.132.7.0/24"
	sourceVIP    = "10.132.7.2"
	otherRange   = "10.132.8.0/22"
	otherNode    = "10.98.1.9"
)

// networkTimeout is the timeout for operations that take a minute on an idle machine.
const networkTimeout = 5 * time.Minute

// TestNetworks runs unchanged programs that call Windows' network service: kube-proxy.exe, win-overlay.exe and host-local.exe.
func TestNetworks(t *testing.T) {
	l := lab.Start(t, lab.Options{Hosts: []string{"win-1"}})
	client, err := kubernetes.NewForConfig(l.ControlPlane.RESTConfig())
	must(t, err)
	n := networks{t: t, lab: l, host: l.Hosts()[0], client: client}
	n.makeNode()
	n.copyPrograms("", "kube-proxy", "win-overlay", "host-local")
	n.makeNetwork()
	t.Run("PluginsCreateAndRemoveEndpoints", func(t *testing.T) { n.withT(t).plugins() })
	t.Run("KubeProxyRetriesRejectedLoadBalancers", func(t *testing.T) { n.withT(t).rejections() })
	t.Run("ServiceRestartsWithFewerObjects", func(t *testing.T) { n.withT(t).restarts() })
	t.Run("BootRemovesNonPersistentObjects", func(t *testing.T) { n.withT(t).bootRemovesObjects() })
}

// networks is a host with an overlay network.
type networks struct {
	t       *testing.T
	lab     *lab.Lab
	host    *lab.Host
	client  *kubernetes.Clientset
	network hns.Object
}

func (n networks) withT(t *testing.T) networks {
	n.t = t
	return n
}

// makeNode registers the host as a node, and gives its programs all permissions.
func (n *networks) makeNode() {
	n.t.Helper()
	kubeconfig := filepath.Join(n.t.TempDir(), "kubeconfig")
	must(n.t, n.lab.ControlPlane.Kubeconfig(kubeconfig))
	credentials, err := os.ReadFile(kubeconfig)
	must(n.t, err)
	n.write(`C:\k\kubeconfig`, credentials)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.host.Name()}}
	if _, err := testenv.AddNode(n.t.Context(), n.client, node, n.host.Address()); err != nil {
		n.t.Fatal(err)
	}
}

// copyPrograms copies programs of the payload to the host. Those of Kubernetes have the given minor version, the newest if it is empty.
func (n *networks) copyPrograms(minor string, names ...string) {
	n.t.Helper()
	dir := n.t.TempDir()
	must(n.t, testenv.Programs(n.t.Context(), minor, dir, os.Stderr, names...))
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name+".exe"))
		must(n.t, err)
		n.write(`C:\k\`+name+`.exe`, content)
	}
}

func (n *networks) write(path string, content []byte) {
	n.t.Helper()
	must(n.t, n.host.WriteFile(path, content))
}

type fields = map[string]any

// makeNetwork creates the network that the overlay would create.
func (n *networks) makeNetwork() {
	n.t.Helper()
	subnet := fields{
		"IpAddressPrefix": overlayRange, "Routes": []fields{{"NextHop": "10.132.7.1", "DestinationPrefix": "0.0.0.0/0"}},
		"Policies": []fields{{"Type": "VSID", "Settings": fields{"IsolationId": 4097}}},
	}
	remote := fields{"DestinationPrefix": otherRange, "IsolationId": 4097, "ProviderAddress": otherNode, "DistributedRouterMacAddress": "00-15-5D-01-02-03"}
	var err error
	n.network, err = n.host.HNS().Create(hns.Network, fields{
		"Name": overlayName, "Type": "Overlay", "Ipams": []fields{{"Type": "Static", "Subnets": []fields{subnet}}},
		"Policies": []fields{{"Type": "RemoteSubnetRoute", "Settings": remote}, {"Type": "HostRoute", "Settings": fields{}}},
	})
	must(n.t, err)
}

func (n networks) objects(kind hns.Kind) []hns.Object {
	n.t.Helper()
	all, err := n.host.HNS().List(kind)
	must(n.t, err)
	return all
}

// single returns the only object of a kind.
func (n networks) single(kind hns.Kind) hns.Object {
	n.t.Helper()
	all := n.objects(kind)
	if len(all) != 1 {
		n.t.Fatalf("objects of kind %s: got %v, want one", kind, all)
	}
	return all[0]
}

// proxyLogFile is the log of kube-proxy.
const proxyLogFile = `C:\var\log\kube-proxy.log`

func (n networks) log(file string) string {
	content, err := n.host.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// start runs a program until stop is called.
func (n networks) start(name, command, log string) (stop func()) {
	n.t.Helper()
	n.write(log, nil)
	script := `C:\k\` + name + `.cmd`
	n.write(script, []byte("set NODE_NAME="+n.host.Name()+"\r\n"+command+" > "+log+" 2>&1\r\n"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = n.host.Exec(context.WithoutCancel(n.t.Context()), "cmd.exe /c "+script)
	}()
	return func() {
		if _, err := n.host.Exec(n.t.Context(), "taskkill.exe /f /im "+name+".exe"); err != nil {
			n.t.Error(err)
		}
		<-ended
	}
}

// restarts stops the network service and starts it again with fewer objects.
func (n networks) restarts() {
	if _, err := n.host.HNS().Create(hns.Endpoint, fields{"HostComputeNetwork": n.network["ID"], "Name": "stays"}); err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.host.HNS().Create(hns.LoadBalancer, fields{"PortMappings": []fields{{"Protocol": 6, "ExternalPort": 30080}}}); err != nil {
		n.t.Fatal(err)
	}
	before := len(n.objects(hns.Endpoint))
	must(n.t, n.host.KillService(n.t.Context(), lab.NetworkService))
	testenv.Eventually(n.t, networkTimeout, "calls fail while the service is down", func(ctx context.Context) string {
		result, err := n.host.Exec(ctx, `cmd.exe /c C:\k\cni.cmd`)
		if err != nil || result.ExitCode == 0 || !strings.Contains(string(result.Stdout), "(0x6ba)") {
			return fmt.Sprintf("win-overlay prints %s%s (%v)", result.Stdout, result.Stderr, err)
		}
		return ""
	})
	testenv.Eventually(n.t, networkTimeout, "the service manager can start the service again", func(ctx context.Context) string {
		if err := n.host.StartService(ctx, lab.NetworkService); err != nil {
			return err.Error()
		}
		return ""
	})
	must(n.t, n.host.HNS().Restart(n.t.Context(), hns.LoadBalancer))
	s, _, err := n.host.Service(n.t.Context(), lab.NetworkService)
	if endpoints, left := len(n.objects(hns.Endpoint)), len(n.objects(hns.LoadBalancer)); err != nil || s.State != "running" || endpoints != before || left != 0 {
		n.t.Errorf("service is %s (%v) with %d endpoints and %d load balancers, want running, %d and 0", s.State, err, endpoints, left, before)
	}
}

func (n networks) bootRemovesObjects() {
	if _, err := n.host.HNS().Create(hns.Network, fields{"Name": "passing", "Flags": 8}); err != nil {
		n.t.Fatal(err)
	}
	must(n.t, n.host.Reboot(n.t.Context()))
	var names []string
	for _, o := range n.objects(hns.Network) {
		names = append(names, fmt.Sprint(o["Name"]))
	}
	slices.Sort(names)
	if want := []string{overlayName, "lab"}; !slices.Equal(names, want) {
		n.t.Errorf("networks after a boot: got %v, want %v", names, want)
	}
	for kind, want := range map[hns.Kind]int{hns.Endpoint: 0, hns.LoadBalancer: 0, hns.Namespace: 1} {
		if left := n.objects(kind); len(left) != want {
			n.t.Errorf("objects of kind %s after a boot: got %v, want %d", kind, left, want)
		}
	}
	s, _, err := n.host.Service(n.t.Context(), lab.NetworkService)
	if err != nil || s.State != "running" {
		n.t.Errorf("after a boot the service is %s (%v)", s.State, err)
	}
}
