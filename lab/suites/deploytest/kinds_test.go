//go:build linux

package deploytest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func (c *cluster) testWindowsInstance(t *testing.T) {
	all := instances(c.admin, namespace)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	with := func(change map[string]any) func(context.Context) error {
		spec := map[string]any{"address": "10.0.0.1", "username": "Administrator"}
		maps.Copy(spec, change)
		return func(ctx context.Context) error {
			return errOf(all.Create(ctx, object("WindowsInstance", "x", spec), dryRun))
		}
	}
	const notAnAddress = "address must be an IPv4 address or a DNS name"
	try(t, []attempt{
		{"IPv4 address", "", with(nil)},
		{"DNS name", "", with(map[string]any{"address": "Win-1.example.com"})},
		{"host key", "", with(map[string]any{"hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHZ8"})},
		{"IPv6 address", "IPv6 addresses are not supported", with(map[string]any{"address": "fd00::1"})},
		{"empty address", "spec.address", with(map[string]any{"address": ""})},
		{"address with spaces", notAnAddress, with(map[string]any{"address": "win 1"})},
		{"loopback address", "a Windows host can have", with(map[string]any{"address": "127.0.0.1"})},
		{"address of cloud metadata", "a Windows host can have", with(map[string]any{"address": "169.254.169.254"})},
		{"multicast address", "a Windows host can have", with(map[string]any{"address": "239.1.2.3"})},
		{"broadcast address", "a Windows host can have", with(map[string]any{"address": "255.255.255.255"})},
		{"unspecified address", "a Windows host can have", with(map[string]any{"address": "0.0.0.0"})},
		{"DNS name that starts like a loopback address", "", with(map[string]any{"address": "127.example.com"})},
		{"address with a port", "spec.address", with(map[string]any{"address": "10.0.0.1:22"})},
		{"user name with a leading blank", "no blanks around it", with(map[string]any{"username": " core"})},
		{"user name with a line break", "no control characters", with(map[string]any{"username": "core\nroot"})},
		{"user name of one letter", "", with(map[string]any{"username": "a"})},
		{"domain account with a blank", "", with(map[string]any{"username": "CORP\\domain admin"})},
		{"empty user name", "spec.username", with(map[string]any{"username": ""})},
		{"port out of range", "spec.port", with(map[string]any{"port": int64(70000)})},
		{"interface", "", with(map[string]any{"network": map[string]any{"interface": "Ethernet 2"}})},
		{"range with an interface's address", "", with(map[string]any{"network": map[string]any{"cidr": "10.0.8.0/24"}})},
		{"interface and range", "at most one of network.interface and network.cidr may be set", with(map[string]any{"network": map[string]any{"interface": "a", "cidr": "10.0.8.0/24"}})},
		{"range without prefix length", "cidr must be a range of IPv4 addresses", with(map[string]any{"network": map[string]any{"cidr": "10.0.8.0"}})},
		{"IPv6 range", "cidr must be a range of IPv4 addresses", with(map[string]any{"network": map[string]any{"cidr": "fd00::/48"}})},
		{"empty interface name", "spec.network.interface", with(map[string]any{"network": map[string]any{"interface": ""}})},
		{"additional addresses", "", with(map[string]any{"additionalAddresses": []any{"ip-10-0-0-1.internal", "203.0.113.7", "fd00::7"}})},
		{"additional address with a wildcard", "must be an IP address, or a DNS name in lower case", with(map[string]any{"additionalAddresses": []any{"*.internal"}})},
		{"additional address in upper case", "must be an IP address, or a DNS name in lower case", with(map[string]any{"additionalAddresses": []any{"Win-1.internal"}})},
		{"duplicate additional address", "spec.additionalAddresses", with(map[string]any{"additionalAddresses": []any{"203.0.113.7", "203.0.113.7"}})},
		{"too many additional addresses", "spec.additionalAddresses", with(map[string]any{"additionalAddresses": addressRanges(17)})},
		{"replacement", "", with(map[string]any{"replaceWith": "win-2025"})},
		{"replacement by itself", "spec.replaceWith must name another WindowsInstance", with(map[string]any{"replaceWith": "x"})},
		{"replacement that is no name", "replaceWith must be the name of a WindowsInstance", with(map[string]any{"replaceWith": "Win 2025"})},
		{"host key of an unsupported type", "spec.hostKey", with(map[string]any{"hostKey": "ssh-dss AAAA"})},
	})
	must(t, errOf(all.Create(t.Context(), object("WindowsInstance", "kept", map[string]any{"address": "10.0.0.1", "username": "a"}), metav1.CreateOptions{})))
	patch := func(raw string) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(all.Patch(ctx, "kept", types.MergePatchType, []byte(raw), metav1.PatchOptions{}))
		}
	}
	try(t, []attempt{
		{"change of the address", "address cannot change", patch(`{"spec":{"address":"10.0.0.2"}}`)},
		{"change of the user name", "", patch(`{"spec":{"username":"b"}}`)},
		{"status in a patch of the main resource is ignored", "", func(ctx context.Context) error {
			if err := patch(`{"status":{"hostname":"win-1"}}`)(ctx); err != nil {
				return err
			}
			got, err := all.Get(ctx, "kept", metav1.GetOptions{})
			if err == nil && got.Object["status"] != nil {
				t.Errorf("got status %v, want none", got.Object["status"])
			}
			return err
		}},
	})
}

