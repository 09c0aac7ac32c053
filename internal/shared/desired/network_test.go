package desired_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// onOpenShift returns an OpenShift cluster with a network that Windows nodes can use.
func onOpenShift() desired.Inputs {
	in := inputs()
	in.Config.Network = v1alpha1.NetworkSpec{}
	in.Cluster.ServiceCIDRs = []string{"172.30.0.0/16"}
	in.Cluster.Network = desired.ClusterNetwork{
		OpenShift: true, Platform: "AWS", Type: "OVNKubernetes", PodCIDRs: []string{"10.128.0.0/14"}, HybridCIDRs: []string{"10.132.0.0/14"},
		HybridOverlay: `{"hybridClusterNetwork":[{"cidr":"10.132.0.0/14","hostPrefix":23}]}`,
	}
	return in
}

// networkCase is a change to a cluster with a working network. Without a reason, the network still works.
type networkCase struct {
	change   func(*desired.ClusterNetwork, *desired.Inputs)
	reason   string
	contains []string
}

func (c networkCase) run(t *testing.T, in desired.Inputs) {
	t.Helper()
	if c.change != nil {
		c.change(&in.Cluster.Network, &in)
	}
	_, err := desired.Render(in)
	if c.reason == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var refused *desired.NetworkError
	if !errors.As(err, &refused) || !errors.Is(err, desired.ErrNetwork) || refused.Reason != c.reason {
		t.Fatalf("got %#v (%v), want reason %s", err, err, c.reason)
	}
	for _, part := range c.contains {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
}

// Commands at the end of messages.
const (
	takeAway = `oc patch networks.operator.openshift.io cluster --type=merge -p '{"spec":{"defaultNetwork":{"ovnKubernetesConfig":{"hybridOverlayConfig":null}}}}'` +
		` && until oc -n openshift-network-operator get configmap applied-cluster -o jsonpath='{.data.applied}' | grep -qv hybridOverlayConfig; do sleep 5; done`
	setTo = `oc patch networks.operator.openshift.io cluster --type=merge -p '{"spec":{"defaultNetwork":{"ovnKubernetesConfig":{"hybridOverlayConfig":`
)

func TestRenderRefusesOVNNetworksThatCannotWork(t *testing.T) {
	type network = desired.ClusterNetwork
	never := func(n *network, _ *desired.Inputs) { n.HybridOverlay, n.HybridCIDRs, n.VXLANPort = "", nil, 0 }
	for name, test := range map[string]networkCase{
		"as it should be":  {},
		"selected by name": {change: func(_ *network, in *desired.Inputs) { in.Config.Network.Provider = v1alpha1.NetworkOVNHybridOverlay }},
		"with a port":      {change: func(n *network, _ *desired.Inputs) { n.VXLANPort = 9898 }},
		"an overlay of both families, too": {change: func(n *network, _ *desired.Inputs) {
			n.PodCIDRs, n.HybridCIDRs = []string{"10.128.0.0/14", "fd01::/48"}, []string{"10.132.0.0/14", "fd03::/48"}
		}},
		"on vSphere":           {change: func(n *network, _ *desired.Inputs) { n.Platform, n.VXLANPort = "VSphere", 9898 }},
		"ranges side by side":  {change: func(n *network, _ *desired.Inputs) { n.PodCIDRs = []string{"10.136.0.0/14", "10.130.0.0/15"} }},
		"the last before E":    {change: func(n *network, _ *desired.Inputs) { n.PodCIDRs = []string{"239.255.0.0/16"} }},
		"class E for Services": {change: func(_ *network, in *desired.Inputs) { in.Cluster.ServiceCIDRs = []string{"240.0.0.0/16"} }}, // not known to do harm
		"OpenShift's former network": {change: func(n *network, _ *desired.Inputs) { n.Type = "OpenShiftSDN" }, reason: api.ReasonNetworkTypeUnsupported,
			contains: []string{`"OpenShiftSDN"`, "OVNKubernetes", "status.networkType", "spec.network.provider"}},
		"no network yet": {change: func(n *network, _ *desired.Inputs) { n.Type = "" }, reason: api.ReasonNetworkTypeUnsupported, contains: []string{`""`}},
		"no hybrid overlay": {change: never, reason: api.ReasonHybridOverlayNotConfigured,
			contains: []string{"hybridClusterNetwork is empty", setTo + `{"hybridClusterNetwork":[{"cidr":"10.132.0.0/14","hostPrefix":24}]}}}}}'`}},
		"no hybrid overlay on vSphere": {change: func(n *network, in *desired.Inputs) { never(n, in); n.Platform = "VSphere" },
			reason:   api.ReasonHybridOverlayNotConfigured,
			contains: []string{setTo + `{"hybridClusterNetwork":[{"cidr":"10.132.0.0/14","hostPrefix":24}],"hybridOverlayVXLANPort":9898}}}}}'`}},
		"no hybrid overlay, its usual range taken": {
			change: func(n *network, in *desired.Inputs) {
				never(n, in)
				n.PodCIDRs, in.Cluster.ServiceCIDRs = []string{"10.128.0.0/12"}, []string{"10.192.0.0/16"}
			},
			reason: api.ReasonHybridOverlayNotConfigured, contains: []string{`"cidr":"172.24.0.0/14"`}},
		"a hybrid overlay without range": {change: func(n *network, _ *desired.Inputs) {
			n.HybridCIDRs, n.VXLANPort, n.HybridOverlay = nil, 9898, `{"hybridOverlayVXLANPort":9898}`
		},
			reason:   api.ReasonHybridOverlayNotConfigured,
			contains: []string{takeAway + " && " + setTo + `{"hybridClusterNetwork":[{"cidr":"10.132.0.0/14","hostPrefix":24}],"hybridOverlayVXLANPort":9898}}}}}'`}},
		"a port of the user's on vSphere, without range": {
			change: func(n *network, _ *desired.Inputs) {
				n.Platform, n.HybridCIDRs, n.VXLANPort, n.HybridOverlay = "VSphere", nil, 9899, `{"hybridOverlayVXLANPort":9899}`
			},
			reason: api.ReasonHybridOverlayNotConfigured, contains: []string{`"hybridOverlayVXLANPort":9899`}},
		"an empty hybrid overlay": {change: func(n *network, _ *desired.Inputs) { n.HybridCIDRs, n.HybridOverlay = nil, `{}` },
			reason: api.ReasonHybridOverlayNotConfigured, contains: []string{takeAway + " && " + setTo}},
		"a range or a port that cannot be read": {change: func(n *network, _ *desired.Inputs) {
			n.HybridCIDRs, n.HybridFault, n.HybridOverlay = nil, "x is 70000", `{"hybridOverlayVXLANPort":70000}`
		}, reason: api.ReasonHybridOverlayNotConfigured,
			contains: []string{"x is 70000", takeAway + " && " + setTo + `{"hybridClusterNetwork":[{"cidr":"10.132.0.0/14","hostPrefix":24}]}`}},
		"nodes without addresses for pods": {change: func(n *network, _ *desired.Inputs) { n.HostPrefixes = map[string]int{"10.132.0.0/14": 30} },
			reason: api.ReasonHybridOverlayNotConfigured, contains: []string{"/30", "/29"}},
		"pods with IPv6 only": {change: func(n *network, _ *desired.Inputs) { n.PodCIDRs = []string{"fd01::/48", "fd02::/48"} },
			reason: api.ReasonClusterNetworkIPv6Only, contains: []string{"cluster network", "fd01::/48, fd02::/48"}},
		"Windows pods with IPv6 only": {change: func(n *network, _ *desired.Inputs) { n.HybridCIDRs = []string{"fd03::/48"} },
			reason: api.ReasonHybridOverlayNotConfigured, contains: []string{"has fd03::/48", "has no IPv6", takeAway}},
		"class E for pods": {change: func(n *network, _ *desired.Inputs) { n.PodCIDRs = []string{"240.0.0.0/5"} }, reason: api.ReasonClusterNetworkReserved,
			contains: []string{"cluster network 240.0.0.0/5", "240.0.0.0/4", "install-config.yaml"}},
		"class E for one of two": {change: func(n *network, _ *desired.Inputs) { n.PodCIDRs = []string{"10.128.0.0/14", "254.0.0.0/16"} },
			reason: api.ReasonClusterNetworkReserved, contains: []string{"cluster network 254.0.0.0/16"}},
		"class E for Windows pods": {change: func(n *network, _ *desired.Inputs) { n.HybridCIDRs = []string{"241.0.0.0/16"} },
			reason: api.ReasonClusterNetworkReserved, contains: []string{"hybrid cluster network 241.0.0.0/16", takeAway, `"cidr":"10.132.0.0/14"`}},
		"all addresses": {change: func(n *network, _ *desired.Inputs) { n.PodCIDRs = []string{"0.0.0.0/0"} }, reason: api.ReasonClusterNetworkReserved},
		"Windows pods among the others": {change: func(n *network, _ *desired.Inputs) { n.HybridCIDRs, n.VXLANPort = []string{"10.130.0.0/15"}, 9898 },
			reason: api.ReasonNetworksOverlap,
			contains: []string{"hybrid cluster network 10.130.0.0/15 and the cluster network 10.128.0.0/14 overlap (10.130.0.0/15)", takeAway,
				`[{"cidr":"10.132.0.0/14","hostPrefix":24}],"hybridOverlayVXLANPort":9898`}},
		"the others among Windows pods": {change: func(n *network, _ *desired.Inputs) { n.HybridCIDRs = []string{"10.0.0.0/8"} },
			reason: api.ReasonNetworksOverlap, contains: []string{"10.0.0.0/8", "overlap (10.128.0.0/14)", `"cidr":"10.132.0.0/14"`}},
		"two ranges of IPv4": {change: func(n *network, _ *desired.Inputs) { n.HybridCIDRs = []string{"10.132.0.0/14", "10.160.0.0/16"} },
			reason: api.ReasonHybridOverlayNotConfigured, contains: []string{"2 IPv4 ranges (10.132.0.0/14, 10.160.0.0/16)", takeAway}},
		"OVN-Kubernetes' own": {change: func(n *network, _ *desired.Inputs) {
			n.Internal = []desired.InternalRange{{Name: "join subnet", Field: "ipv4.internalJoinSubnet", CIDR: "10.132.0.0/16"}}
		}, reason: api.ReasonNetworksOverlap, contains: []string{"own join subnet 10.132.0.0/16 (ipv4.internalJoinSubnet)", `"cidr":"10.136.0.0/14"`}},
		"Windows pods and Services": {change: func(n *network, _ *desired.Inputs) { n.HybridCIDRs = []string{"172.30.128.0/17"} },
			reason: api.ReasonNetworksOverlap, contains: []string{"172.30.128.0/17 and the service network 172.30.0.0/16", takeAway}},
		"pods and Services": {change: func(_ *network, in *desired.Inputs) { in.Cluster.ServiceCIDRs = []string{"10.128.0.0/16"} },
			reason: api.ReasonNetworksOverlap, contains: []string{"cluster network 10.128.0.0/14 and the service network 10.128.0.0/16"}},
		"bits beyond the prefix": {change: func(n *network, _ *desired.Inputs) { n.HybridCIDRs = []string{"10.131.255.255/14"} },
			reason: api.ReasonNetworksOverlap, contains: []string{"hybrid cluster network 10.128.0.0/14 and"}},
		"VXLAN's own port on vSphere": {change: func(n *network, _ *desired.Inputs) { n.Platform = "VSphere" }, reason: api.ReasonVXLANPortRequired,
			contains: []string{"4789", "vSphere", takeAway + " && " + setTo + `{"hybridClusterNetwork":[{"cidr":"10.132.0.0/14","hostPrefix":23}],"hybridOverlayVXLANPort":9898}}}}}'`}},
		"VXLAN's own port on vSphere, configured": {change: func(n *network, _ *desired.Inputs) { n.Platform, n.VXLANPort = "VSphere", 4789 },
			reason: api.ReasonVXLANPortRequired},
	} {
		t.Run(name, func(t *testing.T) { test.run(t, onOpenShift()) })
	}
}

// TestDualStackAndOpenShiftsHybridOverlayExcludeEachOther: OVN-Kubernetes would not start with the range that another message proposes.
func TestDualStackAndOpenShiftsHybridOverlayExcludeEachOther(t *testing.T) {
	for name, change := range map[string]func(*desired.ClusterNetwork){
		"pods":     func(n *desired.ClusterNetwork) { n.PodCIDRs = []string{"fd01::/48", "10.128.0.0/14"} },
		"Services": func(n *desired.ClusterNetwork) { n.ServiceCIDRs = []string{"172.30.0.0/16", "fd02::/112"} },
		"no hybrid overlay yet": func(n *desired.ClusterNetwork) {
			n.PodCIDRs, n.HybridCIDRs, n.HybridOverlay = []string{"10.128.0.0/14", "fd01::/48"}, nil, ""
		},
		"an overlay that is at fault": func(n *desired.ClusterNetwork) {
			n.PodCIDRs, n.HybridFault = []string{"10.128.0.0/14", "fd01::/48"}, "x"
		},
	} {
		in := onOpenShift()
		change(&in.Cluster.Network)
		_, err := desired.Render(in)
		var refused *desired.NetworkError
		if !errors.As(err, &refused) || refused.Reason != api.ReasonHybridOverlayDualStack || strings.Contains(err.Error(), "oc patch") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestNetworkProblemsThatDoNotBlockNodes: nodes get their settings, and problems report what will not work.
func TestNetworkProblemsThatDoNotBlockNodes(t *testing.T) {
	type network = desired.ClusterNetwork
	lengths := func(length int) map[string]int { return map[string]int{"10.132.0.0/14": length} }
	for name, test := range map[string]struct {
		maxPods  int32
		change   func(*network)
		contains []string
	}{
		"as many pods as addresses": {252, func(n *network) { n.HostPrefixes = lengths(24) }, nil},
		"the default in a /24":      {0, func(n *network) { n.HostPrefixes = lengths(24) }, nil},
		"one pod more":              {253, func(n *network) { n.HostPrefixes = lengths(24) }, []string{"spec.kubelet.maxPods is 253", "/24 of 10.132.0.0/14", "at most 252"}},
		"the default in a /25":      {0, func(n *network) { n.HostPrefixes = lengths(25) }, []string{"maxPods is 250", "at most 124"}},
		"an unknown length":         {1000, func(*network) {}, nil},
		"a node with another subnet": {200, func(n *network) {
			n.HostPrefixes = lengths(24)
			n.Nodes.Subnets = map[string]netip.Prefix{"win-1": netip.MustParsePrefix("10.132.1.0/24"), "win-2": netip.MustParsePrefix("10.132.2.0/25")}
		}, []string{"Node win-2 has 10.132.2.0/25", "at most 124"}},
		"a range that is not used": {0, func(n *network) { n.HybridUnused = []string{"10.160.0.0/16"} },
			[]string{"hybridClusterNetwork[1]", `"10.160.0.0/16"`, "first entry"}},
		"a range that was not applied": {0, func(n *network) {
			n.Nodes.Subnets = map[string]netip.Prefix{"win-2": netip.MustParsePrefix("10.160.1.0/24"), "win-1": netip.MustParsePrefix("10.160.0.0/24")}
		}, []string{"network 10.132.0.0/14 (Node win-1 has 10.160.0.0/24)", "cannot edit a running hybrid overlay network"}},
		"a node outside": {0, func(n *network) {
			n.Nodes.Subnets = map[string]netip.Prefix{"win-2": netip.MustParsePrefix("10.160.1.0/24"), "win-1": netip.MustParsePrefix("10.132.0.0/24")}
		}, nil},
		"pods in no range": {0, func(n *network) { n.PodCIDRs = []string{"10.128.0.0/14", "010.128.0.0/14"} }, []string{`"010.128.0.0/14"`}},
	} {
		in := onOpenShift()
		in.Config.Kubelet.MaxPods = test.maxPods
		test.change(&in.Cluster.Network)
		got, err := desired.Render(in)
		if err != nil || len(got.Problems) != min(len(test.contains), 1) {
			t.Errorf("%s: problems %+v, error %v", name, got.Problems, err)
			continue
		}
		for _, part := range test.contains {
			if !strings.Contains(got.Problems[0].Message, part) {
				t.Errorf("%s: %q does not contain %q", name, got.Problems[0].Message, part)
			}
		}
	}
}

// TestProviderMustMatchNodes: a host with the wrong network would wait for its subnet forever.
func TestProviderMustMatchNodes(t *testing.T) {
	found := func(names ...string) (all []desired.FoundNetwork) {
		for _, name := range names {
			all = append(all, desired.FoundNetwork{Name: name, Node: "linux-1", Annotation: name + "/x"})
		}
		return all
	}
	for name, test := range map[string]struct {
		provider v1alpha1.NetworkProvider
		nodes    desired.NodeNetworks
		reason   string
		contains []string
	}{
		"nothing is known":    {provider: v1alpha1.NetworkOVNHybridOverlay},
		"OVN-Kubernetes":      {provider: v1alpha1.NetworkOVNHybridOverlay, nodes: desired.NodeNetworks{Found: found(desired.OVNKubernetes), HybridOverlay: true}},
		"after a migration":   {provider: v1alpha1.NetworkOVNHybridOverlay, nodes: desired.NodeNetworks{Found: found(desired.Calico, desired.OVNKubernetes), HybridOverlay: true}},
		"Custom for anything": {provider: v1alpha1.NetworkCustom, nodes: desired.NodeNetworks{Found: found(desired.Calico)}},
		"Calico": {v1alpha1.NetworkOVNHybridOverlay, desired.NodeNetworks{Found: found(desired.Calico)}, api.ReasonNetworkProviderMismatch,
			[]string{"spec.network.provider is OVNHybridOverlay", "network is Calico (Node linux-1 has annotation Calico/x)", "set it to Custom", "cniConfig"}},
		"Flannel": {v1alpha1.NetworkOVNHybridOverlay, desired.NodeNetworks{Found: found(desired.FlannelName)}, api.ReasonNetworkProviderMismatch,
			[]string{"set it to Flannel"}},
		"OVN-Kubernetes for Flannel": {v1alpha1.NetworkFlannel, desired.NodeNetworks{Found: found(desired.OVNKubernetes)}, api.ReasonNetworkProviderMismatch,
			[]string{"set it to OVNHybridOverlay"}},
		"no hybrid overlay": {v1alpha1.NetworkOVNHybridOverlay, desired.NodeNetworks{Found: found(desired.OVNKubernetes)}, api.ReasonHybridOverlayNotConfigured,
			[]string{"without its hybrid overlay", "no-hostsubnet-nodes"}},
		"no provider, and Cilium":      {"", desired.NodeNetworks{Found: found(desired.Cilium)}, "none", []string{"provider is empty", "network is Cilium", "set it to Custom"}},
		"no provider, and two of them": {"", desired.NodeNetworks{Found: found(desired.Calico, desired.FlannelName)}, "none", []string{"set it to Flannel"}},
		"no provider, and nothing":     {"", desired.NodeNetworks{}, "none", []string{"set it to OVNHybridOverlay, Flannel or Custom"}},
	} {
		in := inputs()
		in.Config.Network.Provider = test.provider
		in.Cluster.Network = desired.ClusterNetwork{Nodes: test.nodes}
		_, err := desired.Render(in)
		reason := ""
		if refused := (*desired.NetworkError)(nil); errors.As(err, &refused) {
			reason = refused.Reason
		} else if errors.Is(err, desired.ErrNetwork) {
			reason = "none"
		}
		if reason != test.reason {
			t.Errorf("%s: got %v, want reason %q", name, err, test.reason)
		}
		for _, part := range test.contains {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want %q", name, err, part)
			}
		}
	}
}

func TestPortSetTwiceMustMatch(t *testing.T) {
	for name, test := range map[string]struct {
		openshift  uint16
		configured int32
		contains   string
	}{
		"only OpenShift's":      {9898, 0, ""},
		"the same":              {9898, 9898, ""},
		"another":               {9898, 9899, "ovn.vxlanPort is 9899; on OpenShift the port is hybridOverlayVXLANPort of Network.operator.openshift.io cluster, which is 9898"},
		"only in WindowsConfig": {0, 9899, "which is not set"},
	} {
		in := onOpenShift()
		in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay, OVN: &v1alpha1.OVNNetwork{VXLANPort: test.configured}}
		in.Cluster.Network.VXLANPort = test.openshift
		_, err := desired.Render(in)
		if test.contains == "" && err != nil || test.contains != "" && (!errors.Is(err, desired.ErrNetwork) || !strings.Contains(err.Error(), test.contains)) {
			t.Errorf("%s: got %v, want %q", name, err, test.contains)
		}
	}
}

func TestRangesSetTwiceAreRefused(t *testing.T) {
	for _, ovn := range []v1alpha1.OVNNetwork{{ClusterSubnets: "10.128.0.0/14/23"}, {HybridClusterSubnets: "10.132.0.0/14/23"}} {
		in := onOpenShift()
		in.Config.Network = v1alpha1.NetworkSpec{OVN: &ovn}
		if _, err := desired.Render(in); !errors.Is(err, desired.ErrNetwork) || !strings.Contains(err.Error(), "remove them") {
			t.Errorf("%+v: got %v", ovn, err)
		}
	}
}

// TestOverlayGetsClusterSubnets: subnets of other nodes are accepted only within these ranges.
func TestOverlayGetsClusterSubnets(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*desired.ClusterNetwork)
		want   string
	}{
		"OpenShift": {func(n *desired.ClusterNetwork) {
			n.HostPrefixes = map[string]int{"10.128.0.0/14": 23, "10.132.0.0/14": 24}
		},
			" --cluster-subnets 10.128.0.0/14/23 --hybrid-overlay-cluster-subnets 10.132.0.0/14"},
		"a range that was not applied: nodes would refuse each other's subnets": {func(n *desired.ClusterNetwork) {
			n.Nodes.Subnets = map[string]netip.Prefix{"win-1": netip.MustParsePrefix("10.160.0.0/24")}
		}, " --cluster-subnets 10.128.0.0/14"},
		"lengths that cannot be": {func(n *desired.ClusterNetwork) { n.HostPrefixes = map[string]int{"10.128.0.0/14": 14} },
			" --cluster-subnets 10.128.0.0/14 --hybrid-overlay-cluster-subnets 10.132.0.0/14"},
		"not masked": {func(n *desired.ClusterNetwork) { n.PodCIDRs = []string{"10.128.7.0/14", "10.140.0.0/16"} },
			" --cluster-subnets 10.128.0.0/14,10.140.0.0/16 --hybrid-overlay-cluster-subnets 10.132.0.0/14"},
	} {
		in := onOpenShift()
		test.change(&in.Cluster.Network)
		node, err := desired.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range node.Node.Services {
			if s.Name == "hybrid-overlay-node" && !strings.HasSuffix(s.Command, test.want) {
				t.Errorf("%s: the command is %s", name, s.Command)
			}
		}
	}
}

