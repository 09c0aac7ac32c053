package desired

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

// hybridRemedy returns the commands that give OpenShift a hybrid overlay with which OVN-Kubernetes starts and Windows nodes work. Working parts of
// the existing one are kept. OpenShift's network operator refuses to change an overlay that it has applied, so null must be set and applied first.
func hybridRemedy(in Inputs) string {
	n := in.Cluster.Network
	config := map[string]any{}
	_ = json.Unmarshal([]byte(n.HybridOverlay), &config) // JSON by construction
	if !hybridRangeWorks(in) {
		free, found := freeRange(in)
		if !found {
			return "no private range is free; choose a range that nothing else in your network uses"
		}
		// The network operator does not pass hostPrefix on; this is what nodes get.
		config["hybridClusterNetwork"] = []any{map[string]any{"cidr": free.String(), "hostPrefix": OVNHostPrefix}}
	}
	port, needed := n.VXLANPort, platform.Of(n.Platform).VXLANPort
	if needed != 0 && (port == 0 || port == VXLANPort) {
		port = needed
	}
	delete(config, "hybridOverlayVXLANPort")
	if port != 0 {
		config["hybridOverlayVXLANPort"] = port
	}
	if n.HybridOverlay == "" {
		return hybridPatch(config)
	}
	return hybridPatch(nil) + " && " + untilApplied + " && " + hybridPatch(config)
}

// untilApplied waits until OpenShift's network operator has removed the hybrid overlay. The network operator writes the applied configuration to this
// ConfigMap, as JSON in one line without null fields, and compares changes with it. A ConfigMap that cannot be read counts as not applied.
const untilApplied = "until oc -n openshift-network-operator get configmap applied-cluster -o jsonpath='{.data.applied}' | grep -qv hybridOverlayConfig; do sleep 5; done"

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

// hybridRangeWorks reports whether the range can stay.
func hybridRangeWorks(in Inputs) bool {
	n := in.Cluster.Network
	if len(n.HybridCIDRs) != 1 {
		return false
	}
	prefix, err := netip.ParsePrefix(n.HybridCIDRs[0])
	return err == nil && prefix.Addr().Is4() && podAddresses(n.HostPrefixes[n.HybridCIDRs[0]]) > 0 && isFree(in, prefix.Masked())
}

// freeRange returns a range for pods on Windows nodes that nothing else in the cluster uses.
func freeRange(in Inputs) (netip.Prefix, bool) {
	for _, usual := range []string{"10.132.0.0/14", "10.136.0.0/14", "10.140.0.0/14", "10.192.0.0/14", "172.24.0.0/14"} {
		if prefix := netip.MustParsePrefix(usual); isFree(in, prefix) {
			return prefix, true
		}
	}
	for bits := 14; bits < OVNHostPrefix; bits += 3 {
		for _, private := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"} {
			within := netip.MustParsePrefix(private)
			for prefix := netip.PrefixFrom(within.Addr(), bits); bits >= within.Bits() && within.Overlaps(prefix); prefix = after(prefix) {
				if isFree(in, prefix) {
					return prefix, true
				}
			}
		}
	}
	return netip.Prefix{}, false
}

// after returns the next range of the same length.
func after(p netip.Prefix) netip.Prefix {
	b := p.Addr().As4()
	next := binary.BigEndian.Uint32(b[:]) + 1<<(32-p.Bits())
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, next))), p.Bits())
}

// isFree reports whether the hybrid overlay can have a range.
func isFree(in Inputs, prefix netip.Prefix) bool {
	taken := func(r addressRange) bool { return r.name != hybridPods && r.prefix.Overlaps(prefix) }
	_, internal := internalOverlap(in, prefix)
	return !internal && !prefix.Overlaps(classE()) && !slices.ContainsFunc(addressRanges(in), taken)
}

// flannelPatch returns the commands that change Flannel's configuration to one that Windows nodes can use, and make Flannel use it.
func flannelPatch(object types.NamespacedName, netConf string) string {
	var conf map[string]any
	if err := json.Unmarshal([]byte(netConf), &conf); err != nil || conf == nil { // null is valid JSON
		conf = map[string]any{}
	}
	name := keyOf(conf, "Backend")
	previous, _ := conf[name].(map[string]any)
	backend := maps.Clone(previous)
	if backend == nil || backend[keyOf(backend, "Type")] != "vxlan" {
		backend = map[string]any{} // VXLAN does not use fields of other types
	}
	for _, field := range []string{"DirectRouting", "GBP"} {
		delete(backend, keyOf(backend, field))
	}
	backend[keyOf(backend, "Type")], backend[keyOf(backend, "Port")] = "vxlan", VXLANPort
	if vni, _ := backend[keyOf(backend, "VNI")].(float64); vni < minVNI || vni > maxVNI {
		backend[keyOf(backend, "VNI")] = minVNI
	}
	conf[name] = backend
	text, _ := json.Marshal(conf) // values that came from JSON
	return fmt.Sprintf("kubectl -n %s patch configmap %s --type=merge -p %s && kubectl -n %s rollout restart daemonset kube-flannel-ds",
		object.Namespace, object.Name, quoted(map[string]any{"data": map[string]any{FlannelConfigKey: string(text)}}), object.Namespace)
}

// keyOf returns the spelling of a field in a map; Flannel ignores case.
func keyOf(m map[string]any, field string) string {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if strings.EqualFold(key, field) {
			return key
		}
	}
	return field
}

// quoted returns a value as JSON, quoted as a shell argument.
func quoted(value any) string {
	text, _ := json.Marshal(value) // maps, texts and numbers
	return "'" + strings.ReplaceAll(string(text), "'", `'\''`) + "'"
}
