package desired_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
)

// twoRanges returns two ranges of Services.
func twoRanges() []string { return []string{"10.96.0.0/16", "10.200.0.0/16"} }

// policiesOf returns the NAT exceptions and the routes in the configuration of an overlay's plugin.
func policiesOf(t *testing.T, n desired.Network) (exceptions, routes []string) {
	t.Helper()
	var list struct {
		Plugins []struct {
			Policies []struct {
				Value struct {
					Type     string
					Settings struct {
						Exceptions        []string
						DestinationPrefix string
					}
				} `json:"value"`
			} `json:"policies"`
		} `json:"plugins"`
	}
	if err := json.Unmarshal([]byte(n.Files[0].Content), &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Plugins[0].Policies {
		switch p.Value.Type {
		case "OutBoundNAT":
			exceptions = append(exceptions, p.Value.Settings.Exceptions...)
		case "SDNRoute":
			routes = append(routes, p.Value.Settings.DestinationPrefix)
		}
	}
	return exceptions, routes
}

func TestAllServiceRangesAreInOverlay(t *testing.T) {
	overlay := onOpenShift()
	for name, test := range map[string]struct {
		in         desired.Inputs
		exceptions []string
	}{
		"OVN-Kubernetes": {overlay, twoRanges()},
		"Flannel":        {withFlannel(goodNetConf), append([]string{"10.244.0.0/16"}, twoRanges()...)},
	} {
		t.Run(name, func(t *testing.T) {
			test.in.Cluster.ServiceCIDRs = twoRanges()
			rendered, err := desired.Render(test.in)
			if err != nil {
				t.Fatal(err)
			}
			exceptions, routes := policiesOf(t, *rendered.Node.Network)
			if !slices.Equal(exceptions, test.exceptions) || !slices.Equal(routes, twoRanges()) {
				t.Errorf("exceptions %v, routes %v; want %v, %v", exceptions, routes, test.exceptions, twoRanges())
			}
			var ranges []string
			for _, p := range rendered.Node.Network.ServiceRanges() {
				ranges = append(ranges, p.String())
			}
			if !slices.Equal(ranges, twoRanges()) {
				t.Errorf("WICD checks load balancers in %v, want %v", ranges, twoRanges())
			}
		})
	}
	overlap := onOpenShift()
	overlap.Cluster.ServiceCIDRs = []string{"172.30.0.0/16", "10.128.7.0/24"}
	if _, err := desired.Render(overlap); err == nil || !strings.Contains(err.Error(), "10.128.7.0/24") {
		t.Errorf("an added range within that of pods: %v", err)
	}
}

func TestAllServiceRangesBypassProxy(t *testing.T) {
	in := inputs()
	in.Cluster.ServiceCIDRs, in.Cluster.Domain = twoRanges(), "cluster.development"
	in.Settings.Proxy = proxy.Config{Object: "WindowsConfig", Path: "spec.proxy", HTTPSProxy: "http://proxy:3128"}
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range append(twoRanges(), ".cluster.development") {
		if list := strings.Split(rendered.Node.Environment[proxy.NoProxy], ","); !slices.Contains(list, want) {
			t.Errorf("NO_PROXY is %v, want %s in it", list, want)
		}
	}
}

func TestUserNetworksGetAllRangesAndFirstServer(t *testing.T) {
	in := inputs()
	in.Cluster.ServiceCIDRs, in.Cluster.DNSServers = twoRanges(), []string{"10.96.0.53", "10.96.0.54"}
	in.Config.Network.Custom = &v1alpha1.CustomNetwork{
		CNIConfig: `{"name": "n", "type": "t", "dns": "{{.ClusterDNS}}", "first": "{{.ServiceCIDR}}", "all": "{{range .ServiceCIDRs}}{{.}} {{end}}"}`,
	}
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := rendered.Node.CNI.Fill("10.244.1.0/24", "192.0.2.1")
	if want := `{"name": "n", "type": "t", "dns": "10.96.0.53", "first": "10.96.0.0/16", "all": "10.96.0.0/16 10.200.0.0/16 "}`; err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	if kubelet := rendered.Node.Files[0].Content; !strings.Contains(kubelet, `"10.96.0.53",`) || !strings.Contains(kubelet, `"10.96.0.54"`) {
		t.Errorf("kubelets get other servers: %s", kubelet)
	}
}

func TestAssumedDomainIsReported(t *testing.T) {
	in := inputs()
	for _, assumed := range []bool{false, true} {
		in.Cluster.DomainAssumed = assumed
		rendered, err := desired.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		isAssumed := func(p desired.Problem) bool {
			return p.Reason == desired.ReasonDomain && strings.Contains(p.Message, "spec.network.dns.domain") && strings.Contains(p.Message, "cluster.local")
		}
		if slices.ContainsFunc(rendered.Problems, isAssumed) != assumed {
			t.Errorf("assumed: %t, problems %+v", assumed, rendered.Problems)
		}
	}
}
