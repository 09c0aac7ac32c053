package monitoring

import "github.com/windows-machine-config/wmco/api"

// Dashboards returns all dashboards.
func Dashboards() []Dashboard {
	return []Dashboard{fleetBoard(), hostBoard(), podsBoard()}
}

func fleetBoard() Dashboard {
	return board("windows-fleet", "Windows / Fleet", "All Windows hosts: readiness, waiting actions, problems, and the rollout.", nil,
		number("Hosts", "short", "WindowsInstances.", `sum(`+api.MetricInstances+`{condition="Ready"})`),
		number("Ready", "short", "WindowsInstances that are Ready nodes.", `sum(`+api.MetricInstances+`{condition="Ready",status="True"}) or vector(0)`),
		number("Nodes without WindowsInstance", "short", "Windows nodes that the operator does not manage.", `sum(`+api.MetricOrphanNodes+`)`),
		table("Problems", "Hosts with problems, and the reason. For details, see the message of the condition in column condition.",
			`max by (windowsinstance, node, condition, reason) (`+api.MetricInstanceProblem+`)`),
		table("Failed actions", "Actions that are not retried.", `max by (windowsinstance, node, action) (`+api.MetricActionFailed+`)`),
		table("Alerts", "Firing alerts about Windows.", `sum by (alertname, severity, windowsinstance, node, instance) (ALERTS{alertname=~"Windows.+",alertstate="firing"})`),
		graph("Hosts by reason", "short", "Why hosts are not Ready.", expression{`sum by (reason) (` + api.MetricInstances + `{condition="Ready"})`, "{{reason}}"}),
		graph("Waiting actions", "short", "Next actions, and what they wait for.", expression{`sum by (action, reason) (` + api.MetricRolloutWaiting + `)`, "{{action}}: {{reason}}"}),
		graph("Versions", "short", "Nodes by the version that they run.", expression{`count by (version) (` + api.MetricNodeBuildInfo + `)`, "{{version}}"}),
		graph("Join attempts", "short", "Completed join attempts within five minutes.", expression{`sum by (result) (increase(` + api.MetricJoins + `[5m]))`, "{{result}}"}),
		graph("Duration of joins", "s", "Average duration of each step.",
			expression{`sum by (step) (rate(` + api.MetricJoinStepSeconds + `_sum[15m])) / sum by (step) (rate(` + api.MetricJoinStepSeconds + `_count[15m]))`, "{{step}}"}),
		graph("Duration of actions", "s", "Average duration from drain to verification.",
			expression{`sum by (action, result) (rate(` + api.MetricActionSeconds + `_sum[1h])) / sum by (action, result) (rate(` + api.MetricActionSeconds + `_count[1h]))`, "{{action}} {{result}}"}),
		graph("Settings lag", "s", "How long nodes have not applied newer settings.", expression{`max by (node) (` + api.MetricSettingsLag + `)`, "{{node}}"}),
		graph("SSH connections", "short", "Attempts within five minutes by result.", expression{`sum by (result) (increase(` + api.MetricSSHConnections + `[5m]))`, "{{result}}"}),
		graph("Certificate requests", "short", "Decisions within five minutes.", expression{`sum by (result, rule) (increase(` + api.MetricCertificateDecisions + `[5m]))`, "{{result}} {{rule}}"}),
		graph("CPU by node", "percentunit", "", expression{`instance:node_cpu_utilisation:rate1m and on (instance) up{job="windows-exporter"}`, "{{instance}}"}),
		graph("Memory by node", "percentunit", "", expression{`node:windows_node_memory_utilisation:`, "{{instance}}"}),
		graph("Disk by node", "percentunit", "", expression{`node:windows_node_filesystem_usage:{volume="C:"}`, "{{instance}}"}),
	)
}

