// Package monitoring is what Prometheus and Grafana need for Windows nodes, as users install it: scrape configurations, recording rules, alerts and
// dashboards. The generator of documents and the tests read it here. It is pure.
package monitoring

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"

	"sigs.k8s.io/yaml"
)

//go:embed prometheus dashboards/*.json servicemonitors.yaml openshift/servicemonitors.yaml
var files embed.FS

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
)

// Names of rule files for Prometheus.
const (
	RulesFile  = "windows.rules.yaml"
	AlertsFile = "windows.alerts.yaml"
)

// Rule is a Prometheus recording rule or alert.
type Rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

// Group is a group of rules, which are evaluated in order.
type Group struct {
	Name  string
	Rules []Rule
}

// Dashboard is a Grafana dashboard.
type Dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Type string }
	}
	Panels []Panel
}

// Panel is a panel of a dashboard.
type Panel struct {
	ID          int
	Title, Type string
	Datasource  struct{ Type, UID string }
	Targets     []Target
	FieldConfig struct {
		Defaults struct {
			Unit     string
			Min, Max *float64
		}
	}
}

// Target is an expression of a panel.
type Target struct {
	RefID, Expr string
	// Instant is for tables and single values, which show the current value.
	Instant bool
}

// PrometheusConfig returns the configuration of a Prometheus without the Prometheus operator.
func PrometheusConfig() ([]byte, error) {
	return files.ReadFile("prometheus/prometheus.yaml")
}

// RuleFiles returns all rules as rule files of Prometheus, by name.
func RuleFiles() (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, name := range []string{RulesFile, AlertsFile} {
		text, err := files.ReadFile("prometheus/" + name)
		if err != nil {
			return nil, err
		}
		all[name] = text
	}
	return all, nil
}

// RecordingRules returns all recording rules.
func RecordingRules() ([]Group, error) { return groups(RulesFile) }

// Alerts returns all alerts.
func Alerts() ([]Group, error) { return groups(AlertsFile) }

func groups(file string) ([]Group, error) {
	text, err := files.ReadFile("prometheus/" + file)
	if err != nil {
		return nil, err
	}
	var all struct{ Groups []Group }
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return all.Groups, nil
}

// Dashboards returns all dashboards.
func Dashboards() ([]Dashboard, error) {
	names, err := fs.Glob(files, "dashboards/*.json")
	if err != nil {
		return nil, err
	}
	var all []Dashboard
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var d Dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		all = append(all, d)
	}
	return all, nil
}
