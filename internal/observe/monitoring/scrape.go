package monitoring

import (
	"github.com/windows-machine-config/wmco/api"
)

// Values of label job.
const (
	// JobOperator is the operator.
	JobOperator = "windows-machine-config-operator"
	// JobExporter is windows_exporter on each node. The original operator uses the same name.
	JobExporter = "windows-exporter"
	// JobKubelet is the kubelet of each node. Kubernetes' rules and dashboards use this name.
	JobKubelet = "kubelet"
)

const (
	// MetricsService is the Service of the operator's metrics; MetricsCertificate is the Secret with its serving certificate.
	MetricsService     = "windows-machine-config-operator-metrics"
	MetricsCertificate = "windows-machine-config-operator-metrics-cert"
	// ClientCertificate is the Secret with the certificate by which Prometheus authenticates to nodes (decision 8).
	ClientCertificate = "windows-metrics-client"
	exporterPort      = "9182"
	// resourcePath is where the kubelet reports the resource usage of pods. On Windows, /metrics/cadvisor is empty, unlike on Linux.
	resourcePath = "/metrics/resource"
	cadvisorPath = "/metrics/cadvisor"
)

// relabel is a step of Prometheus' relabeling. Without source it sets the target; the default action is replace.
type relabel struct {
	source                             []string
	regex, target, replacement, action string
}

const (
	metaNodeName = "__meta_kubernetes_node_name"
	metaNodeOS   = "__meta_kubernetes_node_label_kubernetes_io_os"
	nodeLabel    = "node"
)

func set(target, value string) relabel { return relabel{target: target, replacement: value} }

func keep(source, regex string) relabel {
	return relabel{source: []string{source}, regex: regex, action: "keep"}
}

func copyOf(source, target string) relabel { return relabel{source: []string{source}, target: target} }

// port replaces the port in the address.
func port(number string) relabel {
	return relabel{source: []string{"__address__"}, regex: `(.+):\d+`, target: "__address__", replacement: "$1:" + number}
}

// inPrometheusNodes sets the node of a target that Prometheus discovered itself, with role node.
func inPrometheusNodes() []relabel { return []relabel{copyOf(metaNodeName, nodeLabel)} }

// inMonitorNodes is for targets that the Prometheus operator configured. It sets label node from whichever discovery role the cluster uses,
// because the meta labels of Endpoints and EndpointSlices differ. The other labels it sets describe Service kubelet, and would displace labels
// with the same names of the series.
func inMonitorNodes() []relabel {
	return []relabel{{regex: "namespace|service|endpoint|pod|container", action: "labeldrop"}}
}

// ofNode keeps Windows nodes and labels series with the node: the OpenShift console joins by instance, Kubernetes' rules by node.
func ofNode(named []relabel, job string) []relabel {
	steps := append([]relabel{keep(metaNodeOS, "windows")}, named...)
	return append(steps, copyOf(nodeLabel, "instance"), set("job", job))
}

// exporterTargets returns windows_exporter's targets, derived from those of the kubelet with another port.
func exporterTargets(named []relabel) []relabel {
	return append(ofNode(named, JobExporter), port(exporterPort))
}

// kubeletTargets change the metrics path label: Kubernetes' rules and dashboards expect pods at metrics_path="/metrics/cadvisor".
func kubeletTargets(named []relabel) []relabel {
	return append(ofNode(named, JobKubelet), set("metrics_path", cadvisorPath))
}

// Limits of what a node, which an attacker may control, may send in one scrape. With 250 pods of three containers each, and 200 certificates, a
// node has about 12,000 series.
const (
	maxSamples = 30000
	maxBody    = "20MB"
)

// exporterSeries drop series of the operator, Prometheus and kubelets: a node must not trigger their alerts.
func exporterSeries() []relabel {
	return []relabel{keep("__name__", "(windows|wicd|go|process|promhttp)_.+")}
}

// kubeletSeries drop the same, and rename the kubelet's pod metrics to those of cAdvisor on Linux: a series without container is a pod. Series
// with a container also get an image, because dashboards count series without an image as pods.
func kubeletSeries() []relabel {
	rename := func(from, to string) relabel {
		return relabel{source: []string{"__name__"}, regex: from, target: "__name__", replacement: to}
	}
	return []relabel{
		keep("__name__", "(container|pod|node|machine|resource|scrape)_.+"),
		rename("pod_cpu_usage_seconds_total", "container_cpu_usage_seconds_total"),
		rename("pod_memory_working_set_bytes", "container_memory_working_set_bytes"),
		{source: []string{"container"}, regex: ".+", target: "image", replacement: "windows"},
	}
}

