package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/platform"
)

// hybridPort is the port that a hybrid overlay should have, where nobody has chosen one; 0 for none in particular.
func hybridPort(n ClusterNetwork) uint16 {
	return cmp.Or(n.VXLANPort, platform.Of(n.Platform).VXLANPort)
}

// hybridPatches are the commands that give OpenShift's hybrid overlay a range and a port. An empty range leaves those that are set.
// OpenShift does not let an overlay be changed while it runs: what is there is taken away first.
func hybridPatches(in Inputs, cidr string, port uint16) string {
	exists := in.Cluster.Network.HybridOverlay != ""
	config := map[string]any{}
	_ = json.Unmarshal([]byte(in.Cluster.Network.HybridOverlay), &config) // written as JSON by who read it
	if cidr != "" {
		config["hybridClusterNetwork"] = []any{map[string]any{"cidr": cidr, "hostPrefix": 23}}
	}
	if port != 0 {
		config["hybridOverlayVXLANPort"] = port
	}
	set := hybridPatch(config)
	if exists {
		return hybridPatch(nil) + " && " + set
	}
	return set
}

func hybridPatch(config map[string]any) string {
	var value any
	if config != nil {
		value = config
	}
	patch := map[string]any{"spec": map[string]any{"defaultNetwork": map[string]any{
		"ovnKubernetesConfig": map[string]any{"hybridOverlayConfig": value},
	}}}
	return "oc patch networks.operator.openshift.io cluster --type=merge -p " + quoted(patch)
}

// freeRange is a range for pods on Windows nodes that nothing else of the cluster has.
func freeRange(in Inputs) string {
	candidates := []string{"10.132.0.0/14", "10.136.0.0/14", "10.140.0.0/14", "10.192.0.0/14", "172.24.0.0/14"}
	for _, candidate := range candidates {
		prefix := netip.MustParsePrefix(candidate)
		taken := func(r addressRange) bool { return r.name != hybridPods && r.prefix.Overlaps(prefix) }
		if !slices.ContainsFunc(addressRanges(in), taken) {
			return candidate
		}
	}
	return "<range>"
}

// flannelPatch are the commands that make Flannel's configuration one that Windows nodes can take part in, and Flannel follow it.
func flannelPatch(object types.NamespacedName, netConf string) string {
	var conf map[string]any
	if err := json.Unmarshal([]byte(netConf), &conf); err != nil || conf == nil { // null is JSON, too
		conf = map[string]any{}
	}
	name := keyOf(conf, "Backend")
	before, _ := conf[name].(map[string]any)
	backend := maps.Clone(before)
	if backend == nil || backend[keyOf(backend, "Type")] != "vxlan" {
		backend = map[string]any{} // what another type has, VXLAN does not know
	}
	for _, field := range []string{"DirectRouting", "GBP"} {
		delete(backend, keyOf(backend, field))
	}
	backend[keyOf(backend, "Type")], backend[keyOf(backend, "Port")] = "vxlan", VXLANPort
	if vni, _ := backend[keyOf(backend, "VNI")].(float64); vni < minVNI || vni > maxVNI {
		backend[keyOf(backend, "VNI")] = minVNI
	}
	conf[name] = backend
	text, _ := json.Marshal(conf) // of what was JSON
	return fmt.Sprintf("kubectl -n %s patch configmap %s --type=merge -p %s && kubectl -n %s rollout restart daemonset kube-flannel-ds",
		object.Namespace, object.Name, quoted(map[string]any{"data": map[string]any{FlannelConfigKey: string(text)}}), object.Namespace)
}

// keyOf is how a field is spelled in a map; Flannel reads any case.
func keyOf(m map[string]any, field string) string {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if strings.EqualFold(key, field) {
			return key
		}
	}
	return field
}

// quoted is a value as JSON, as an argument in a shell.
func quoted(value any) string {
	text, _ := json.Marshal(value) // maps, texts and numbers
	return "'" + strings.ReplaceAll(string(text), "'", `'\''`) + "'"
}
