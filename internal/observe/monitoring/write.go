package monitoring

import (
	"bytes"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Names of rule files for Prometheus.
const (
	RulesFile  = "windows.rules.yaml"
	AlertsFile = "windows.alerts.yaml"
)

// write encodes objects as YAML, one document each.
func write(objects ...object) ([]byte, error) {
	var all bytes.Buffer
	for i, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("writing YAML: %w", err)
		}
		if i > 0 {
			all.WriteString("---\n")
		}
		all.Write(text)
	}
	return all.Bytes(), nil
}
