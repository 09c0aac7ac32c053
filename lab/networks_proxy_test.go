//go:build linux

package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/lab/hns"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// The size of kube-proxy's cluster.
const (
	serviceCount        = 200
	endpointsPerService = 5
)

// services runs kube-proxy.exe in a cluster of some size. Some calls fail at first, as on Windows.
func (n networks) services() {
	for i, code := range []hns.Code{hns.Exists, hns.PortExists} { // one call each: the first call counts for both
		if err := n.host.HNS().Inject(hns.Fault{Call: "HcnCreateLoadBalancer", Code: code, Times: i + 1}); err != nil {
			n.t.Fatal(err)
		}
	}
	want := n.createServices(0, 1) // in addition to the API server's
	defer n.startProxy()()
	testenv.Eventually(n.t, networkPatience, "kube-proxy meets what Windows says at times", func(context.Context) string {
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
	testenv.Eventually(n.t, networkPatience, "all Services are load balancers", func(context.Context) string { return n.missing(want) })
	n.t.Logf("%d Services with %d endpoints were created in %v, and all load balancers were there %v after the first",
		serviceCount, serviceCount*endpointsPerService, created, time.Since(began).Round(time.Millisecond))
	n.expectEndpoints()
	// kube-proxy counts the endpoints of a load balancer at each attempt to create it, so that those of a failed attempt stay.
	leaked := endpointsOf(0)
	began = time.Now()
	n.deleteServices()
	testenv.Eventually(n.t, networkPatience, "nothing of the Services stays", func(context.Context) string {
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

// createServices creates Services from first on, up to count in all, and returns their frontends with their endpoints.
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

// endpointsOf returns the addresses of the endpoints of a Service. No other Service has them.
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
	service, err := testenv.AddService(n.t.Context(), n.client, fmt.Sprintf("app-%d", number), endpointsOf(number)...)
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

// missing returns which frontends differ from the wanted ones.
func (n networks) missing(want map[string][]string) string {
	have := n.frontends()
	if len(have) != len(want) {
		return fmt.Sprintf("there are %d load balancers, want %d", len(have), len(want))
	}
	return cmp.Diff(want, have)
}

// frontends returns the addresses of load balancers, except those of the API server, with the addresses of their endpoints.
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

// ofAPIServer reports whether an address is that of the API server, or of its Service.
func (n networks) ofAPIServer(address string) bool {
	return address == n.lab.Address() || address == "10.96.0.1"
}

// loadBalancer is a load balancer in Windows' form, with direct server return.
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

// expectEndpoints checks that packets to each endpoint are sent to its node.
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
