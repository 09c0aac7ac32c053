package join

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// FuzzFacts: whatever facts a host reports, one that passes the checks has a valid name and address for a Node.
func FuzzFacts(f *testing.F) {
	f.Add([]byte(`{"host":{"hostname":"WIN-1","domain":"example.com","build":20348,"installation":"Server Core","architecture":"amd64","clock":"2026-01-01T00:00:00Z",
		"freeBytes":9999999999999,"interfaces":[{"name":"vEthernet (Ethernet)","addresses":["192.0.2.1/24","fe80::1/64"],"defaultRoute":true}]}}`), "AWS", "")
	f.Add([]byte(`{"cloudName":"ip-10-0-0-1.ec2.internal","joined":{"node":"x"},"host":{"hostname":"kubernetes","interfaces":[{"name":"a","addresses":["::ffff:10.0.0.1/120"],"vlan":7}]}}`), "GCP", "10.0.0.0/8")
	f.Add([]byte(`{"host":{"hostname":"a/../b","domain":"..","interfaces":[{"addresses":["0.0.0.0/0"]},{"addresses":["255.255.255.255/32"],"defaultRoute":true}]}}`), "VSphere", "0.0.0.0/0")
	f.Fuzz(func(t *testing.T, reported []byte, platform, cidr string) {
		var facts wicdapi.Facts
		if json.Unmarshal(reported, &facts) != nil {
			return
		}
		facts.Platform = platform
		var chosen *v1alpha1.InstanceNetwork
		if cidr != "" {
			chosen = &v1alpha1.InstanceNetwork{CIDR: cidr}
		}
		ip := NodeIP(facts, chosen)
		if a, err := netip.ParseAddr(ip); ip != "" && (err != nil || !a.Is4() || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})) {
			t.Errorf("the node would have the address %q", ip)
		}
		refused := Check(facts, CheckInput{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Interface: chosen})
		if refused != nil {
			if refused.Reason == "" || refused.Message == "" {
				t.Errorf("refused as %+v", refused)
			}
			return
		}
		name := NodeName(facts)
		if len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > 63 || name != strings.ToLower(name) {
			t.Errorf("the node would have the name %q", name)
		}
		if ip == "" {
			t.Error("the node would have no address")
		}
	})
}
