//go:build linux

package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/hns"
	"github.com/windows-machine-config/wmco/lab/world"
)

// What the network of pods is on the host of these tests, and on another node.
const (
	overlayName  = "OVNKubernetesHybridOverlayNetwork"
	overlayRange = "10.132.7.0/24"
	sourceVIP    = "10.132.7.2"
	otherRange   = "10.132.8.0/22"
	otherNode    = "10.98.1.9"
)

// networkPatience is how long a test waits for what takes a minute on an idle machine.
const networkPatience = 5 * time.Minute

// TestNetworks runs programs that talk to Windows' network service, unchanged: kube-proxy.exe, win-overlay.exe and host-local.exe.
func TestNetworks(t *testing.T) {
	l := lab.Start(t, lab.Options{Hosts: []string{"win-1"}})
	client, err := kubernetes.NewForConfig(l.ControlPlane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	n := networks{t: t, lab: l, host: l.Hosts()[0], client: client}
	n.makeNode()
	n.place("kube-proxy", "win-overlay", "host-local", "flanneld")
	n.makeNetwork()
	t.Run("PluginsMakeAndRemoveEndpoints", func(t *testing.T) { n.in(t).plugins() })
	t.Run("ServicesBecomeLoadBalancers", func(t *testing.T) { n.in(t).services() })
	t.Run("FlannelMakesItsNetwork", func(t *testing.T) { n.in(t).flannel() })
	t.Run("TheServiceRestarts", func(t *testing.T) { n.in(t).restarts() })
	t.Run("ABootForgets", func(t *testing.T) { n.in(t).forgets() })
}

// networks is a host with the network of an overlay.
type networks struct {
	t       *testing.T
	lab     *lab.Lab
	host    *lab.Host
	client  *kubernetes.Clientset
	network hns.Object
}

func (n networks) in(t *testing.T) networks {
	n.t = t
	return n
}

// makeNode makes the host a node, whose programs may do everything.
func (n *networks) makeNode() {
	n.t.Helper()
	kubeconfig := filepath.Join(n.t.TempDir(), "kubeconfig")
	if err := n.lab.ControlPlane.Kubeconfig(kubeconfig); err != nil {
		n.t.Fatal(err)
	}
	credentials, err := os.ReadFile(kubeconfig)
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(`C:\k\kubeconfig`, credentials)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.host.Name()}}
	if _, err := world.AddNode(n.t.Context(), n.client, node, n.host.Address()); err != nil {
		n.t.Fatal(err)
	}
}

