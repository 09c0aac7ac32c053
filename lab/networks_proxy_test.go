//go:build linux

package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// rejections makes the network service reject kube-proxy's first load balancers, as that of Windows sometimes does.
func (n networks) rejections() {
	for i, code := range []hns.Code{hns.Exists, hns.PortExists} { // one call each: the first call counts for both
		must(n.t, n.host.HNS().Inject(hns.Fault{Call: "HcnCreateLoadBalancer", Code: code, Times: i + 1}))
	}
	service, err := testenv.AddService(n.t.Context(), n.client, "app", "10.132.8.2")
	must(n.t, err)
	defer n.startProxy()()
	testenv.Eventually(n.t, networkTimeout, "kube-proxy retries the load balancer", func(context.Context) string {
		log := n.log(proxyLogFile)
		belongsToService := func(o hns.Object) bool {
			return slices.Contains(loadBalancerOf(n.t, o).FrontendVIPs, service.Spec.ClusterIP)
		}
		if !strings.Contains(log, "(0xb7)") || !strings.Contains(log, "(0x803b0013)") || !slices.ContainsFunc(n.objects(hns.LoadBalancer), belongsToService) {
			return "kube-proxy's log: " + log
		}
		return ""
	})
}

// startProxy runs kube-proxy.exe with the configuration that hosts get.
func (n networks) startProxy() (stop func()) {
	n.t.Helper()
	config, err := json.Marshal(fields{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "clientConnection": fields{"kubeconfig": `C:\k\kubeconfig`},
		"hostnameOverride": n.host.Name(), "mode": "kernelspace", "clusterCIDR": overlayRange,
		"winkernel": fields{"networkName": overlayName, "enableDSR": true, "sourceVip": sourceVIP},
	})
	must(n.t, err)
	n.write(`C:\k\kube-proxy.conf`, config)
	return n.start("kube-proxy", `C:\k\kube-proxy.exe --config=C:\k\kube-proxy.conf --v=2`, proxyLogFile)
}

// loadBalancer is a load balancer as Windows encodes it.
type loadBalancer struct {
	FrontendVIPs, HostComputeEndpoints []string
	PortMappings                       []struct{ Protocol, ExternalPort int }
}

func loadBalancerOf(t *testing.T, o hns.Object) (lb loadBalancer) {
	t.Helper()
	raw, err := json.Marshal(o)
	must(t, err)
	must(t, json.Unmarshal(raw, &lb))
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
