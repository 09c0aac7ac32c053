package desired_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// withFlannel returns a plain cluster with a Flannel configuration.
func withFlannel(netConf string) desired.Inputs {
	in := inputs()
	in.Config.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}
	flannel, err := desired.ParseFlannel(netConf)
	if err != nil {
		panic(err) // the test itself is wrong
	}
	in.Cluster.Network = desired.ClusterNetwork{Flannel: &flannel}
	return in
}

const goodNetConf = `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`

func TestRenderRefusesFlannelNetworksThatCannotWork(t *testing.T) {
	for name, test := range map[string]struct {
		netConf  string
		reason   string
		contains []string
	}{
		"as it should be":        {netConf: goodNetConf}, // https://github.com/kubernetes-sigs/sig-windows-tools/issues/301
		"names in other letters": {netConf: `{"network": "10.244.0.0/16", "backend": {"type": "vxlan", "vni": 4097, "port": 4789}}`},
		"the greatest VNI":       {netConf: `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 65535, "Port": 4789}}`},
		"both families": {netConf: `{"Network": "10.244.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00::/48", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`,
			reason: api.ReasonFlannelUnsuitable, contains: []string{"EnableIPv6: true", "does not start on Windows"}},
		"Flannel's own manifest": {netConf: `{"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan"}}`, reason: api.ReasonFlannelUnsuitable, // https://github.com/rancher/rke2/issues/5952
			contains: []string{"ConfigMap kube-flannel/kube-flannel-cfg", "Backend.VNI is not set and must be from 4096 to 65535", "Backend.Port is not set and must be 4789"}},
		"Linux' numbers": {netConf: `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 1, "Port": 8472}}`, reason: api.ReasonFlannelUnsuitable,
			contains: []string{"Backend.VNI is 1", "Backend.Port is 8472"}},
		"another backend": {netConf: `{"Network": "10.244.0.0/16", "Backend": {"Type": "host-gw"}}`, reason: api.ReasonFlannelUnsuitable,
			contains: []string{`Backend.Type is "host-gw" and must be "vxlan"`}},
		"no backend":           {netConf: `{"Network": "10.244.0.0/16"}`, reason: api.ReasonFlannelUnsuitable, contains: []string{`Backend.Type is ""`}},
		"a VNI beyond 16 bits": {netConf: strings.Replace(goodNetConf, "4096", "70000", 1), reason: api.ReasonFlannelUnsuitable, contains: []string{"Backend.VNI is 70000"}},
		"a VNI below Windows'": {netConf: strings.Replace(goodNetConf, "4096", "4095", 1), reason: api.ReasonFlannelUnsuitable, contains: []string{"Backend.VNI is 4095"}},
		"numbers that are none": {netConf: `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 70000000000000000000, "Port": "4789"}}`,
			reason: api.ReasonFlannelUnsuitable, contains: []string{"Backend.VNI is 70000000000000000000", `Backend.Port is "4789"`, `\"Port\":4789`, `\"VNI\":4096`}},
		"a port beyond 16 bits": {netConf: strings.Replace(goodNetConf, "4789", "70325", 1), reason: api.ReasonFlannelUnsuitable, contains: []string{"Backend.Port is 70325"}},
		"direct routes": {netConf: strings.Replace(goodNetConf, `"Port"`, `"GBP": true, "DirectRouting": true, "Port"`, 1), reason: api.ReasonFlannelUnsuitable,
			contains: []string{"Backend.DirectRouting is true and must be false", "Backend.GBP is true and must be false"}},
		"a custom name": {netConf: strings.Replace(goodNetConf, `"VNI"`, `"Name": "vxlan0", "VNI"`, 1)},
		"an invalid name": {netConf: strings.Replace(goodNetConf, `"VNI"`, `"Name": "a\\b", "VNI"`, 1), reason: api.ReasonFlannelUnsuitable,
			contains: []string{`Backend.Name is "a\\b"`}},
		"a name without a beginning": {netConf: strings.Replace(goodNetConf, `"VNI"`, `"Name": ".a", "VNI"`, 1), reason: api.ReasonFlannelUnsuitable,
			contains: []string{`Backend.Name is ".a"`}},
		"no range":      {netConf: strings.Replace(goodNetConf, "10.244.0.0/16", "", 1), reason: api.ReasonFlannelUnsuitable, contains: []string{`Network is "" and must be`, "--cluster-cidr"}},
		"an IPv6 range": {netConf: strings.Replace(goodNetConf, "10.244.0.0/16", "fd00::/48", 1), reason: api.ReasonClusterNetworkIPv6Only, contains: []string{"fd00::/48"}},
		"IPv6 only":     {netConf: strings.Replace(goodNetConf, `{"N`, `{"EnableIPv4": false, "N`, 1), reason: api.ReasonClusterNetworkIPv6Only, contains: []string{"EnableIPv4: false"}},
		"class E":       {netConf: strings.Replace(goodNetConf, "10.244.0.0/16", "240.0.0.0/16", 1), reason: api.ReasonClusterNetworkReserved, contains: []string{"240.0.0.0/16"}},
		"overlap with Services": {netConf: strings.Replace(goodNetConf, "10.244.0.0/16", "10.96.0.0/12", 1), reason: api.ReasonNetworksOverlap,
			contains: []string{"10.96.0.0/12", "10.96.0.0/16"}},
	} {
		t.Run(name, func(t *testing.T) {
			networkCase{reason: test.reason, contains: test.contains}.run(t, withFlannel(test.netConf))
		})
	}
}

