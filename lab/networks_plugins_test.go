//go:build linux

package lab_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// plugins makes win-overlay.exe create and remove the endpoint of a pod.
func (n networks) plugins() {
	namespace, err := n.host.HNS().Create(hns.Namespace, fields{"Type": "Host"})
	must(n.t, err)
	added := n.plugin("ADD", namespace)
	var result struct{ Ip4 struct{ IP, Gateway string } }
	if err := json.Unmarshal([]byte(added), &result); err != nil || result.Ip4.IP != "10.132.7.3/24" || result.Ip4.Gateway != "10.132.7.1" {
		n.t.Fatalf("ADD prints %s (%v)", added, err)
	}
	e := n.single(hns.Endpoint)
	nat := fields{"Type": "OutBoundNAT", "Settings": fields{"Exceptions": []any{"172.30.0.0/16"}}}
	route := fields{"Type": "SDNRoute", "Settings": fields{"DestinationPrefix": "172.30.0.0/16", "NeedEncap": true}}
	address := fields{"Type": "ProviderAddress", "Settings": fields{"ProviderAddress": n.host.Address()}}
	for field, want := range map[string]any{
		"Policies": []any{nat, route, address}, "HostComputeNamespace": namespace["ID"], "HostComputeNetwork": n.network["ID"],
		"MacAddress": "0E-2A-0a-84-07-03", "IpConfigurations": []any{fields{"IpAddress": "10.132.7.3", "PrefixLength": 24.0}},
	} {
		if diff := cmp.Diff(want, e[field]); diff != "" {
			n.t.Errorf("%s of the endpoint: %s", field, diff)
		}
	}
	n.expectAddresses("10.132.7.3")
	if deleted := n.plugin("DEL", namespace); deleted != "" {
		n.t.Errorf("DEL prints %s, want nothing", deleted)
	}
	if left := n.objects(hns.Endpoint); len(left) > 0 {
		n.t.Errorf("endpoints remain after DEL: %v", left)
	}
	n.expectAddresses()
}

// plugin runs win-overlay.exe like containerd, and returns its output.
func (n networks) plugin(command string, namespace hns.Object) string {
	n.t.Helper()
	policy := func(kind string, settings fields) fields {
		return fields{"name": "EndpointPolicy", "value": fields{"Type": kind, "Settings": settings}}
	}
	config, err := json.Marshal(fields{
		"cniVersion": "0.2.0", "name": overlayName, "type": "win-overlay", "apiVersion": 2, "capabilities": fields{"portMappings": true, "dns": true},
		"ipam": fields{"type": "host-local", "subnet": overlayRange, "rangeStart": "10.132.7.3"},
		"policies": []fields{
			policy("OutBoundNAT", fields{"Exceptions": []string{"172.30.0.0/16"}}),
			policy("SDNRoute", fields{"DestinationPrefix": "172.30.0.0/16", "NeedEncap": true}),
			policy("ProviderAddress", fields{"ProviderAddress": n.host.Address()}),
		},
	})
	must(n.t, err)
	n.write(`C:\k\cni.conf`, config)
	var script strings.Builder
	for name, value := range map[string]string{
		"COMMAND": command, "CONTAINERID": "c1", "IFNAME": "eth0", "PATH": `C:\k`, "NETNS": fmt.Sprint(namespace["ID"]),
	} {
		fmt.Fprintf(&script, "set CNI_%s=%s\r\n", name, value)
	}
	n.write(`C:\k\cni.cmd`, []byte("@echo off\r\n"+script.String()+`C:\k\win-overlay.exe < C:\k\cni.conf`+"\r\n"))
	result, err := n.host.Exec(n.t.Context(), `cmd.exe /c C:\k\cni.cmd`)
	if err != nil || result.ExitCode != 0 {
		n.t.Fatalf("%s: exit code %d (%v): %s%s", command, result.ExitCode, err, result.Stdout, result.Stderr)
	}
	return strings.TrimSpace(string(result.Stdout))
}

func (n networks) expectAddresses(want ...string) {
	n.t.Helper()
	if got, err := n.host.PodAddresses(n.t.Context()); err != nil || !slices.Equal(got, want) {
		n.t.Errorf("addresses of endpoints: got %v (%v), want %v", got, err, want)
	}
}