// operatorTargets select the operator's pods behind its Service.
func operatorTargets() []relabel {
	return []relabel{
		keep("__meta_kubernetes_service_name", MetricsService), keep("__meta_kubernetes_endpointslice_port_name", "https"),
		copyOf("__meta_kubernetes_namespace", "namespace"), copyOf("__meta_kubernetes_pod_name", "pod"),
		copyOf("__meta_kubernetes_pod_name", "instance"), set("job", JobOperator),
	}
}

// operatorServerName returns the name in the serving certificate of the operator's metrics.
func operatorServerName(namespace string) string { return MetricsService + "." + namespace + ".svc" }

// PrometheusOptions are the options of a Prometheus configuration. Paths are as Prometheus sees them.
type PrometheusOptions struct {
	// Namespace of the operator.
	Namespace string
	// Interval between scrapes and evaluations, as in 30s.
	Interval string
	// Token is the file with the token of Prometheus' ServiceAccount, CA the file with the CA of the API server and of kubelets.
	Token, CA string
	// ClientCertificate and ClientKey authenticate Prometheus to nodes.
	ClientCertificate, ClientKey string
	// OperatorCA is the CA of the serving certificate of the operator's metrics.
	OperatorCA string
	// Targets are target files, by the discovery role that they replace, for a Prometheus without Kubernetes service discovery, such as
	// Debian's; otherwise empty.
	Targets map[string]string
	// Rules are the rule files.
	Rules []string
}

// DefaultPrometheus returns the options of the configuration in deploy/monitoring/prometheus.
func DefaultPrometheus() PrometheusOptions {
	const account, windows = "/var/run/secrets/kubernetes.io/serviceaccount/", "/etc/prometheus/windows/"
	return PrometheusOptions{
		Namespace: api.DefaultNamespace, Interval: "30s", Token: account + "token", CA: account + "ca.crt",
		ClientCertificate: windows + "tls.crt", ClientKey: windows + "tls.key", OperatorCA: windows + "operator-ca.crt",
		Rules: []string{windows + RulesFile, windows + AlertsFile},
	}
}

// object is a YAML mapping.
type object = map[string]any

// Prometheus returns a configuration of Prometheus 2.42 or later, as YAML. Nodes get no token of Prometheus: an attacker may control them.
func Prometheus(o PrometheusOptions) ([]byte, error) {
	nodes := object{"ca_file": o.CA, "cert_file": o.ClientCertificate, "key_file": o.ClientKey}
	return write(object{
		"global":     object{"scrape_interval": o.Interval, "evaluation_interval": o.Interval},
		"rule_files": o.Rules,
		"scrape_configs": []any{
			o.discover("endpointslice", object{
				"job_name": JobOperator, "scheme": "https", "follow_redirects": false, "authorization": object{"credentials_file": o.Token},
				"tls_config":      object{"ca_file": o.OperatorCA, "server_name": operatorServerName(o.Namespace)},
				"relabel_configs": inPrometheus(operatorTargets()),
			}),
			o.discover("node", object{
				"job_name": JobExporter, "scheme": "https", "follow_redirects": false, "tls_config": nodes,
				"relabel_configs": inPrometheus(exporterTargets(inPrometheusNodes())), "metric_relabel_configs": inPrometheus(exporterSeries()),
				"sample_limit": maxSamples, "body_size_limit": maxBody,
			}),
			o.discover("node", object{
				"job_name": "windows-kubelet", "scheme": "https", "metrics_path": resourcePath, "follow_redirects": false, "tls_config": nodes,
				"relabel_configs":        inPrometheus(kubeletTargets(inPrometheusNodes())),
				"metric_relabel_configs": inPrometheus(kubeletSeries()), "sample_limit": maxSamples, "body_size_limit": maxBody,
			}),
		},
	})
}

// discover adds the target discovery to a job. Endpoints are discovered in the operator's namespace only.
func (o PrometheusOptions) discover(role string, job object) object {
	if file := o.Targets[role]; file != "" {
		job["file_sd_configs"] = []any{object{"files": []any{file}}}
		return job
	}
	discovery := object{"role": role}
	if role == "endpointslice" {
		discovery["namespaces"] = object{"names": []any{o.Namespace}}
	}
	job["kubernetes_sd_configs"] = []any{discovery}
	return job
}

// inPrometheus renders steps for Prometheus' own configuration, inMonitor for a ServiceMonitor.
func inPrometheus(steps []relabel) []any { return render(steps, "source_labels", "target_label") }
func inMonitor(steps []relabel) []any    { return render(steps, "sourceLabels", "targetLabel") }

func render(steps []relabel, source, target string) []any {
	var all []any
	for _, r := range steps {
		step := object{}
		if len(r.source) > 0 {
			step[source] = r.source
		}
		for field, value := range map[string]string{"regex": r.regex, target: r.target, "replacement": r.replacement, "action": r.action} {
			if value != "" {
				step[field] = value
			}
		}
		all = append(all, step)
	}
	return all
}
