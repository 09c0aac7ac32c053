package cluster

import (
	"cmp"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// FuzzServer: the cluster's API server address must be a single word on the command lines of hosts.
func FuzzServer(f *testing.F) {
	f.Add("clusters: [{name: '', cluster: {server: 'https://api.example:6443'}}]")
	f.Add("clusters: [{name: a, cluster: {server: 'https://api/ --cert-dir=C:\\x \"'}}]")
	f.Add("{\"clusters\": null, \"users\": [1]}")
	f.Fuzz(func(t *testing.T, kubeconfig string) {
		r := reader(configMap("kube-public", "cluster-info", "kubeconfig", kubeconfig))
		var c desired.Cluster
		if err := readServer(t.Context(), r, Connection{}, v1alpha1.ClusterSpec{}, &c); err != nil {
			if c.Server != "" {
				t.Errorf("both %q and %v", c.Server, err)
			}
			return
		}
		u, err := url.Parse(c.Server)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.ContainsAny(c.Server, " \t\r\n\"'`$%^&|<>;") || isLoopback(u.Hostname()) {
			t.Errorf("the server is %q (%v)", c.Server, err)
		}
	})
}

// FuzzParseServer: an administrator's address must also be a single word, and parsing the result must not change it.
func FuzzParseServer(f *testing.F) {
	f.Add("api.example.com:6443")
	f.Add("https://[fd00::5]:6443/")
	f.Add("127.0.0.1:6443")
	f.Fuzz(func(t *testing.T, text string) {
		server, err := ParseServer(text)
		if err != nil {
			if len(err.Error()) > 4000 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
			return
		}
		again, err := ParseServer(server)
		if err != nil || again != server || !isServer(server) || isLoopback(hostOf(server)) || strings.ContainsAny(server, " \t\r\n\"'`$%^&|<>;") {
			t.Errorf("%q is read as %q, and that as %q (%v)", text, server, again, err)
		}
	})
}

// FuzzKubeletConfig: from any kubelet configuration, pods get at most three IPv4 addresses and a valid domain.
func FuzzKubeletConfig(f *testing.F) {
	f.Add("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local")
	f.Add("clusterDNS: [169.254.25.10, '::ffff:10.0.0.1', 10.0.0.1]\nclusterDomain: Corp.Example.")
	f.Add("clusterDNS: {a: b}\nclusterDomain: [x]")
	f.Fuzz(func(t *testing.T, text string) {
		var c desired.Cluster
		if err := readDNS(t.Context(), reader(configMap("kube-system", "kubelet-config", "kubelet", text)), Connection{}, v1alpha1.DNSSpec{}, &c); err != nil {
			return
		}
		if len(c.DNSServers) == 0 || len(c.DNSServers) > maxDNSServers || len(validation.IsDNS1123Subdomain(c.Domain)) > 0 {
			t.Errorf("%q is read as %q, %q", text, c.DNSServers, c.Domain)
		}
		for _, s := range c.DNSServers {
			if ip, err := netip.ParseAddr(s); err != nil || !ip.Is4() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
				t.Errorf("%q yields DNS server %q", text, s)
			}
		}
	})
}

// FuzzHybridOverlay: OVN-Kubernetes must start with each accepted hybrid overlay, and with the configuration that a message proposes instead.
func FuzzHybridOverlay(f *testing.F) {
	f.Add("10.132.0.0/14", "", "", uint32(0))
	f.Add("10.132.0.0/14/23,fd03::/48", "10.132.0.0/16", "10.128.0.0/10", uint32(70000))
	f.Add(" 10.132.0.0/14, 100.64.0.0/15", "10.0.0.0/8", "172.16.0.0/12", uint32(4789))
	f.Add("169.254.1.0/22", "192.168.0.0/16", "224.0.0.0/3", uint32(1))
	f.Fuzz(func(t *testing.T, hybrid, join, pods string, port uint32) {
		for _, own := range []string{join, pods} {
			if p, err := netip.ParsePrefix(own); own != "" && (err != nil || !p.Addr().Is4() || p.Bits() > 22) {
				return // OpenShift's network operator rejects it
			}
		}
		s := networkOperatorState{ClusterNetwork: []clusterEntry{{cmp.Or(pods, "10.128.0.0/14"), 23}}, ServiceNetwork: []string{"172.30.0.0/16"}}
		s.OVN = map[string]any{
			"ipv4": map[string]any{"internalJoinSubnet": join},
			"hybridOverlayConfig": map[string]any{
				"hybridClusterNetwork": []any{map[string]any{"cidr": strings.ToValidUTF8(hybrid, "?")}}, "hybridOverlayVXLANPort": port,
			},
		}
		if s.Applied = nil; ownRangesOverlap(t, s) {
			return
		}
		err := s.check(t, "AWS")
		if err != nil {
			if len(err.Error()) > 8000 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
			i := strings.LastIndex(err.Error(), "oc patch")
			if i < 0 {
				return
			}
			_, text, _ := strings.Cut(strings.TrimSuffix(err.Error()[i:], "'"), "'")
			if err := s.patch(text); err != nil {
				t.Fatal(err)
			}
			if err := s.check(t, "AWS"); err != nil {
				t.Errorf("the proposed value is rejected: %v", err)
			}
		}
		s.reconcile()
		config, err := s.rendered()
		if err == nil {
			err = config.start()
		}
		if err != nil {
			t.Errorf("OVN-Kubernetes does not start with %+v: %v", config, err)
		}
	})
}

// ownRangesOverlap reports whether OVN-Kubernetes would fail to start even without a hybrid overlay.
func ownRangesOverlap(t *testing.T, s networkOperatorState) bool {
	t.Helper()
	s.OVN = merged(s.OVN, map[string]any{"hybridOverlayConfig": nil})
	s.reconcile()
	config, err := s.rendered()
	if err != nil {
		t.Fatal(err)
	}
	config.enabled, config.hybrid = true, "198.51.100.0/23" // an unused range; if it does not start with this one, the other ranges overlap
	return config.start() != nil
}

// FuzzSubnetOf: the subnet of a Windows Node is a canonical IPv4 range, or ignored.
func FuzzSubnetOf(f *testing.F) {
	f.Add("10.132.0.0/24", "10.244.1.0/24")
	f.Add("::ffff:10.0.0.0/120", "10.244.1.1/24")
	f.Fuzz(func(t *testing.T, annotation, podCIDR string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{HybridSubnetAnnotation: annotation}}}
		node.Spec.PodCIDR = podCIDR
		for provider, text := range map[v1alpha1.NetworkProvider]string{v1alpha1.NetworkOVNHybridOverlay: annotation, v1alpha1.NetworkFlannel: podCIDR} {
			if subnet, ok := SubnetOf(node, provider); ok && (!subnet.Addr().Is4() || subnet.String() != text) {
				t.Errorf("%q is read as %s", text, subnet)
			}
		}
	})
}