func (c *cluster) testWindowsConfig(t *testing.T) {
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	named := func(name string, spec map[string]any) func(context.Context) error {
		return func(ctx context.Context) error {
			return errOf(configs(c.admin).Create(ctx, object("WindowsConfig", name, spec), dryRun))
		}
	}
	set := func(path string, value any) func(context.Context) error {
		spec := value
		parts := strings.Split(path, ".")
		for i := len(parts) - 1; i >= 0; i-- {
			spec = map[string]any{parts[i]: spec}
		}
		return named("cluster", spec.(map[string]any))
	}
	reserved := func(key, value string) func(context.Context) error {
		return set("kubelet.systemReserved", map[string]any{key: value})
	}
	eviction := func(key, value string) func(context.Context) error {
		return set("kubelet.evictionHard", map[string]any{key: value})
	}
	network := func(provider, block string, settings map[string]any) func(context.Context) error {
		return set("network", map[string]any{"provider": provider, block: settings})
	}
	custom := func(fields ...string) func(context.Context) error {
		settings := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			settings[fields[i]] = fields[i+1]
		}
		return network("Custom", "custom", settings)
	}
	size := func(name, value string) attempt {
		want := "spec.logs.size: " + c.invalid(value) + ": size must be a quantity of bytes from 1Mi to 10Gi, for example 100Mi"
		return attempt{"logs: " + name, want, set("logs.size", value)}
	}
	age := func(name, value string) attempt {
		want := "spec.logs.age: " + c.invalid(value) + ": age must be at least 1h, in hours, minutes and seconds, for example 168h or 36h30m"
		return attempt{"logs: " + name, want, set("logs.age", value)}
	}
	try(t, []attempt{
		{"no RuntimeClasses", "", set("runtimeClasses.versions", []any{})},
		{"RuntimeClasses of two versions", "", set("runtimeClasses.versions", []any{"2022", "2025"})},
		{"RuntimeClass of an unknown version", "supported values: \"2019\", \"2022\", \"2025\"", set("runtimeClasses.versions", []any{"2016"})},
		{"additional RuntimeClass", "", set("runtimeClasses.additional", []any{map[string]any{"name": "windows-2022", "version": "2022"}})},
		{"additional RuntimeClass without version", "version: Required value", set("runtimeClasses.additional", []any{map[string]any{"name": "a"}})},
		{"additional RuntimeClass with an invalid name", "spec.runtimeClasses.additional[0].name", set("runtimeClasses.additional", []any{map[string]any{"name": "Windows_2022", "version": "2022"}})},
		{"additional RuntimeClass with a reserved name", "must not be windows2019", set("runtimeClasses.additional", []any{map[string]any{"name": "windows2022", "version": "2022"}})},
		{"unknown default class", "must be a class of the operator", set("pods.defaultRuntimeClass", "windows2016")},
		{"default class", "", set("pods.defaultRuntimeClass", "windows2022")},
		{"Hyper-V isolation", "", set("runtimeClasses.hyperV", map[string]any{})},
		{"Hyper-V isolation with memory and processors", "", set("runtimeClasses.hyperV", map[string]any{"memory": "2000M", "processors": int64(64)})},
		{"Hyper-V isolation with too little memory", "memory must be a quantity of bytes from 512Mi", set("runtimeClasses.hyperV", map[string]any{"memory": "100Mi"})},
		{"Hyper-V isolation with invalid memory", "memory must be a quantity of bytes from 512Mi", set("runtimeClasses.hyperV", map[string]any{"memory": "much"})},
		{"Hyper-V isolation with a negative number of processors", "hyperV.processors", set("runtimeClasses.hyperV", map[string]any{"processors": int64(-1)})},
		{"additional RuntimeClass with Hyper-V isolation", "", set("runtimeClasses", map[string]any{"hyperV": map[string]any{}, "additional": []any{map[string]any{"name": "a", "version": "2022", "hyperV": true}}})},
		{"additional RuntimeClass with Hyper-V isolation, which is off", "need runtimeClasses.hyperV", set("runtimeClasses.additional", []any{map[string]any{"name": "a", "version": "2022", "hyperV": true}})},
		{"additional RuntimeClass with a reserved name for Hyper-V isolation", "must not be windows2019", set("runtimeClasses.additional", []any{map[string]any{"name": "windows2022-hyperv", "version": "2022"}})},
		{"default class with Hyper-V isolation, which is off", "must be a class of the operator", set("pods.defaultRuntimeClass", "windows2022-hyperv")},
		{"default class with an invalid name", "spec.pods.defaultRuntimeClass", set("pods.defaultRuntimeClass", "a b")},
		{"empty spec", "", named("cluster", map[string]any{})},
		{"another name", "its name must be cluster", named("other", map[string]any{})},
		{"concurrent joins", "", set("rollout.maxConcurrentJoins", int64(100))},
		{"no concurrent joins", "spec.rollout.maxConcurrentJoins", set("rollout.maxConcurrentJoins", int64(0))},
		{"too many pods", "spec.kubelet.maxPods", set("kubelet.maxPods", int64(5000))},
		{"reserved memory", "", reserved("memory", "2Gi")},
		{"reserved memory with an invalid quantity", "values must be quantities", reserved("memory", "two")},
		{"reserved unknown resource", "keys must be cpu, memory or ephemeral-storage", reserved("disk", "1Gi")},
		{"eviction by percentage", "", eviction("nodefs.available", "12.5%")},
		{"eviction by quantity", "", eviction("memory.available", "500Mi")},
		{"eviction with an invalid value", "values must be a quantity or a percentage", eviction("memory.available", "much")},
		{"eviction with an unknown signal", "keys must be memory.available", eviction("pid.available", "10%")},
		{"custom network", "", set("network", map[string]any{"provider": "Custom", "custom": map[string]any{"cniConfig": "{}"}})},
		{"custom network with folders", "", set("network", map[string]any{"provider": "Custom", "custom": map[string]any{
			"configDir": `C:\etc\cni\net.d`, "binDir": `C:\Program Files\containerd\cni\bin`, "kubeProxy": "None"}})},
		{"custom network with kube-proxy", "", custom("cniConfig", "{}", "kubeProxy", "Managed", "networkName", "l2")},
		{"kube-proxy without network name", "networkName must be set when", custom("cniConfig", "{}", "kubeProxy", "Managed")},
		{"network name without kube-proxy", "networkName must be set when", custom("cniConfig", "{}", "networkName", "l2")},
		{"kube-proxy with an unknown value", "spec.network.custom.kubeProxy", custom("cniConfig", "{}", "kubeProxy", "External")},
		{"no CNI configuration", "exactly one of network.custom.cniConfig and", custom("binDir", `C:\opt\cni\bin`)},
		{"two CNI configurations", "exactly one of network.custom.cniConfig and", custom("cniConfig", "{}", "configDir", `C:\etc\cni\net.d`)},
		{"CNI configuration in a folder of WICD", "must not be C:\\ProgramData", custom("configDir", `c:\K\cni`)},
		{"CNI configuration in a folder of Windows", "must not be C:\\ProgramData", custom("configDir", `C:\Windows`)},
		{"CNI configuration in a folder that users can write to", "must not be C:\\ProgramData", custom("configDir", `C:\ProgramData`)},
		{"CNI configuration in a subfolder of ProgramData", "", custom("configDir", `C:\ProgramData\Vendor`)},
		{"plugins on another drive", "must be a folder on drive C:", custom("cniConfig", "{}", "binDir", `D:\cni`)},
		{"plugins in a Linux path", "must be a folder on drive C:", custom("cniConfig", "{}", "binDir", `/opt/cni/bin`)},
		{"plugins in a path with ..", "must be a folder on drive C:", custom("cniConfig", "{}", "binDir", `C:\opt\..\k`)},
		{"plugins in a path with a short name", "must be a folder on drive C:", custom("cniConfig", "{}", "binDir", `C:\PROGRA~1`)},
		{"plugins in the root folder", "spec.network.custom.binDir", custom("cniConfig", "{}", "binDir", `C:\`)},
		{"plugins in a path that is too long", "spec.network.custom.binDir", custom("cniConfig", "{}", "binDir", `C:\`+strings.Repeat("a", 198))},
		{"custom network without settings", "network.custom must be set", set("network.provider", "Custom")},
		{"network of OVN-Kubernetes", "", set("network.provider", "OVNHybridOverlay")},
		{"network of OVN-Kubernetes with a port", "", network("OVNHybridOverlay", "ovn", map[string]any{"vxlanPort": int64(9898)})},
		{"ranges of OVN-Kubernetes", "", network("OVNHybridOverlay", "ovn", map[string]any{
			"clusterSubnets": "10.128.0.0/14/23,fd01::/48/64", "hybridClusterSubnets": "10.132.0.0/14"})},
		{"ranges of OVN-Kubernetes with a flag", "spec.network.ovn.clusterSubnets", network("OVNHybridOverlay", "ovn", map[string]any{"clusterSubnets": "10.128.0.0/14 --x"})},
		{"allowed ranges", "", set("network.allowFrom", []any{"10.0.0.0/16", "fd00::/64", "192.0.2.1/32"})},
		{"allowed range with all addresses", "must be a range of addresses", set("network.allowFrom", []any{"10.0.0.0/16", "0.0.0.0/0"})},
		{"allowed address without prefix length", "must be a range of addresses", set("network.allowFrom", []any{"10.0.0.1"})},
		{"too many allowed ranges", "spec.network.allowFrom", set("network.allowFrom", addressRanges(65))},
		{"API server as name and port", "", set("cluster.apiServer", "api.example.com:6443")},
		{"API server as a URL", "", set("cluster.apiServer", "https://[fd00::5]:6443/")},
		{"API server at a loopback address", "must not be a loopback address", set("cluster.apiServer", "https://127.0.0.1:6443")},
		{"API server at localhost", "must not be a loopback address", set("cluster.apiServer", "LOCALHOST:6443")},
		{"API server without a port", "spec.cluster.apiServer", set("cluster.apiServer", "api.example.com")},
		{"API server without TLS", "spec.cluster.apiServer", set("cluster.apiServer", "http://api.example.com:6443")},
		{"API server URL with a user", "spec.cluster.apiServer", set("cluster.apiServer", "https://a@api.example.com:6443")},
		{"cluster DNS", "", set("network.dns", map[string]any{"domain": "cluster.development", "servers": []any{"10.96.0.10", "10.96.0.11"}})},
		{"cluster DNS at a node-local cache", "must be an IPv4 address", set("network.dns.servers", []any{"169.254.25.10"})},
		{"cluster DNS with IPv6", "must be an IPv4 address", set("network.dns.servers", []any{"fd00::a"})},
		{"cluster domain in upper case", "spec.network.dns.domain", set("network.dns.domain", "Cluster.Local")},
		{"VXLAN port out of range", "spec.network.ovn.vxlanPort", network("OVNHybridOverlay", "ovn", map[string]any{"vxlanPort": int64(65536)})},
		{"network of Flannel", "", set("network.provider", "Flannel")},
		{"network of Flannel in another namespace", "", network("Flannel", "flannel", map[string]any{"namespace": "kube-system"})},
		{"Flannel in an invalid namespace", "spec.network.flannel.namespace", network("Flannel", "flannel", map[string]any{"namespace": "kube/system"})},
		{"settings of OVN-Kubernetes with another provider", "network.ovn may be set only", network("Flannel", "ovn", map[string]any{})},
		{"settings of Flannel with another provider", "network.flannel may be set only", network("OVNHybridOverlay", "flannel", map[string]any{})},
		{"settings of a custom network with another provider", "network.custom may be set only", network("Flannel", "custom", map[string]any{"cniConfig": "{}"})},
		{"settings of a custom network without provider", "network.custom may be set only", set("network", map[string]any{"custom": map[string]any{"cniConfig": "{}"}})},
		{"cloud provider", "", set("cloudProvider", "External")},
		{"unknown cloud provider", "spec.cloudProvider", set("cloudProvider", "aws")},
		{"unknown network provider", "spec.network.provider", set("network.provider", "Other")},
		{"logs: all settings", "", set("logs", map[string]any{"size": "50Mi", "age": "36h30m", "count": int64(3)})},
		{"logs: minimum", "", set("logs", map[string]any{"size": "1Mi", "age": "1h", "count": int64(1)})},
		{"logs: maximum", "", set("logs", map[string]any{"size": "10Gi", "age": "99999h59m59s", "count": int64(100)})},
		{"logs: size in bytes", "", set("logs.size", "1048576")},
		{"logs: size in decimal units", "", set("logs.size", "1.5G")},
		size("size 0", "0Mi"),
		size("size below the minimum", "1023Ki"),
		size("size above the maximum", "10241Mi"),
		size("negative size", "-100Mi"),
		size("size with an invalid unit", "100MB"),
		size("empty size", ""),
		{"logs: age of one hour in minutes", "", set("logs.age", "60m")},
		age("age below the minimum", "30m"),
		age("age one second below the minimum", "59m59s"),
		age("age in days", "7d"),
		age("age without unit", "168"),
		age("negative age", "-168h"),
		age("empty age", ""),
		{"logs: count 0", "spec.logs.count: Invalid value: 0: spec.logs.count in body should be greater than or equal to 1", set("logs.count", int64(0))},
		{"logs: count above the maximum", "spec.logs.count in body should be less than or equal to 100", set("logs.count", int64(101))},
		{"logs: count with another type", "spec.logs.count", set("logs.count", "five")},
	})
	try(t, serviceSettings(set))
}

// serviceSettings returns attempts for settings that become part of command lines and configuration files.
func serviceSettings(set func(path string, value any) func(context.Context) error) []attempt {
	verbosity := func(service, level string) func(context.Context) error {
		return set("logs.verbosity", map[string]any{service: level})
	}
	all := []attempt{
		{"taint in lower case", "", set("taint", "os=windows:NoSchedule")},
		{"taint with another effect", "spec.taint", set("taint", "os=windows:NoExecute")},
		{"priority class", "", set("kubelet.priorityClass", "HIGH_PRIORITY_CLASS")},
		{"unknown priority class", "spec.kubelet.priorityClass", set("kubelet.priorityClass", "HIGH")},
		{"shutdown grace period with a part for critical pods", "", set("kubelet", map[string]any{"shutdownGracePeriod": "1m30s", "shutdownGracePeriodCriticalPods": "30s"})},
		{"shutdown grace period that is shorter than that of critical pods", "(30s) is a part of shutdownGracePeriod (10s)", set("kubelet", map[string]any{"shutdownGracePeriod": "10s", "shutdownGracePeriodCriticalPods": "30s"})},
		{"shutdown grace period of critical pods only", "is a part of shutdownGracePeriod (not set)", set("kubelet.shutdownGracePeriodCriticalPods", "30s")},
		{"kubelet: soft eviction", "", set("kubelet", map[string]any{
			"evictionSoft": map[string]any{"memory.available": "1Gi"}, "evictionSoftGracePeriod": map[string]any{"memory.available": "90s"}, "evictionMaxPodGracePeriod": int64(60),
			"evictionMinimumReclaim": map[string]any{"imagefs.available": "5%"}, "kubeReserved": map[string]any{"memory": "1Gi"},
		})},
		{"kubelet: soft eviction without grace period", "must have the same keys", set("kubelet.evictionSoft", map[string]any{"memory.available": "1Gi"})},
		{"kubelet: soft eviction with a grace period that is too long", "from 1s to 24h", set("kubelet", map[string]any{
			"evictionSoft": map[string]any{"memory.available": "1Gi"}, "evictionSoftGracePeriod": map[string]any{"memory.available": "25h"},
		})},
		{"kubelet: images and logs", "", set("kubelet", map[string]any{
			"imageGCHighThresholdPercent": int64(75), "imageGCLowThresholdPercent": int64(70), "maxParallelImagePulls": int64(4),
			"containerLogMaxSize": "20Mi", "containerLogMaxFiles": int64(3),
		})},
		{"kubelet: low threshold above the high threshold", "must be less than imageGCHighThresholdPercent", set("kubelet.imageGCLowThresholdPercent", int64(90))},
		{"kubelet: too few log files", "spec.kubelet.containerLogMaxFiles", set("kubelet.containerLogMaxFiles", int64(1))},
		{"kubelet: log size below the minimum", "from 1Mi to 10Gi", set("kubelet.containerLogMaxSize", "1Ki")},
		{"kubelet: reserved pods", "keys must be cpu, memory or ephemeral-storage", set("kubelet.kubeReserved", map[string]any{"pods": "1"})},
		{"shutdown grace period that is too long", "from 1s to 1h", set("kubelet.shutdownGracePeriod", "2h")},
		{"logs: verbosity of a service", "", verbosity("containerd", "Debug")},
		{"logs: verbosity of an unknown service", "keys must be containerd, kubelet, kube-proxy", verbosity("sshd", "Debug")},
		{"logs: verbosity as a number", "spec.logs.verbosity", verbosity("kubelet", "4")},
	}
	digest := "@sha256:" + strings.Repeat("a1", 32)
	for _, image := range []string{
		desired.DefaultSandboxImage, "registry.example.com:5000/pause:1", "mirror:5000/a/b-c/d__e.f:1_2.3", "localhost/pause" + digest, "10.0.0.1/pause:1",
		"pause", "pause:3.9", "library/pause:3.9", "mcr.microsoft.com/pause", "mcr.microsoft.com/pause:1" + digest, "mcr.microsoft.com/Pause:1",
		"https://mcr.microsoft.com/pause:1", "mcr.microsoft.com/pause:1' x='", " mcr.microsoft.com/pause:1", "mcr.microsoft.com/pause:1\n",
		"mcr.microsoft.com//pause:1", "mcr.microsoft.com/pause@sha256:a1", "mcrXmicrosoft/pause:1",
	} {
		want := ""
		if desired.CheckImage(image) != nil {
			want = "sandboxImage must name an image with its registry and a tag or a digest"
		}
		all = append(all, attempt{fmt.Sprintf("sandbox image %q", image), want, set("runtime.sandboxImage", image)})
	}
	return all
}

// addressRanges returns n different ranges.
func addressRanges(n int) (all []any) {
	for i := range n {
		all = append(all, fmt.Sprintf("10.0.%d.0/24", i))
	}
	return all
}
