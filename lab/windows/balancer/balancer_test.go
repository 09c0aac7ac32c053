package balancer

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

func objects(t *testing.T, documents ...string) []hns.Object {
	t.Helper()
	var all []hns.Object
	for _, document := range documents {
		var o hns.Object
		if err := json.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

func TestLoadBalancersBecomeRules(t *testing.T) {
	endpoints := objects(t,
		`{"ID":"A","IpConfigurations":[{"IpAddress":"10.1.0.2"}]}`,
		`{"ID":"B","IpConfigurations":[{"IpAddress":"10.1.0.3"}]}`,
		`{"ID":"V6","IpConfigurations":[{"IpAddress":"fd00::1"}]}`,
		`{"ID":"NONE"}`)
	for name, test := range map[string]struct {
		document          string
		services, clients []string
	}{
		"one server": {
			`{"HostComputeEndpoints":["a"],"FrontendVIPs":["10.96.0.5"],"PortMappings":[{"Protocol":6,"InternalPort":8080,"ExternalPort":80}]}`,
			[]string{"ip daddr 10.96.0.5 tcp dport 80 dnat ip to 10.1.0.2:8080"}, nil,
		},
		"two servers in turn": {
			`{"HostComputeEndpoints":["A","{B}"],"FrontendVIPs":["10.96.0.5"],"PortMappings":[{"Protocol":17,"InternalPort":53,"ExternalPort":53}]}`,
			[]string{"ip daddr 10.96.0.5 udp dport 53 dnat ip to numgen inc mod 2 map { 0 : 10.1.0.2 . 53, 1 : 10.1.0.3 . 53 }"}, nil,
		},
		"client affinity": {
			`{"HostComputeEndpoints":["A","B"],"FrontendVIPs":["10.96.0.5"],"PortMappings":[{"Protocol":6,"InternalPort":1,"ExternalPort":2,"DistributionType":2}]}`,
			[]string{"ip daddr 10.96.0.5 tcp dport 2 dnat ip to jhash ip saddr mod 2 map { 0 : 10.1.0.2 . 1, 1 : 10.1.0.3 . 1 }"}, nil,
		},
		"node port with the host as client": {
			`{"HostComputeEndpoints":["A"],"SourceVIP":"10.1.0.254","PortMappings":[{"Protocol":6,"InternalPort":80,"ExternalPort":30080,"Flags":18}]}`,
			[]string{"ip daddr 10.99.1.2 tcp dport 30080 dnat ip to 10.1.0.2:80"},
			[]string{"ct original ip daddr 10.99.1.2 meta l4proto tcp ct original proto-dst 30080 ct status dnat snat ip to 10.1.0.254"},
		},
		"node port with direct server return": {
			`{"HostComputeEndpoints":["A"],"SourceVIP":"10.1.0.254","Flags":1,"PortMappings":[{"Protocol":6,"InternalPort":80,"ExternalPort":30080,"Flags":18}]}`,
			[]string{"ip daddr 10.99.1.2 tcp dport 30080 dnat ip to 10.1.0.2:80"}, nil,
		},
		"several ports": {
			`{"HostComputeEndpoints":["A"],"FrontendVIPs":["10.96.0.5"],"PortMappings":[{"Protocol":6,"InternalPort":1,"ExternalPort":80},{"Protocol":6,"InternalPort":2,"ExternalPort":81}]}`,
			[]string{"ip daddr 10.96.0.5 tcp dport 80 dnat ip to 10.1.0.2:1", "ip daddr 10.96.0.5 tcp dport 81 dnat ip to 10.1.0.2:2"}, nil,
		},
		"a removed endpoint": {
			`{"HostComputeEndpoints":["GONE","A"],"FrontendVIPs":["10.96.0.5"],"PortMappings":[{"Protocol":6,"InternalPort":1,"ExternalPort":80}]}`,
			[]string{"ip daddr 10.96.0.5 tcp dport 80 dnat ip to 10.1.0.2:1"}, nil,
		},
		"no server":          {`{"HostComputeEndpoints":["NONE"],"FrontendVIPs":["10.96.0.5"],"PortMappings":[{"Protocol":6,"InternalPort":1,"ExternalPort":80}]}`, nil, nil},
		"IPv6":               {`{"HostComputeEndpoints":["V6"],"FrontendVIPs":["fd00::5"],"PortMappings":[{"Protocol":6,"InternalPort":1,"ExternalPort":80}]}`, nil, nil},
		"another protocol":   {`{"HostComputeEndpoints":["A"],"FrontendVIPs":["10.96.0.5"],"PortMappings":[{"Protocol":132,"InternalPort":1,"ExternalPort":80}]}`, nil, nil},
		"an invalid address": {`{"HostComputeEndpoints":["A"],"FrontendVIPs":["10.96.0.5; flush ruleset"],"PortMappings":[{"Protocol":6,"InternalPort":1,"ExternalPort":80}]}`, nil, nil},
	} {
		text := Ruleset(netip.MustParseAddr("10.99.1.2"), netip.MustParsePrefix("10.130.0.0/17"), networksOf(t), objects(t, test.document), endpoints)
		if diff := cmp.Diff(test.services, rulesOf(text, "services")); diff != "" {
			t.Errorf("%s: Services: %s", name, diff)
		}
		if diff := cmp.Diff(test.clients, rulesOf(text, "clients")); diff != "" {
			t.Errorf("%s: clients: %s", name, diff)
		}
	}
}

// rulesOf returns the lines of a chain.
func rulesOf(text, chain string) []string {
	_, after, _ := strings.Cut(text, "chain "+chain+" {\n")
	inside, _, _ := strings.Cut(after, "\t}\n")
	var rules []string
	for line := range strings.Lines(inside) {
		rules = append(rules, strings.TrimSpace(line))
	}
	return rules
}

// networksOf returns the networks of a host with an overlay and one other node.
func networksOf(t *testing.T) []hns.Object {
	return objects(t, `{"Name":"x","Type":"Overlay","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.130.1.0/24"}]}],`+
		`"Policies":[{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"10.130.2.0/24"}}]}`)
}

// TestKernelAcceptsRuleset applies a ruleset twice, in a new network namespace.
func TestKernelAcceptsRuleset(t *testing.T) {
	const nft = "/usr/sbin/nft"
	if _, err := os.Stat(nft); err != nil || os.Geteuid() != 0 {
		t.Skipf("SKIPPED: needs root and nftables (%v)", err)
	}
	endpoints := objects(t, `{"ID":"A","IpConfigurations":[{"IpAddress":"10.1.0.2"}]}`, `{"ID":"B","IpConfigurations":[{"IpAddress":"10.1.0.3"}]}`)
	rules := Ruleset(netip.MustParseAddr("10.99.1.2"), netip.MustParsePrefix("10.130.0.0/17"), networksOf(t), objects(t,
		`{"HostComputeEndpoints":["A"],"SourceVIP":"10.1.0.254","PortMappings":[{"Protocol":6,"InternalPort":80,"ExternalPort":30080}]}`,
		`{"HostComputeEndpoints":["A","B"],"FrontendVIPs":["10.96.0.5"],"PortMappings":[{"Protocol":6,"InternalPort":1,"ExternalPort":2}]}`,
		`{"HostComputeEndpoints":["A","B"],"FrontendVIPs":["10.96.0.6"],"PortMappings":[{"Protocol":17,"InternalPort":1,"ExternalPort":2,"DistributionType":2}]}`,
	), endpoints)
	command := exec.CommandContext(t.Context(), "sh", "-ec", nft+" -f -; "+nft+" list ruleset")
	command.Stdin = strings.NewReader(rules + rules)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, output, rules)
	}
	if to, from := strings.Count(string(output), " dport "), strings.Count(string(output), "snat to"); to != 3 || from != 2 { // one is for servers that are their own clients
		t.Errorf("got %d rules for Services and %d for clients, want 3 and 2:\n%s", to, from, output)
	}
	if n := strings.Count(string(output), "ip saddr 10.130.1.0/24 "); n != 3 {
		t.Errorf("got %d rules for packets of pods, want 3:\n%s", n, output)
	}
}