func TestMissingFlannelIsReported(t *testing.T) {
	in := withFlannel(goodNetConf)
	in.Cluster.Network.Flannel = nil
	in.Config.Network.Flannel = &v1alpha1.FlannelNetwork{Namespace: "net", ConfigMap: "cfg"}
	networkCase{reason: api.ReasonFlannelNotFound, contains: []string{"ConfigMap net/cfg", "net-conf.json", "spec.network.flannel"}}.run(t, in)
}

// TestFlannelRemedyFixesConfiguration applies the command in the message, as kubectl would, and renders again.
func TestFlannelRemedyFixesConfiguration(t *testing.T) {
	proposed := regexp.MustCompile(`kubectl -n (\S+) patch configmap (\S+) --type=merge -p '(.*)' && kubectl -n kube-flannel rollout restart`)
	for name, test := range map[string]struct{ before, after string }{
		"Flannel's own manifest": {`{"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan"}}`,
			`{"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`},
		"other settings are kept": {`{"Network": "10.244.0.0/16", "SubnetLen": 25, "Backend": {"Type": "vxlan", "VNI": 4711, "MTU": 1400, "DirectRouting": true}}`,
			`{"Network": "10.244.0.0/16", "SubnetLen": 25, "Backend": {"Type": "vxlan", "VNI": 4711, "Port": 4789, "MTU": 1400}}`},
		"settings of another type are removed": {`{"Network": "10.244.0.0/16", "Backend": {"Type": "wireguard", "PSK": "it's"}}`,
			`{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`},
		"names in other letters": {`{"network": "10.244.0.0/16", "backend": {"type": "vxlan", "vni": 1, "gbp": true}, "note": "it's"}`,
			`{"network": "10.244.0.0/16", "backend": {"type": "vxlan", "vni": 4096, "Port": 4789}, "note": "it's"}`},
		"an invalid backend": {`{"Network": "10.244.0.0/16", "Backend": null}`,
			`{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := desired.Render(withFlannel(test.before))
			if err == nil {
				t.Fatal("accepted as it was")
			}
			command := proposed.FindStringSubmatch(err.Error())
			if command == nil || command[1] != "kube-flannel" || command[2] != "kube-flannel-cfg" {
				t.Fatalf("no command in %q", err)
			}
			if strings.Contains(strings.ReplaceAll(command[3], `'\''`, ""), "'") {
				t.Errorf("a quote in %q ends the argument", command[3])
			}
			var patch struct{ Data map[string]string }
			if err := json.Unmarshal([]byte(strings.ReplaceAll(command[3], `'\''`, "'")), &patch); err != nil {
				t.Fatal(err)
			}
			after := patch.Data["net-conf.json"]
			if diff := cmp.Diff(fromJSON(t, test.after), fromJSON(t, after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := desired.Render(withFlannel(after)); err != nil {
				t.Errorf("and it is still refused: %v", err)
			}
		})
	}
}

func TestFlannelNumbersDoNotOverflow(t *testing.T) {
	f, err := desired.ParseFlannel(`{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4294971392, "Port": 70325}}`) // modulo 2^32 and 2^16, both fit
	if err != nil || f.VNI != 0 || f.Port != 0 {
		t.Errorf("read as %+v, %v", f, err)
	}
}

func fromJSON(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return value
}

func TestFlannelConfigMapNameIsConfigurable(t *testing.T) {
	for _, test := range []struct {
		set  *v1alpha1.FlannelNetwork
		want types.NamespacedName
	}{
		{nil, types.NamespacedName{Namespace: "kube-flannel", Name: "kube-flannel-cfg"}},
		{&v1alpha1.FlannelNetwork{Namespace: "kube-system"}, types.NamespacedName{Namespace: "kube-system", Name: "kube-flannel-cfg"}},
		{&v1alpha1.FlannelNetwork{ConfigMap: "cfg"}, types.NamespacedName{Namespace: "kube-flannel", Name: "cfg"}},
	} {
		if got := desired.FlannelConfig(v1alpha1.NetworkSpec{Flannel: test.set}); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

// FuzzFlannel parses any text as Flannel's configuration. Parsing keeps the text, an accepted configuration is within the limits of
// Windows, and a rejected one has a reason.
func FuzzFlannel(f *testing.F) {
	for _, text := range []string{goodNetConf, `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}`, `{}`, ``, `null`, `{"Backend": []}`, `{"backend": {"TYPE": "x", "vni": -1}}`,
		`{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4294971392, "Port": 70325}} {}`, `{"Network": "'"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		flannel, err := desired.ParseFlannel(text)
		if err != nil {
			if !errors.Is(err, desired.ErrNetwork) {
				t.Fatalf("%v is not an error of the network", err)
			}
			return
		}
		if flannel.NetConf != text {
			t.Fatalf("kept as %q", flannel.NetConf)
		}
		_, err = desired.Render(withFlannel(text))
		var refused *desired.NetworkError
		switch {
		case err == nil && (flannel.VNI < 4096 || flannel.VNI > 65535 || flannel.Port != 4789 || !strings.Contains(flannel.Network, ".")):
			t.Errorf("accepted %+v", flannel)
		case err != nil && !errors.As(err, &refused):
			t.Errorf("refused with %v, which has no reason", err)
		}
	})
}