func hostBoard() Dashboard {
	const on, node = `{job="windows-exporter",instance="$node"}`, `instance="$node"`
	return board("windows-host", "Windows / Host", "One Windows node: resources, services, network of pods, certificates.",
		[]variable{choice("node", "Node", `label_values(up{job="windows-exporter"}, instance)`)},
		number("Version", "short", "The label is the version that the node runs.", api.MetricNodeBuildInfo+`{`+node+`}`),
		number("Uptime", "s", "", `time() - node_boot_time_seconds{`+node+`}`),
		number("Restart pending", "short", "1 while Windows waits for a restart.", `max(`+api.MetricNodeRebootPending+`{`+node+`})`),
		graph("CPU", "percentunit", "", expression{`instance:node_cpu_utilisation:rate1m{` + node + `}`, "used"}),
		graph("Memory", "bytes", "Windows has no OOM killer: when the commit limit is reached, processes fail to allocate.",
			expression{`node_memory_MemTotal_bytes{` + node + `} - node_memory_MemAvailable_bytes{` + node + `}`, "used"}, expression{`node_memory_MemTotal_bytes{` + node + `}`, "total"}),
		graph("Disks", "bytes", "", expression{`node_filesystem_avail_bytes{` + node + `}`, "{{volume}} free"}, expression{`node_filesystem_size_bytes{` + node + `}`, "{{volume}} size"}),
		graph("Network", "Bps", "", expression{`sum by (nic) (rate(windows_net_bytes_received_total` + on + `[5m]))`, "{{nic}} received"},
			expression{`- sum by (nic) (rate(windows_net_bytes_sent_total` + on + `[5m]))`, "{{nic}} sent"}),
		graph("Discarded packets", "pps", "", expression{`node:windows_node_net_saturation:sum_irate{` + node + `}`, "discarded"}),
		graph("Disk time", "percentunit", "Share of time that disks are busy.", expression{`node:windows_node_disk_utilisation:avg_irate{` + node + `}`, "busy"}),
		graph("Service restarts", "short", "Number of times services exited or were repaired within 15 minutes.",
			expression{`increase(` + api.MetricNodeServiceRestarts + `{` + node + `}[15m])`, "{{service}}"}),
		graph("Pod network", "short", "1 while it is unavailable; repairs since the daemon started.",
			expression{api.MetricNodeNetworkUnavailable + `{` + node + `}`, "unavailable"}, expression{api.MetricNodeNetworkRepairs + `{` + node + `}`, "repairs"}),
		graph("Image registry", "short", "Requests to the mirrors within five minutes by result.", expression{`increase(` + api.MetricNodeRegistryRequests + `{` + node + `}[5m])`, "{{result}}"}),
		table("Services", "1 while a service runs.", `max by (name, state) (windows_service_state{instance="$node",name=~"kubelet|containerd|kube-proxy|hybrid-overlay-node|flanneld|windows-instance-config-daemon|windows_exporter|csi-proxy",state="running"})`),
		table("Certificates", "Seconds until certificates that the node renews itself expire.",
			api.MetricNodeCertificate+`{`+node+`} - time() and on (file, serial) `+api.MetricNodeCertificateLifetime+`{`+node+`}`),
		number("Age of the settings", "s", "Time since the node applied its settings.", `time() - `+api.MetricNodeSettingsApplied+`{`+node+`}`),
	)
}

func podsBoard() Dashboard {
	const pods = `{job="kubelet",metrics_path="/metrics/cadvisor",node=~"$node",namespace=~"$namespace",container="",pod!=""}`
	const containers = `{job="kubelet",metrics_path="/metrics/cadvisor",node=~"$node",namespace=~"$namespace",container!="",pod!=""}`
	all := func(v variable) variable {
		v.IncludeAll, v.Multi = true, true
		return v
	}
	windows := `up{job="windows-exporter"}`
	return board("windows-pods", "Windows / Pods", "Pods on Windows nodes.",
		[]variable{
			all(choice("node", "Node", `label_values(up{job="windows-exporter"}, instance)`)),
			all(choice("namespace", "Namespace", `label_values(container_memory_working_set_bytes{job="kubelet",container="",pod!=""}, namespace)`)),
		},
		number("Windows nodes", "short", "Nodes that report metrics.", `count(`+windows+`)`),
		number("Pods", "short", "", `count(container_memory_working_set_bytes`+pods+` and on (node) `+windows+`)`),
		number("Memory of pods", "bytes", "", `sum(container_memory_working_set_bytes`+pods+` and on (node) `+windows+`)`),
		graph("CPU by pod", "short", "Cores.", expression{`sum by (namespace, pod) (rate(container_cpu_usage_seconds_total` + pods + `[5m]) and on (node) ` + windows + `)`, "{{namespace}}/{{pod}}"}),
		graph("Memory by pod", "bytes", "Working set.", expression{`sum by (namespace, pod) (container_memory_working_set_bytes` + pods + ` and on (node) ` + windows + `)`, "{{namespace}}/{{pod}}"}),
		graph("Memory by container", "bytes", "Working set.", expression{`sum by (namespace, pod, container) (container_memory_working_set_bytes` + containers + ` and on (node) ` + windows + `)`, "{{namespace}}/{{pod}}/{{container}}"}),
		graph("Received", "Bps", "Needs kube-state-metrics.", expression{`sum by (namespace, pod) (pod_interface_network:container_network_receive_bytes:irate5m{namespace=~"$namespace"})`, "{{namespace}}/{{pod}}"}),
		graph("Sent", "Bps", "Needs kube-state-metrics.", expression{`sum by (namespace, pod) (pod_interface_network:container_network_transmit_bytes_total:irate5m{namespace=~"$namespace"})`, "{{namespace}}/{{pod}}"}),
		graph("Memory limit used", "percentunit", "Needs kube-state-metrics. Containers without a limit are missing.",
			expression{`sum by (namespace, pod, container) (windows_container_private_working_set_usage{namespace=~"$namespace"}) / sum by (namespace, pod, container) (kube_pod_windows_container_resource_memory_limit{namespace=~"$namespace"})`, "{{namespace}}/{{pod}}/{{container}}"}),
	)
}