// TestOVNOutsideOpenShiftChecksKnownRanges: outside of OpenShift, the hybrid overlay's ranges may be unknown.
func TestOVNOutsideOpenShiftChecksKnownRanges(t *testing.T) {
	plain := func() desired.Inputs {
		in := inputs()
		in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay, OVN: &v1alpha1.OVNNetwork{VXLANPort: 9898}}
		in.Cluster.Network = desired.ClusterNetwork{PodCIDRs: []string{"10.244.0.0/16"}, VXLANPort: 9898}
		return in
	}
	for name, test := range map[string]networkCase{
		"as it should be":         {},
		"ranges of Windows nodes": {change: func(n *desired.ClusterNetwork, _ *desired.Inputs) { n.HybridCIDRs = []string{"10.132.0.0/16"} }},
		"ranges that overlap": {change: func(n *desired.ClusterNetwork, _ *desired.Inputs) { n.HybridCIDRs = []string{"10.244.128.0/17"} },
			reason: api.ReasonNetworksOverlap, contains: []string{"give the cluster ranges that do not overlap"}},
		"no range is known": {change: func(n *desired.ClusterNetwork, _ *desired.Inputs) { n.PodCIDRs = nil }},
		"IPv6 only": {change: func(n *desired.ClusterNetwork, _ *desired.Inputs) { n.PodCIDRs = []string{"fd01::/48"} },
			reason: api.ReasonClusterNetworkIPv6Only},
		"class E": {change: func(n *desired.ClusterNetwork, _ *desired.Inputs) { n.PodCIDRs = []string{"250.0.0.0/8"} },
			reason: api.ReasonClusterNetworkReserved},
		"overlap": {change: func(n *desired.ClusterNetwork, _ *desired.Inputs) { n.PodCIDRs = []string{"10.96.0.0/12"} },
			reason: api.ReasonNetworksOverlap, contains: []string{"10.96.0.0/12", "10.96.0.0/16"}},
	} {
		t.Run(name, func(t *testing.T) { test.run(t, plain()) })
	}
}

func TestProviderDefaultsToOpenShiftNetwork(t *testing.T) {
	for _, test := range []struct {
		set       v1alpha1.NetworkProvider
		openshift bool
		want      v1alpha1.NetworkProvider
	}{
		{"", false, ""}, {"", true, v1alpha1.NetworkOVNHybridOverlay},
		{v1alpha1.NetworkCustom, true, v1alpha1.NetworkCustom}, {v1alpha1.NetworkFlannel, false, v1alpha1.NetworkFlannel},
	} {
		if got := desired.Provider(v1alpha1.NetworkSpec{Provider: test.set}, test.openshift); got != test.want {
			t.Errorf("%+v: got %q", test, got)
		}
	}
}
