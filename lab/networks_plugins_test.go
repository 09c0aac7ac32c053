//go:build linux

package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/lab/hns"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// plugins makes win-overlay.exe create and remove the endpoint of a pod.
func (n networks) plugins() {
	namespace, err := n.host.HNS().Create(hns.Namespace, fields{"Type": "Host"})
	if err != nil {
		n.t.Fatal(err)
	}
	added := n.plugin("ADD", namespace)
	var result struct{ Ip4 struct{ IP, Gateway string } }
	if err := json.Unmarshal([]byte(added), &result); err != nil || result.Ip4.IP != "10.132.7.3/24" || result.Ip4.Gateway != "10.132.7.1" {
		n.t.Fatalf("ADD says %s (%v)", added, err)
	}
	e := n.only(hns.Endpoint)
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
		n.t.Errorf("DEL says %s", deleted)
	}
	if left := n.objects(hns.Endpoint); len(left) > 0 {
		n.t.Errorf("DEL leaves endpoints %v", left)
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
	if err != nil {
		n.t.Fatal(err)
	}
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
	if have, err := n.host.PodAddresses(n.t.Context()); err != nil || !slices.Equal(have, want) {
		n.t.Errorf("the host has addresses %v (%v), want %v", have, err, want)
	}
}

// flannel makes flanneld.exe create its overlay, with a route to another node's pods.
func (n networks) flannel() {
	const name = "flannel.4096"
	config := fields{"Network": "10.128.0.0/9", "Backend": fields{"Type": "vxlan", "Name": name, "VNI": 4096, "Port": 4789}}
	raw, err := json.Marshal(config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(`C:\k\net-conf.json`, raw)
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Annotations: map[string]string{
		"flannel.alpha.coreos.com/backend-type": "vxlan", "flannel.alpha.coreos.com/backend-data": `{"VNI":4096,"VtepMAC":"00:15:5d:0a:0b:0c"}`,
		"flannel.alpha.coreos.com/kube-subnet-manager": "true", "flannel.alpha.coreos.com/public-ip": otherNode,
	}}}
	if _, err := n.client.CoreV1().Nodes().Create(n.t.Context(), other, metav1.CreateOptions{}); err != nil {
		n.t.Fatal(err)
	}
	defer n.start("flanneld", `C:\k\flanneld.exe --kube-subnet-mgr --kubeconfig-file=C:\k\kubeconfig --net-config-path=C:\k\net-conf.json `+
		`--subnet-file=C:\k\subnet.env --iface=`+n.host.Address(), flannelLogFile)()
	testenv.Eventually(n.t, networkPatience, "flannel's network knows both nodes", func(ctx context.Context) string {
		var own, others *corev1.Node
		if own, err = n.client.CoreV1().Nodes().Get(ctx, n.host.Name(), metav1.GetOptions{}); err == nil {
			others, err = n.client.CoreV1().Nodes().Get(ctx, "linux-1", metav1.GetOptions{})
		}
		if err != nil {
			return err.Error()
		}
		var made hns.Object
		for _, o := range n.objects(hns.Network) {
			if o["Name"] == name {
				made = o
			}
		}
		policies := policiesOf(made)
		router := fmt.Sprint(policies["DrMacAddress"]["Address"])
		data := own.Annotations["flannel.alpha.coreos.com/backend-data"]
		remote := fields{
			"IsolationId": 4096.0, "DistributedRouterMacAddress": "00:15:5d:0a:0b:0c", "ProviderAddress": otherNode, "DestinationPrefix": others.Spec.PodCIDR,
		}
		diff := cmp.Diff(remote, policies["RemoteSubnetRoute"])
		if diff != "" || policies["HostRoute"] == nil || policies["ProviderAddress"]["ProviderAddress"] != n.host.Address() || made["Flags"] != 8.0 ||
			!strings.Contains(strings.ToUpper(data), strings.ReplaceAll(router, "-", ":")) || router == "" {
			return fmt.Sprintf("it is %v; the node says %s; %s; flanneld's log: %s", made, data, diff, n.log(flannelLogFile))
		}
		return ""
	})
}

// policiesOf are the settings of an object's policies by their type.
func policiesOf(o hns.Object) map[string]fields {
	found := map[string]fields{}
	list, _ := o["Policies"].([]any)
	for _, one := range list {
		policy, _ := one.(fields)
		settings, _ := policy["Settings"].(fields)
		found[fmt.Sprint(policy["Type"])] = settings
	}
	return found
}
