package desired_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
)

func TestFirewallAllowsNodePorts(t *testing.T) {
	ovn := func(in *desired.Inputs) {
		in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
		in.Cluster.Network.HybridCIDRs = []string{"10.132.0.0/14"}
		in.Cluster.Network.PodCIDRs = []string{"10.128.0.0/14"}
	}
	flannel := func(in *desired.Inputs) {
		const conf = `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`
		in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}
		in.Cluster.Network.Flannel = &desired.Flannel{Network: "10.244.0.0/16", VNI: 4096, Port: 4789, NetConf: conf}
	}
	always := []string{"TCP 22", "TCP 10250"}
	from := func(ranges ...string) func(*desired.Inputs) {
		return func(in *desired.Inputs) {
			ovn(in)
			in.Payload = declared().Select(payload.Base, payload.Kubernetes("1.36"))
			in.Config.Network.AllowFrom = ranges
		}
	}
	for name, test := range map[string]struct {
		change func(*desired.Inputs)
		more   []string
	}{
		"a network of the user's own": {func(*desired.Inputs) {}, nil},
		"with the exporter":           {func(in *desired.Inputs) { in.Payload = declared().Select(payload.Base, payload.Kubernetes("1.36")) }, []string{"TCP 9182"}},
		"hybrid overlay":              {ovn, []string{"UDP 4789", "TCP 10256"}},
		"hybrid overlay with a port":  {func(in *desired.Inputs) { ovn(in); in.Cluster.Network.VXLANPort = 9898 }, []string{"UDP 9898", "TCP 10256"}},
		"Flannel":                     {flannel, []string{"UDP 4789", "TCP 10256"}},
		"an empty list":               {from(), []string{"TCP 9182", "UDP 4789", "TCP 10256"}},
		"a kube-proxy for a network of the user's own": {func(in *desired.Inputs) {
			in.Config.Network.Custom.KubeProxy, in.Config.Network.Custom.NetworkName = v1alpha1.KubeProxyManaged, "l2"
		}, []string{"TCP 10256"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range mustRender(t, test.change).Firewall {
				for _, port := range r.Ports {
					got = append(got, fmt.Sprintf("%s %d", r.Protocol, port))
				}
			}
			if diff := cmp.Diff(append(slices.Clone(always), test.more...), got); diff != "" {
				t.Errorf("allowed traffic (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFirewallAllowsOnlyConfiguredSources(t *testing.T) {
	limited := mustRender(t, func(in *desired.Inputs) {
		in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
		in.Cluster.Network.PodCIDRs = []string{"10.128.0.0/14"}
		in.Payload = declared().Select(payload.Base, payload.Kubernetes("1.36"))
		in.Config.Network.AllowFrom = []string{"192.0.2.0/24", "10.0.7.7/16", "10.0.3.0/24", "192.0.2.0/24", "fd00::/64"}
	}).Firewall
	got := map[uint16][]string{}
	for _, r := range limited {
		for _, port := range r.Ports {
			got[port] = r.From
		}
	}
	only := []string{"10.0.0.0/16", "192.0.2.0/24", "fd00::/64"}
	if diff := cmp.Diff(map[uint16][]string{22: only, 10250: only, 9182: only, 4789: nil, 10256: only}, got); diff != "" {
		t.Errorf("allowed sources (-want +got):\n%s", diff)
	}
}

// TestHealthChecksOfLoadBalancersReachKubeProxy: load balancers outside of the cluster query kube-proxy for the node's health, and for
// each Service with externalTrafficPolicy Local at a port of its own.
func TestHealthChecksOfLoadBalancersReachKubeProxy(t *testing.T) {
	for platform, want := range map[string][]string{
		"":      {"192.0.2.0/24"},
		"AWS":   {"192.0.2.0/24"},
		"Azure": {"168.63.129.16/32", "192.0.2.0/24"},
		"GCP":   {"35.191.0.0/16", "130.211.0.0/22", "192.0.2.0/24", "209.85.152.0/22", "209.85.204.0/22"},
	} {
		node := mustRender(t, func(in *desired.Inputs) {
			in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay, AllowFrom: []string{"192.0.2.0/24"}}
			in.Cluster.Network.PodCIDRs, in.Cluster.Network.Platform = []string{"10.128.0.0/14"}, platform
		})
		var got []desired.FirewallRule
		for _, r := range node.Firewall {
			if strings.Contains(r.Name, "kube-proxy") {
				got = append(got, r)
			}
		}
		rules := []desired.FirewallRule{
			{Name: "OpenShift managed kube-proxy", Protocol: "TCP", Ports: []uint16{10256}, From: want},
			{Name: "OpenShift managed kube-proxy of Services", Protocol: "TCP", Program: desired.VersionFolder(node.Digest) + `\kube-proxy.exe`, From: want},
		}
		if diff := cmp.Diff(rules, got); diff != "" {
			t.Errorf("on platform %q (-want +got):\n%s", platform, diff)
		}
	}
}

func TestInvalidRangesAreRejected(t *testing.T) {
	for _, text := range []string{"", "10.0.0.0", "10.0.0.0/33", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/112", "fe80::%eth0/64", "LocalSubnet"} {
		in := inputs()
		in.Config.Network.AllowFrom = []string{"10.0.0.0/8", text}
		if _, err := desired.Render(in); !errors.Is(err, desired.ErrNetwork) || !strings.Contains(err.Error(), "spec.network.allowFrom") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
