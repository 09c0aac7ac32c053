package monitoring

// Rule is a Prometheus recording rule or alert.
type Rule struct {
	Record      string            `json:"record,omitempty"`
	Alert       string            `json:"alert,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Group is a group of rules, which are evaluated in order.
type Group struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
}

// Metrics of windows_exporter whose names differ between versions: those of 0.31, which this operator installs, come first, then those of 0.27,
// which hosts have until they are upgraded. docs/monitoring.md has the list.
const (
	of          = `{job="windows-exporter"}`
	memoryTotal = `(windows_memory_physical_total_bytes` + of + ` or windows_os_visible_memory_bytes` + of + ` or windows_cs_physical_memory_bytes` + of + `)`
	available   = `windows_memory_available_bytes` + of
	bootTime    = `(windows_system_boot_time_timestamp` + of + ` or windows_system_boot_time_timestamp_seconds` + of + ` or windows_system_system_up_time` + of + `)`
	processors  = `(windows_cpu_logical_processor` + of + ` or windows_cs_logical_processors` + of + `)`
	idle        = `windows_cpu_time_total{job="windows-exporter",mode="idle"}`
	busy        = `windows_cpu_time_total{job="windows-exporter",mode!="idle"}`
	// disks selects volumes with a drive letter or a folder, and excludes others, such as the boot loader's partition.
	disks = `{job="windows-exporter",volume!~"HarddiskVolume.+"}`
)

// RecordingRules returns all recording rules.
func RecordingRules() []Group {
	return []Group{consoleRules(), mixinNodeRules(), mixinPodRules()}
}

// consoleRules have the names that the OpenShift console and kube-prometheus' rules for all nodes use for node metrics
// (frontend/packages/console-app and console-shared of github.com/openshift/console). Rates of node_network metrics are missing: the rules of
// kube-prometheus and of OpenShift compute them for all nodes from the counters here.
func consoleRules() Group {
	counter := func(direction, metric string) Rule {
		return Rule{Record: "node_network_" + direction + "_bytes_total", Expr: `label_replace(max by (instance, node, nic) (` + metric + of + `), "device", "$1", "nic", "(.*)")`}
	}
	filesystem := func(name, metric string) Rule {
		return Rule{
			Record: name, Labels: map[string]string{"fstype": "ntfs"},
			Expr: `label_replace(label_replace(max by (instance, node, volume) (` + metric + disks + `), "mountpoint", "$1", "volume", "(.*)"), "device", "$1", "volume", "(.*)")`,
		}
	}
	gauge := func(name, expr string) Rule {
		return Rule{Record: name, Expr: `max by (instance, node) (` + expr + `)`}
	}
	return Group{Name: "windows.rules", Rules: []Rule{
		{Record: "instance:node_cpu_utilisation:rate1m", Expr: `1 - avg by (instance) (rate(` + idle + `[1m]))`},
		{Record: "instance:node_cpu:rate:sum", Expr: `sum by (instance) (rate(` + busy + `[3m]))`},
		{Record: "instance:node_num_cpu:sum", Expr: `count by (instance) (` + idle + `) or max by (instance) ` + processors},
		gauge("node_memory_MemTotal_bytes", memoryTotal),
		gauge("node_memory_MemAvailable_bytes", available),
		{Record: "instance:node_memory_utilisation:ratio", Expr: `1 - max by (instance) (` + available + `) / max by (instance) ` + memoryTotal},
		filesystem("node_filesystem_size_bytes", "windows_logical_disk_size_bytes"),
		filesystem("node_filesystem_avail_bytes", "windows_logical_disk_free_bytes"),
		filesystem("node_filesystem_free_bytes", "windows_logical_disk_free_bytes"),
		counter("receive", "windows_net_bytes_received_total"),
		counter("transmit", "windows_net_bytes_sent_total"),
		gauge("node_boot_time_seconds", bootTime),
		{Record: "node_cpu_info", Expr: `max by (instance, node, name, description, architecture, family) (windows_cpu_info` + of + `)`},
		podNetwork("pod_interface_network:container_network_receive_bytes:irate5m", "windows_container_network_receive_bytes_total"),
		podNetwork("pod_interface_network:container_network_transmit_bytes_total:irate5m", "windows_container_network_transmit_bytes_total"),
	}}
}

// podNetwork takes the maximum over a pod's containers: the Host Network Service counts the shared endpoint once for each container.
func podNetwork(name, metric string) Rule {
	return Rule{Record: name, Expr: `max by (namespace, pod, interface) (irate(` + metric + `{job="windows-exporter",container_id!=""}[5m]) * on (container_id) group_left (namespace, pod) ` +
		`max by (container_id, namespace, pod) (kube_pod_container_info{container_id!=""}))`}
}

// mixinNodeRules have the names of kubernetes-mixin (rules/windows.libsonnet of github.com/kubernetes-monitoring/kubernetes-mixin, group
// windows.node.rules), which Grafana's dashboards for Windows nodes use. The mixin's own rules work with some versions of windows_exporter only.
func mixinNodeRules() Group {
	const rate = `irate(windows_logical_disk_read_seconds_total` + of + `[1m]) + irate(windows_logical_disk_write_seconds_total` + of + `[1m])`
	const net = `irate(windows_net_bytes_total` + of + `[1m])`
	const lost = `irate(windows_net_packets_received_discarded_total` + of + `[1m]) + irate(windows_net_packets_outbound_discarded_total` + of + `[1m])`
	// both returns two rules: for the whole cluster and for each node.
	both := func(name, aggregate, expr string) []Rule {
		return []Rule{
			{Record: ":windows_node_" + name, Expr: aggregate + ` by (cluster) (` + expr + `)`},
			{Record: "node:windows_node_" + name, Expr: aggregate + ` by (cluster, instance) (` + expr + `)`},
		}
	}
	rules := []Rule{
		{Record: "node:windows_node:sum", Expr: `count by (cluster) ` + bootTime},
		{Record: "node:windows_node_num_cpu:sum", Expr: `count by (cluster, instance) (sum by (cluster, instance, core) (windows_cpu_time_total` + of + `))`},
		{Record: ":windows_node_cpu_utilisation:avg1m", Expr: `1 - avg by (cluster) (rate(` + idle + `[1m]))`},
		{Record: "node:windows_node_cpu_utilisation:avg1m", Expr: `1 - avg by (cluster, instance) (rate(` + idle + `[1m]))`},
		{Record: ":windows_node_memory_utilisation:", Expr: `1 - sum by (cluster) (` + available + `) / sum by (cluster) ` + memoryTotal},
		{Record: ":windows_node_memory_MemFreeCached_bytes:sum", Expr: `sum by (cluster) (` + available + ` + windows_memory_cache_bytes` + of + `)`},
		{Record: "node:windows_node_memory_totalCached_bytes:sum", Expr: `windows_memory_cache_bytes` + of + ` + windows_memory_modified_page_list_bytes` + of +
			` + windows_memory_standby_cache_core_bytes` + of + ` + windows_memory_standby_cache_normal_priority_bytes` + of + ` + windows_memory_standby_cache_reserve_bytes` + of},
		{Record: ":windows_node_memory_MemTotal_bytes:sum", Expr: `sum by (cluster) ` + memoryTotal},
		{Record: "node:windows_node_memory_bytes_available:sum", Expr: `sum by (cluster, instance) (` + available + `)`},
		{Record: "node:windows_node_memory_bytes_total:sum", Expr: `sum by (cluster, instance) ` + memoryTotal},
		{Record: "node:windows_node_memory_utilisation:ratio", Expr: `(node:windows_node_memory_bytes_total:sum - node:windows_node_memory_bytes_available:sum)` +
			` / scalar(sum(node:windows_node_memory_bytes_total:sum))`},
		{Record: "node:windows_node_memory_utilisation:", Expr: `1 - node:windows_node_memory_bytes_available:sum / node:windows_node_memory_bytes_total:sum`},
		{Record: "node:windows_node_memory_swap_io_pages:irate", Expr: `irate(windows_memory_swap_page_operations_total` + of + `[5m])`},
	}
	rules = append(rules, both("disk_utilisation:avg_irate", "avg", rate)...)
	rules = append(rules, both("net_utilisation:sum_irate", "sum", net)...)
	rules = append(rules, both("net_saturation:sum_irate", "sum", lost)...)
	const size, free = `windows_logical_disk_size_bytes` + of, `windows_logical_disk_free_bytes` + of
	rules = append(rules,
		Rule{Record: "node:windows_node_filesystem_usage:", Expr: `max by (cluster, instance, volume) ((` + size + ` - ` + free + `) / ` + size + `)`},
		Rule{Record: "node:windows_node_filesystem_avail:", Expr: `max by (cluster, instance, volume) (` + free + ` / ` + size + `)`})
	return Group{Name: "windows.node.rules", Rules: rules}
}

// mixinPodRules are kubernetes-mixin's group windows.pod.rules. They need kube-state-metrics, which maps containers to pods.
func mixinPodRules() Group {
	const info = ` * on (container_id) group_left (container, pod, namespace) max by (container, container_id, pod, namespace) (kube_pod_container_info{container_id!=""})`
	ofPods := func(name, metric string) Rule {
		return Rule{Record: name, Expr: metric + `{job="windows-exporter",container_id!=""}` + info}
	}
	resource := func(name, metric, resource string) Rule {
		const key = `(cluster, namespace, pod, container)`
		return Rule{Record: "kube_pod_windows_container_resource_" + name, Expr: `max by ` + key + ` (` + metric + `{resource="` + resource + `"}) * on ` + key +
			` max by ` + key + ` (windows_pod_container_available)`}
	}
	return Group{Name: "windows.pod.rules", Rules: []Rule{
		ofPods("windows_pod_container_available", "windows_container_available"),
		ofPods("windows_container_total_runtime", "windows_container_cpu_usage_seconds_total"),
		ofPods("windows_container_memory_usage", "windows_container_memory_usage_commit_bytes"),
		ofPods("windows_container_private_working_set_usage", "windows_container_memory_usage_private_working_set_bytes"),
		ofPods("windows_container_network_received_bytes_total", "windows_container_network_receive_bytes_total"),
		ofPods("windows_container_network_transmitted_bytes_total", "windows_container_network_transmit_bytes_total"),
		resource("memory_request", "kube_pod_container_resource_requests", "memory"),
		resource("memory_limit", "kube_pod_container_resource_limits", "memory"),
		resource("cpu_cores_request", "kube_pod_container_resource_requests", "cpu"),
		resource("cpu_cores_limit", "kube_pod_container_resource_limits", "cpu"),
		{Record: "namespace_pod_container:windows_container_cpu_usage_seconds_total:sum_rate", Expr: `sum by (cluster, namespace, pod, container) (rate(windows_container_total_runtime[5m]))`},
	}}
}