// place puts programs of the payload on the host.
func (n *networks) place(names ...string) {
	n.t.Helper()
	dir := n.t.TempDir()
	if err := world.Programs(n.t.Context(), dir, os.Stderr, names...); err != nil {
		n.t.Fatal(err)
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name+".exe"))
		if err != nil {
			n.t.Fatal(err)
		}
		n.write(`C:\k\`+name+`.exe`, content)
	}
}

func (n *networks) write(path string, content []byte) {
	n.t.Helper()
	if err := n.host.WriteFile(path, content); err != nil {
		n.t.Fatal(err)
	}
}

type fields = map[string]any

// makeNetwork makes what the overlay makes.
func (n *networks) makeNetwork() {
	n.t.Helper()
	subnet := fields{
		"IpAddressPrefix": overlayRange, "Routes": []fields{{"NextHop": "10.132.7.1", "DestinationPrefix": "0.0.0.0/0"}},
		"Policies": []fields{{"Type": "VSID", "Settings": fields{"IsolationId": 4097}}},
	}
	remote := fields{"DestinationPrefix": otherRange, "IsolationId": 4097, "ProviderAddress": otherNode, "DistributedRouterMacAddress": "00-15-5D-01-02-03"}
	var err error
	n.network, err = n.host.CreateNetworkObject(hns.Network, fields{
		"Name": overlayName, "Type": "Overlay", "Ipams": []fields{{"Type": "Static", "Subnets": []fields{subnet}}},
		"Policies": []fields{{"Type": "RemoteSubnetRoute", "Settings": remote}, {"Type": "HostRoute", "Settings": fields{}}},
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// plugins has win-overlay.exe make the endpoint of a pod, and remove it.
func (n networks) plugins() {
	namespace, err := n.host.CreateNetworkObject(hns.Namespace, fields{"Type": "Host"})
	if err != nil {
		n.t.Fatal(err)
	}
	added := n.plugin("ADD", namespace)
	var result struct{ Ip4 struct{ IP, Gateway string } }
	if err := json.Unmarshal([]byte(added), &result); err != nil || result.Ip4.IP != "10.132.7.3/24" || result.Ip4.Gateway != "10.132.7.1" {
		n.t.Fatalf("ADD says %s (%v)", added, err)
	}
	e := n.only(hns.Endpoint)
	nat := fields{"Type": "OutBoundNAT", "Settings": fields{"Exceptions": []any{"172.30.0.0/16"}}}
	route := fields{"Type": "SDNRoute", "Settings": fields{"DestinationPrefix": "172.30.0.0/16", "NeedEncap": true}}
	address := fields{"Type": "ProviderAddress", "Settings": fields{"ProviderAddress": n.host.Address()}}
	for field, want := range map[string]any{
		"Policies": []any{nat, route, address}, "HostComputeNamespace": namespace["ID"], "HostComputeNetwork": n.network["ID"],
		"MacAddress": "0E-2A-0a-84-07-03", "IpConfigurations": []any{fields{"IpAddress": "10.132.7.3", "PrefixLength": 24.0}},
	} {
		if diff := cmp.Diff(want, e[field]); diff != "" {
			n.t.Errorf("%s of the endpoint: %s", field, diff)
		}
	}
	n.expectAddresses("10.132.7.3")
	if deleted := n.plugin("DEL", namespace); deleted != "" {
		n.t.Errorf("DEL says %s", deleted)
	}
	if left := n.objects(hns.Endpoint); len(left) > 0 {
		n.t.Errorf("DEL leaves endpoints %v", left)
	}
	n.expectAddresses()
}

// plugin calls win-overlay.exe as containerd does, and returns what it prints.
func (n networks) plugin(command string, namespace hns.Object) string {
	n.t.Helper()
	policy := func(kind string, settings fields) fields {
		return fields{"name": "EndpointPolicy", "value": fields{"Type": kind, "Settings": settings}}
	}
	config, err := json.Marshal(fields{
		"cniVersion": "0.2.0", "name": overlayName, "type": "win-overlay", "apiVersion": 2, "capabilities": fields{"portMappings": true, "dns": true},
		"ipam": fields{"type": "host-local", "subnet": overlayRange, "rangeStart": "10.132.7.3"},
		"policies": []fields{
			policy("OutBoundNAT", fields{"Exceptions": []string{"172.30.0.0/16"}}),
			policy("SDNRoute", fields{"DestinationPrefix": "172.30.0.0/16", "NeedEncap": true}),
			policy("ProviderAddress", fields{"ProviderAddress": n.host.Address()}),
		},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(`C:\k\cni.conf`, config)
	var script strings.Builder
	for name, value := range map[string]string{
		"COMMAND": command, "CONTAINERID": "c1", "IFNAME": "eth0", "PATH": `C:\k`, "NETNS": fmt.Sprint(namespace["ID"]),
	} {
		fmt.Fprintf(&script, "set CNI_%s=%s\r\n", name, value)
	}
	n.write(`C:\k\cni.cmd`, []byte("@echo off\r\n"+script.String()+`C:\k\win-overlay.exe < C:\k\cni.conf`+"\r\n"))
	result, err := n.host.Exec(n.t.Context(), `cmd.exe /c C:\k\cni.cmd`)
	if err != nil || result.ExitCode != 0 {
		n.t.Fatalf("%s: exit code %d (%v): %s%s", command, result.ExitCode, err, result.Stdout, result.Stderr)
	}
	return strings.TrimSpace(string(result.Stdout))
}

func (n networks) expectAddresses(want ...string) {
	n.t.Helper()
	if have, err := n.host.PodAddresses(n.t.Context()); err != nil || !slices.Equal(have, want) {
		n.t.Errorf("the host has addresses %v (%v), want %v", have, err, want)
	}
}

func (n networks) objects(kind hns.Kind) []hns.Object {
	n.t.Helper()
	all, err := n.host.NetworkObjects(kind)
	if err != nil {
		n.t.Fatal(err)
	}
	return all
}

func (n networks) only(kind hns.Kind) hns.Object {
	n.t.Helper()
	all := n.objects(kind)
	if len(all) != 1 {
		n.t.Fatalf("the host has of %s %v, want one", kind, all)
	}
	return all[0]
}

// Sizes of the cluster that kube-proxy sees.
const (
	serviceCount        = 200
	endpointsPerService = 5
)

// services gives kube-proxy.exe a cluster of some size. Some calls fail at first, as they do on Windows.
func (n networks) services() {
	for i, code := range []hns.Code{hns.Exists, hns.PortExists} { // one call each: both count the first
		if err := n.host.InjectNetworkFault(hns.Fault{Call: "HcnCreateLoadBalancer", Code: code, Times: i + 1}); err != nil {
			n.t.Fatal(err)
		}
	}
	want := n.createServices(0, 1) // besides the API server's
	defer n.startProxy()()
	world.Eventually(n.t, networkPatience, "kube-proxy meets what Windows says at times", func(context.Context) string {
		log := n.log(proxyLogFile)
		for _, word := range []string{"(0xb7)", "(0x803b0013)"} {
			if !strings.Contains(log, word) {
				return fmt.Sprintf("its log has no %s: %s", word, log)
			}
		}
		return ""
	})
	began := time.Now()
	maps.Copy(want, n.createServices(1, serviceCount))
	created := time.Since(began).Round(time.Millisecond)
	world.Eventually(n.t, networkPatience, "all Services are load balancers", func(context.Context) string { return n.missing(want) })
	n.t.Logf("%d Services with %d endpoints were made in %v, and all load balancers were there %v after the first",
		serviceCount, serviceCount*endpointsPerService, created, time.Since(began).Round(time.Millisecond))
	n.expectEndpoints()
	// kube-proxy counts the endpoints of a load balancer at each attempt to make it, so that those of one that failed at first stay.
	leaked := endpointsOf(0)
	began = time.Now()
	n.deleteServices()
	world.Eventually(n.t, networkPatience, "nothing of the Services stays", func(context.Context) string {
		if left := n.frontends(); len(left) > 0 {
			return fmt.Sprintf("there are %d load balancers", len(left))
		}
		for _, e := range n.objects(hns.Endpoint) {
			if e["Flags"] == 1.0 && !n.ofAPIServer(addressOf(e)) && !slices.Contains(leaked, addressOf(e)) {
				return fmt.Sprintf("there is endpoint %v", e)
			}
		}
		return ""
	})
	n.t.Logf("nothing of them was left after %v", time.Since(began).Round(time.Millisecond))
}

// createServices makes Services from first on, so that there are count in all, and returns their frontends with their endpoints.
func (n networks) createServices(first, count int) map[string][]string {
	n.t.Helper()
	made := make([]*corev1.Service, count)
	want := map[string][]string{}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := first + worker; i < count; i += 8 {
				made[i] = n.createService(i)
			}
		})
	}
	all.Wait()
	for i := first; i < count; i++ {
		if made[i] == nil {
			n.t.FailNow()
		}
		want[made[i].Spec.ClusterIP] = endpointsOf(i)
	}
	return want
}

// endpointsOf are the addresses of the endpoints of a Service, which no other has.
func endpointsOf(service int) []string {
	var list []string
	for i := range endpointsPerService {
		number := service*endpointsPerService + i
		list = append(list, fmt.Sprintf("10.132.%d.%d", 8+number/250, 2+number%250))
	}
	slices.Sort(list)
	return list
}

func (n networks) createService(number int) *corev1.Service {
	service, err := world.AddService(n.t.Context(), n.client, fmt.Sprintf("app-%d", number), endpointsOf(number)...)
	if err != nil {
		n.t.Error(err)
	}
	return service
}

func (n networks) deleteServices() {
	n.t.Helper()
	var all sync.WaitGroup
	for i := range serviceCount {
		all.Go(func() {
			name := fmt.Sprintf("app-%d", i)
			err := errors.Join(
				n.client.CoreV1().Services("default").Delete(n.t.Context(), name, metav1.DeleteOptions{}),
				n.client.DiscoveryV1().EndpointSlices("default").Delete(n.t.Context(), name, metav1.DeleteOptions{}))
			if err != nil {
				n.t.Error(err)
			}
		})
	}
	all.Wait()
}

// Logs of the programs that these tests run.
const (
	proxyLogFile   = `C:\var\log\kube-proxy.log`
	flannelLogFile = `C:\var\log\flanneld.log`
)

func (n networks) log(file string) string {
	content, err := n.host.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// startProxy runs kube-proxy.exe with the configuration that hosts get.
func (n networks) startProxy() (stop func()) {
	n.t.Helper()
	config, err := json.Marshal(fields{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "clientConnection": fields{"kubeconfig": `C:\k\kubeconfig`},
		"hostnameOverride": n.host.Name(), "mode": "kernelspace", "clusterCIDR": overlayRange,
		"winkernel": fields{"networkName": overlayName, "enableDSR": true, "sourceVip": sourceVIP},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(`C:\k\kube-proxy.conf`, config)
	return n.start("kube-proxy", `C:\k\kube-proxy.exe --config=C:\k\kube-proxy.conf --v=2`, proxyLogFile)
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

// missing says which of some frontends is not as wanted.
func (n networks) missing(want map[string][]string) string {
	have := n.frontends()
	if len(have) != len(want) {
		return fmt.Sprintf("there are %d load balancers, want %d", len(have), len(want))
	}
	return cmp.Diff(want, have)
}

// frontends are the addresses of load balancers, those for the API server left out, with the addresses of their endpoints.
func (n networks) frontends() map[string][]string {
	n.t.Helper()
	endpoints := map[string]string{}
	for _, e := range n.objects(hns.Endpoint) {
		endpoints[fmt.Sprint(e["ID"])] = addressOf(e)
	}
	have := map[string][]string{}
	for _, o := range n.objects(hns.LoadBalancer) {
		lb := loadBalancerOf(n.t, o)
		if len(lb.FrontendVIPs) == 1 && n.ofAPIServer(lb.FrontendVIPs[0]) {
			continue
		}
		if len(lb.FrontendVIPs) != 1 || lb.SourceVIP != sourceVIP || lb.Flags != 1 || len(lb.PortMappings) != 1 || lb.PortMappings[0] != webPort() {
			n.t.Fatalf("a load balancer is %v", o)
		}
		var addresses []string
		for _, id := range lb.HostComputeEndpoints {
			addresses = append(addresses, endpoints[strings.ToUpper(id)])
		}
		slices.Sort(addresses)
		have[lb.FrontendVIPs[0]] = addresses
	}
	return have
}

// ofAPIServer says whether an address is that of the API server, or of its Service.
func (n networks) ofAPIServer(address string) bool {
	return address == n.lab.Address() || address == "10.96.0.1"
}

// loadBalancer is one as Windows has it, with direct server return.
type loadBalancer struct {
	FrontendVIPs, HostComputeEndpoints []string
	SourceVIP                          string
	Flags                              int
	PortMappings                       []portMapping
}

type portMapping struct{ Protocol, ExternalPort, InternalPort int }

func webPort() portMapping { return portMapping{6, 80, 8080} }

func loadBalancerOf(t *testing.T, o hns.Object) (lb loadBalancer) {
	t.Helper()
	raw, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(raw, &lb)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lb
}

func addressOf(endpoint hns.Object) string {
	configurations, _ := endpoint["IpConfigurations"].([]any)
	if len(configurations) == 0 {
		return ""
	}
	first, _ := configurations[0].(map[string]any)
	return fmt.Sprint(first["IpAddress"])
}

// expectEndpoints wants each endpoint to be sent to the node that it is on.
func (n networks) expectEndpoints() {
	n.t.Helper()
	remote := 0
	for _, e := range n.objects(hns.Endpoint) {
		address := addressOf(e)
		if !strings.HasPrefix(address, "10.132.") || address == sourceVIP {
			continue
		}
		remote++
		want := []any{fields{"Type": "ProviderAddress", "Settings": fields{"ProviderAddress": otherNode}}}
		if diff := cmp.Diff(want, e["Policies"]); diff != "" || e["Flags"] != 1.0 {
			n.t.Errorf("endpoint %v: %s", e, diff)
		}
	}
	if want := serviceCount * endpointsPerService; remote != want {
		n.t.Errorf("there are %d endpoints of other nodes, want %d", remote, want)
	}
}

// flannel has flanneld.exe make its overlay, with a route to another node's pods.
func (n networks) flannel() {
	const name = "flannel.4096"
	config := fields{"Network": "10.128.0.0/9", "Backend": fields{"Type": "vxlan", "Name": name, "VNI": 4096, "Port": 4789}}
	raw, err := json.Marshal(config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(`C:\k\net-conf.json`, raw)
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Annotations: map[string]string{
		"flannel.alpha.coreos.com/backend-type": "vxlan", "flannel.alpha.coreos.com/backend-data": `{"VNI":4096,"VtepMAC":"00:15:5d:0a:0b:0c"}`,
		"flannel.alpha.coreos.com/kube-subnet-manager": "true", "flannel.alpha.coreos.com/public-ip": otherNode,
	}}}
	if _, err := n.client.CoreV1().Nodes().Create(n.t.Context(), other, metav1.CreateOptions{}); err != nil {
		n.t.Fatal(err)
	}
	defer n.start("flanneld", `C:\k\flanneld.exe --kube-subnet-mgr --kubeconfig-file=C:\k\kubeconfig --net-config-path=C:\k\net-conf.json `+
		`--subnet-file=C:\k\subnet.env --iface=`+n.host.Address(), flannelLogFile)()
	world.Eventually(n.t, networkPatience, "flannel's network knows both nodes", func(ctx context.Context) string {
		var own, others *corev1.Node
		if own, err = n.client.CoreV1().Nodes().Get(ctx, n.host.Name(), metav1.GetOptions{}); err == nil {
			others, err = n.client.CoreV1().Nodes().Get(ctx, "linux-1", metav1.GetOptions{})
		}
		if err != nil {
			return err.Error()
		}
		var made hns.Object
		for _, o := range n.objects(hns.Network) {
			if o["Name"] == name {
				made = o
			}
		}
		policies := policiesOf(made)
		router := fmt.Sprint(policies["DrMacAddress"]["Address"])
		data := own.Annotations["flannel.alpha.coreos.com/backend-data"]
		remote := fields{
			"IsolationId": 4096.0, "DistributedRouterMacAddress": "00:15:5d:0a:0b:0c", "ProviderAddress": otherNode, "DestinationPrefix": others.Spec.PodCIDR,
		}
		diff := cmp.Diff(remote, policies["RemoteSubnetRoute"])
		if diff != "" || policies["HostRoute"] == nil || policies["ProviderAddress"]["ProviderAddress"] != n.host.Address() || made["Flags"] != 8.0 ||
			!strings.Contains(strings.ToUpper(data), strings.ReplaceAll(router, "-", ":")) || router == "" {
			return fmt.Sprintf("it is %v; the node says %s; %s; flanneld's log: %s", made, data, diff, n.log(flannelLogFile))
		}
		return ""
	})
}

// policiesOf are the settings of an object's policies by their type.
func policiesOf(o hns.Object) map[string]fields {
	found := map[string]fields{}
	list, _ := o["Policies"].([]any)
	for _, one := range list {
		policy, _ := one.(fields)
		settings, _ := policy["Settings"].(fields)
		found[fmt.Sprint(policy["Type"])] = settings
	}
	return found
}

// restarts has the network service stop, as its users see it, and come back with less than it had.
func (n networks) restarts() {
	if _, err := n.host.CreateNetworkObject(hns.Endpoint, fields{"HostComputeNetwork": n.network["ID"], "Name": "stays"}); err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.host.CreateNetworkObject(hns.LoadBalancer, fields{"PortMappings": []fields{{"Protocol": 6, "ExternalPort": 30080}}}); err != nil {
		n.t.Fatal(err)
	}
	before := len(n.objects(hns.Endpoint))
	if err := n.host.KillService(n.t.Context(), lab.NetworkService); err != nil {
		n.t.Fatal(err)
	}
	world.Eventually(n.t, networkPatience, "calls fail", func(ctx context.Context) string {
		result, err := n.host.Exec(ctx, `cmd.exe /c C:\k\cni.cmd`)
		if err != nil || result.ExitCode == 0 || !strings.Contains(string(result.Stdout), "(0x6ba)") {
			return fmt.Sprintf("win-overlay says %s%s (%v)", result.Stdout, result.Stderr, err)
		}
		return ""
	})
	world.Eventually(n.t, networkPatience, "the service manager starts it again", func(ctx context.Context) string {
		if err := n.host.StartService(ctx, lab.NetworkService); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := n.host.RestartNetworkService(n.t.Context(), hns.LoadBalancer); err != nil {
		n.t.Fatal(err)
	}
	s, _, err := n.host.Service(n.t.Context(), lab.NetworkService)
	if endpoints, left := len(n.objects(hns.Endpoint)), len(n.objects(hns.LoadBalancer)); err != nil || s.State != "running" || endpoints != before || left != 0 {
		n.t.Errorf("the service is %s (%v), with %d endpoints of %d and %d load balancers", s.State, err, endpoints, before, left)
	}
}

func (n networks) forgets() {
	if _, err := n.host.CreateNetworkObject(hns.Network, fields{"Name": "passing", "Flags": 8}); err != nil {
		n.t.Fatal(err)
	}
	if err := n.host.Reboot(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	var names []string
	for _, o := range n.objects(hns.Network) {
		names = append(names, fmt.Sprint(o["Name"]))
	}
	slices.Sort(names)
	if want := []string{overlayName, "lab"}; !slices.Equal(names, want) {
		n.t.Errorf("after a boot there are networks %v, want %v", names, want)
	}
	for kind, want := range map[hns.Kind]int{hns.Endpoint: 0, hns.LoadBalancer: 0, hns.Route: 0, hns.Namespace: 1} {
		if left := n.objects(kind); len(left) != want {
			n.t.Errorf("after a boot there is of %s %v", kind, left)
		}
	}
	s, _, err := n.host.Service(n.t.Context(), lab.NetworkService)
	if err != nil || s.State != "running" {
		n.t.Errorf("after a boot the service is %s (%v)", s.State, err)
	}
}
