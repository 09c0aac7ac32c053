package monitoring

import (
	"bytes"
	"encoding/json"

	"github.com/windows-machine-config/wmco/api"
)

// flavor holds the differences between OpenShift's Prometheus and others.
type flavor struct {
	// node and operator are the TLS settings for nodes and for the operator.
	node, operator object
}

const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// prometheusOperator is for kube-prometheus and similar installations. Certificates are in objects of the operator's namespace.
func prometheusOperator() flavor {
	root := object{"configMap": object{"name": "kube-root-ca.crt", "key": "ca.crt"}}
	client := func(key string) object { return object{"name": ClientCertificate, "key": key} }
	return flavor{
		node:     object{"ca": root, "cert": object{"secret": client("tls.crt")}, "keySecret": client("tls.key")},
		operator: object{"ca": object{"secret": object{"name": MetricsCertificate, "key": "ca.crt"}}, "serverName": operatorServerName(api.DefaultNamespace)},
	}
}

// openShift is for OpenShift's own Prometheus, which has certificates for all targets in these folders.
func openShift() flavor {
	const kubelets, client = "/etc/prometheus/configmaps/kubelet-serving-ca-bundle/ca-bundle.crt", "/etc/prometheus/secrets/metrics-client-certs/"
	return flavor{
		node:     object{"caFile": kubelets, "certFile": client + "tls.crt", "keyFile": client + "tls.key"},
		operator: object{"caFile": "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt", "serverName": operatorServerName(api.DefaultNamespace)},
	}
}

func metadata(name string) object {
	return object{"name": name, "namespace": api.DefaultNamespace, "labels": object{"app.kubernetes.io/name": "windows-machine-config-operator"}}
}

// monitors returns the ServiceMonitors. Nodes get no token of Prometheus, because an attacker may control them. Service kube-system/kubelet is
// maintained by the Prometheus operator. The cluster's Prometheus object defines how targets are discovered, by Endpoints or EndpointSlices: the
// Prometheus operator writes them accordingly, and before 0.86 a ServiceMonitor cannot choose.
func (f flavor) monitors() []object {
	ofNodes := func(name string, endpoint object) object {
		return object{
			"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": metadata(name),
			"spec": object{
				"sampleLimit": maxSamples, "bodySizeLimit": maxBody,
				"attachMetadata": object{"node": true}, "endpoints": []any{endpoint},
				"namespaceSelector": object{"matchNames": []any{"kube-system"}}, "selector": object{"matchLabels": object{"k8s-app": "kubelet"}},
			},
		}
	}
	return []object{
		{
			"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": metadata(JobOperator),
			"spec": object{
				"endpoints": []any{object{
					"port": "https", "scheme": "https", "interval": "30s", "followRedirects": false, "bearerTokenFile": tokenFile, "tlsConfig": f.operator,
					"relabelings": inMonitor(operatorTargets()[2:]), // the Prometheus operator selects Service and port itself
				}},
				"selector": object{"matchLabels": object{"app.kubernetes.io/name": "windows-machine-config-operator"}},
			},
		},
		ofNodes(JobExporter, object{
			"port": "https-metrics", "scheme": "https", "interval": "30s", "followRedirects": false, "tlsConfig": f.node,
			"relabelings": inMonitor(exporterTargets(inMonitorNodes())), "metricRelabelings": inMonitor(exporterSeries()),
		}),
		ofNodes("windows-kubelet-resource", object{
			"port": "https-metrics", "scheme": "https", "path": resourcePath, "interval": "30s", "followRedirects": false, "honorTimestamps": false,
			"tlsConfig": f.node, "relabelings": inMonitor(kubeletTargets(inMonitorNodes())), "metricRelabelings": inMonitor(kubeletSeries()),
		}),
	}
}

// prometheusRule returns a PrometheusRule with groups of rules.
func prometheusRule(name string, groups []Group) object {
	return object{"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": metadata(name), "spec": object{"groups": groups}}
}

const header = "# Made by make generate from internal/monitoring.\n"

// Files returns the generated files of deploy/monitoring, by their paths in it.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(name string, objects ...object) error {
		text, err := write(objects...)
		files[name] = append([]byte(header), text...)
		return err
	}
	config, err := Prometheus(DefaultPrometheus())
	if err != nil {
		return nil, err
	}
	files["prometheus/prometheus.yaml"] = append([]byte(header), config...)
	for _, err := range []error{
		add("servicemonitors.yaml", prometheusOperator().monitors()...),
		add("openshift/servicemonitors.yaml", openShift().monitors()...),
		// The first has the name of the original operator's object, which it replaces.
		add("rules/rules.yaml", prometheusRule("windows-prometheus-k8s-rules", RecordingRules()), prometheusRule("windows-machine-config-operator", Alerts())),
	} {
		if err != nil {
			return nil, err
		}
	}
	rules, err := RuleFiles()
	if err != nil {
		return nil, err
	}
	for name, content := range rules {
		files["prometheus/"+name] = append([]byte(header), content...)
	}
	for _, d := range Dashboards() {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(d); err != nil {
			return nil, err
		}
		files["dashboards/"+d.UID+".json"] = text.Bytes()
	}
	return files, nil
}

// RuleFiles returns all rules as rule files of Prometheus, by name.
func RuleFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, groups := range map[string][]Group{RulesFile: RecordingRules(), AlertsFile: Alerts()} {
		text, err := write(object{"groups": groups})
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	return files, nil
}
