package addresses

import (
	"net/netip"
	"strings"
	"testing"
)

func TestReservedAddresses(t *testing.T) {
	ip, prefix := netip.MustParseAddr, netip.MustParsePrefix
	cluster := Cluster{
		Services: []netip.Prefix{prefix("10.96.0.0/16"), prefix("fd00::/108")},
		Pods:     []netip.Prefix{prefix("10.244.0.0/14")},
		Servers:  []netip.Addr{ip("10.0.0.10"), ip("::ffff:10.0.0.11")},
		Nodes:    map[netip.Addr]string{ip("10.0.0.20"): "linux-1"},
	}
	tests := map[string]string{
		"10.0.0.1":        "",
		"192.168.4.7":     "",
		"100.64.0.1":      "",
		"223.255.255.254": "",
		"10.95.255.255":   "",
		"10.97.0.1":       "",
		"10.248.0.1":      "",
		"0.0.0.0":         "no particular host",
		"0.0.0.7":         "no particular host",
		"127.0.0.1":       "loopback",
		"127.8.9.10":      "loopback",
		"169.254.169.254": "link-local",
		"169.254.0.1":     "link-local",
		"224.0.0.1":       "multicast",
		"239.255.255.250": "multicast",
		"240.0.0.1":       "class E",
		"255.255.255.255": "broadcast",
		"10.96.0.1":       "Services, 10.96.0.0/16",
		"10.96.255.255":   "Services",
		"10.244.3.4":      "pods, 10.244.0.0/14",
		"10.0.0.10":       "API server",
		"10.0.0.11":       "API server",
		"10.0.0.20":       "Node linux-1",
		"2001:db8::1":     "IPv4",
		"fd00::1":         "IPv4",
		"::ffff:10.0.0.1": "",
		"::ffff:7f00:1":   "loopback",
	}
	for text, want := range tests {
		if got := cluster.Refuse(ip(text)); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: %q, want it to contain %q", text, got, want)
		}
	}
	if got := (Cluster{}).Refuse(netip.Addr{}); got == "" {
		t.Error("the invalid address is accepted for a host")
	}
}

func TestClusterNamesAreRefused(t *testing.T) {
	var c Cluster
	c.AddServer("API-int.lab.example.com")
	c.AddServer("10.0.0.101")
	if c.Refuse(netip.MustParseAddr("10.0.0.101")) == "" {
		t.Error("the API server's address can be a host's")
	}
	for name, isClusters := range map[string]bool{
		"api-int.lab.example.com": true, "api.lab.example.com": true, "Api.lab.example.com.": true, "oauth-openshift.apps.lab.example.com": true,
		"kubernetes": true, "kubernetes.default.svc": true, "web.shop.svc.cluster.local": true, "localhost": true, "localhost.localdomain": true,
		"win-1": false, "api.other.example.com": false, "win-1.lab.example.com": false, "apps.lab.example.com": false, "svcs.example.com": false, "": false,
	} {
		if c.HasName(name) != isClusters {
			t.Errorf("%q is the cluster's: %v, want %v", name, !isClusters, isClusters)
		}
	}
}

func TestNamesInClusterDomainAreRefused(t *testing.T) {
	c := Cluster{Domain: "cluster.development"}
	for name, isRefused := range map[string]bool{
		"web.shop.svc.cluster.development": true, "x.cluster.development": true, "x.cluster.local": true, "win-1.development": false, "win-1.mycluster.development": false,
	} {
		if reason := c.RefuseName(name); (reason != "") != isRefused {
			t.Errorf("%q is refused with %q, want refused: %t", name, reason, isRefused)
		}
	}
	if reason := (Cluster{}).RefuseName("win-1.example.com"); reason != "" {
		t.Errorf("without a domain, a host is refused with %q", reason)
	}
}
