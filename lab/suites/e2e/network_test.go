//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

const (
	// endpointsEach is the number of endpoints of each Service.
	endpointsEach = 5
	// settledAfter is how long Services must be unchanged before WICD restarts kube-proxy for a lost load balancer.
	settledAfter = 5*time.Minute + 10*time.Second
)

// manyServices returns the number of Services, for which kube-proxy needs some time; fewer with -short.
func manyServices() int {
	if testing.Short() {
		return 8
	}
	return 200
}

// TestNetwork runs the real kube-proxy and the operator's hybrid-overlay-node on three Windows hosts with the lab's network service.
func TestNetwork(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 3, Network: testenv.NetworkHybridOverlay})
	p.joinAll()
	_ = t.Run("hosts have routes to each other's subnets", func(t *testing.T) { p.withT(t).expectRemotes() }) &&
		t.Run("networks match the golden file", func(t *testing.T) { p.withT(t).compareNetworks() }) &&
		t.Run("routes follow a Linux node", func(t *testing.T) { p.withT(t).changeLinuxNode() }) &&
		t.Run("the overlay moves to another port", func(t *testing.T) { p.withT(t).changePort(9898) }) &&
		t.Run("Services become load balancers", func(t *testing.T) { p.withT(t).createServices(manyServices()) }) &&
		t.Run("lost objects are restored", func(t *testing.T) { p.withT(t).loseAndRestore() }) &&
		t.Run("objects are restored after a reboot of the host", func(t *testing.T) { p.withT(t).restoreAfterRestart() }) &&
		t.Run("load balancers of deleted Services are removed", func(t *testing.T) { p.withT(t).removeServices() })
}

// remotes returns the remote subnets of a host's network, each with the address of its host.
func (p harness) remotes(h *lab.Host, network string) (remotes []string) {
	for _, n := range p.objects(h, hns.Network) {
		if n["Name"] != network {
			continue
		}
		policies, _ := n["Policies"].([]any)
		for _, policy := range policies {
			var route struct {
				Type     string
				Settings struct{ DestinationPrefix, ProviderAddress, DistributedRouterMacAddress string }
			}
			if decode(policy, &route); route.Type == "RemoteSubnetRoute" {
				remotes = append(remotes, route.Settings.DestinationPrefix+" by "+route.Settings.ProviderAddress)
			}
		}
	}
	slices.Sort(remotes)
	return remotes
}

func decode(from, into any) {
	b, err := json.Marshal(from)
	if err == nil {
		_ = json.Unmarshal(b, into)
	}
}

func (p harness) objects(h *lab.Host, kind hns.Kind) []hns.Object {
	p.t.Helper()
	found, err := h.HNS().List(kind)
	must(p.t, err)
	return found
}

func (p harness) hasObject(h *lab.Host, kind hns.Kind, name string) bool {
	p.t.Helper()
	return slices.ContainsFunc(p.objects(h, kind), func(o hns.Object) bool { return o["Name"] == name })
}

// expectRemotes waits until each host has routes to the subnets of all other Windows nodes, and the given ones of Linux nodes.
func (p harness) expectRemotes(linux ...string) {
	p.t.Helper()
	p.expectRemotesOf(overlay.Network, func(n corev1.Node) string {
		if n.Labels[corev1.LabelOSStable] != "windows" {
			return ""
		}
		return n.Annotations[overlay.SubnetAnnotation] + " by " + n.Status.Addresses[0].Address
	}, linux...)
}

// expectRemotesOf waits until a network of each host has routes to all other nodes and the given other ones.
func (p harness) expectRemotesOf(network string, routeTo func(corev1.Node) string, others ...string) {
	p.t.Helper()
	p.eventually("each host has routes to the subnets of all others", func(ctx context.Context) string {
		var nodes corev1.NodeList
		if err := p.Client.List(ctx, &nodes); err != nil {
			return err.Error()
		}
		for _, h := range p.Lab.Hosts() {
			want := slices.Clone(others)
			for _, n := range nodes.Items {
				if route := routeTo(n); route != "" && !strings.EqualFold(n.Name, h.Name()) {
					want = append(want, route)
				}
			}
			slices.Sort(want)
			if got := p.remotes(h, network); !slices.Equal(got, want) {
				return fmt.Sprintf("%s: got %v, want %v", h.Name(), got, want)
			}
		}
		return ""
	})
}

func (p harness) changeLinuxNode() {
	ctx := p.t.Context()
	n, err := p.AddLinuxNode(ctx, "linux-1", "10.99.200.1")
	must(p.t, err)
	p.expectRemotes(testenv.LinuxSubnet(n) + " by 10.99.200.1")
	before := n.DeepCopy()
	n.Annotations[overlay.LinuxSubnetsAnnotation] = `{"default":["172.20.101.0/24"]}`
	must(p.t, p.Client.Patch(ctx, n, client.MergeFrom(before)))
	p.expectRemotes("172.20.101.0/24 by 10.99.200.1")
	p.remove(n)
	p.expectRemotes()
}

// changePort changes the UDP port of the overlay, for which each host recreates its networks.
func (p harness) changePort(port int32) {
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Network.OVN = &v1alpha1.OVNNetwork{VXLANPort: port} })
	for _, h := range p.Lab.Hosts() {
		p.eventually(fmt.Sprintf("%s has the overlay on port %d", h.Name(), port), func(context.Context) string {
			if got := p.portOf(h); got != port {
				return fmt.Sprintf("got port %d", got)
			}
			if c := p.networkCondition(h); c.Status != corev1.ConditionFalse {
				return c.Reason + ": " + c.Message
			}
			return p.missingObjects(h, nil)
		})
	}
	p.expectRemotes()
}

// portOf returns the configured port of a host's overlay; 0 for VXLAN's default, or without an overlay.
func (p harness) portOf(h *lab.Host) (port int32) {
	for _, n := range p.objects(h, hns.Network) {
		var network struct {
			Name     string
			Policies []struct {
				Type     string
				Settings struct{ Port int32 }
			}
		}
		if decode(n, &network); network.Name != overlay.Network {
			continue
		}
		for _, policy := range network.Policies {
			if policy.Type == "VxlanPort" {
				port = policy.Settings.Port
			}
		}
	}
	return port
}
