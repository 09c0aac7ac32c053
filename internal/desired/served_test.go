package desired

import (
	"net/netip"
	"testing"
)

func TestWhatTheClusterAnswersAtIsNoHosts(t *testing.T) {
	s := Served{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.100")}, Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}}
	s.AddServer("API-int.lab.example.com")
	s.AddServer("10.0.0.101")
	for name, isClusters := range map[string]bool{
		"api-int.lab.example.com": true, "api.lab.example.com": true, "Api.lab.example.com.": true, "oauth-openshift.apps.lab.example.com": true,
		"kubernetes": true, "kubernetes.default.svc": true, "web.shop.svc.cluster.local": true, "localhost": true, "localhost.localdomain": true,
		"win-1": false, "api.other.example.com": false, "win-1.lab.example.com": false, "apps.lab.example.com": false, "svcs.example.com": false, "": false,
	} {
		if s.HasName(name) != isClusters {
			t.Errorf("%q is the cluster's: %v, want %v", name, !isClusters, isClusters)
		}
	}
	for address, isClusters := range map[string]bool{
		"10.0.0.100": true, "10.0.0.101": true, "::ffff:10.0.0.100": true, "10.96.0.1": true, "10.111.255.255": true, "10.0.0.1": false, "10.112.0.0": false,
	} {
		if got := s.HasAddress(netip.MustParseAddr(address)); (got != "") != isClusters {
			t.Errorf("%s is %q; the cluster's: want %v", address, got, isClusters)
		}
	}
}
