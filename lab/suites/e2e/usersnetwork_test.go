//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// The user's own network: win-bridge under a name that differs from the operator's plugins, and its configuration.
const (
	usersPlugin     = `C:\opt\cni\bin\users-bridge.exe`
	usersConfigDir  = `C:\etc\cni\net.d`
	usersNetwork    = "l2"
	usersConfigList = `{"cniVersion": "1.0.0", "name": "l2", "plugins": [{"type": "users-bridge", "apiVersion": 2,
 "ipam": {"type": "host-local", "subnet": "10.140.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}}]}`
)

// TestUsersNetwork installs a network as a user's installer would: plugin, configuration and Windows network. The node must wait for each, pods must get
// their addresses from the plugin, and kube-proxy must serve the network.
func TestUsersNetwork(t *testing.T) {
	needs(t, lab.CanRunWindows())
	p := newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab, Components: []string{"win-bridge", "host-local", "kube-proxy"}})
	err := p.Change(t.Context(), func(s *v1alpha1.WindowsConfigSpec) {
		s.Network.Custom = &v1alpha1.CustomNetwork{
			ConfigDir: usersConfigDir, BinDir: `C:\opt\cni\bin`, KubeProxy: v1alpha1.KubeProxyManaged, NetworkName: usersNetwork,
		}
	})
	must(t, err)
	must(t, p.Announce(t.Context(), p.Hosts()...))
	host := p.Lab.Hosts()[0]
	p.expectNetworkFault(api.ReasonNetworkConfigurationMissing, usersConfigDir+" has no CNI configuration")
	p.eventually("the instance reports the missing configuration", func(context.Context) string {
		c := meta.FindStatusCondition(p.instance(operatorObject(host.Address())).Status.Conditions, api.ConditionReady)
		if c == nil || !strings.Contains(c.Message, usersConfigDir) {
			return fmt.Sprint(c)
		}
		return ""
	})
	p.installUsersPlugin(host)
	p.expectNetworkFault(api.ReasonHNSNetworkMissing, "no network "+usersNetwork)
	network, err := host.HNS().Create(hns.Network, fields{
		"Name": usersNetwork, "Type": "L2Bridge",
		"Ipams": []fields{{"Type": "Static", "Subnets": []fields{{
			"IpAddressPrefix": "10.140.0.0/24", "Routes": []fields{{"NextHop": "10.140.0.2", "DestinationPrefix": "0.0.0.0/0"}},
		}}}},
	})
	must(t, err)
	p.expectAllReady()
	p.webserver(appWeb, 1, nil)
	p.expectEndpoint(host, fmt.Sprint(network["ID"]))
	p.eventually("kube-proxy creates load balancers", func(context.Context) string {
		if all, err := host.HNS().List(hns.LoadBalancer); err != nil || len(all) == 0 {
			log, _ := host.ReadFile(`C:\var\log\kube-proxy\kube-proxy.log`)
			return fmt.Sprintf("got %v (%v); its log: %s", all, err, log)
		}
		return ""
	})
}

type fields = map[string]any

// expectNetworkFault waits until the Node reports a fault of its network.
func (p harness) expectNetworkFault(reason, message string) {
	p.t.Helper()
	p.eventually("the Node reports "+reason, func(ctx context.Context) string {
		nodes := &corev1.NodeList{}
		if err := p.Client.List(ctx, nodes); err != nil || len(nodes.Items) != 1 {
			return fmt.Sprintf("got %d Nodes (%v), want 1", len(nodes.Items), err)
		}
		c := nodestate.Condition(&nodes.Items[0], api.ConditionWindowsNetworkUnavailable)
		if c == nil || c.Status != corev1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, message) {
			return fmt.Sprint(c)
		}
		return ""
	})
}

func (p harness) installUsersPlugin(host *lab.Host) {
	p.t.Helper()
	dir := p.t.TempDir()
	err := testenv.Programs(p.t.Context(), "", dir, os.Stderr, "win-bridge")
	var content []byte
	must(p.t, err)
	content, err = os.ReadFile(filepath.Join(dir, "win-bridge.exe"))
	must(p.t, err)
	must(p.t, host.WriteFile(usersPlugin, content))
	must(p.t, host.WriteFile(usersConfigDir+`\10-users.conflist`, []byte(usersConfigList)))
}

// expectEndpoint waits until the user's plugin has given a pod its endpoint.
func (p harness) expectEndpoint(host *lab.Host, network string) {
	p.t.Helper()
	p.eventually("a pod has an endpoint of the user's network", func(ctx context.Context) string {
		all, err := host.HNS().List(hns.Endpoint)
		pods, _ := p.Pods(ctx, appWeb)
		for _, pod := range pods {
			for _, e := range all {
				if fmt.Sprint(e["HostComputeNetwork"]) == network && pod.Status.PodIP != "" && strings.Contains(fmt.Sprint(e["IpConfigurations"]), pod.Status.PodIP) {
					return ""
				}
			}
		}
		return fmt.Sprintf("got endpoints %v (%v) and pods %v", all, err, pods)
	})
}
