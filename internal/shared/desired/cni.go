package desired

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"text/template"
)

// Pod is what a CNI configuration template can use.
type Pod struct {
	// PodCIDR is the node's range of pod addresses, ServiceCIDR the cluster's first range of Services, ClusterDNS the
	// first address of its DNS, NodeIP the node's own address.
	PodCIDR, ServiceCIDR, ClusterDNS, NodeIP string
	// ServiceCIDRs are all ranges of Services.
	ServiceCIDRs []string
}

// IsCNIConfig reports whether a file is the configuration of the pod network.
func IsCNIConfig(path string) bool { return path == cniConfig }

// ErrSettings is the class of errors about settings that nodes cannot use.
var ErrSettings = errors.New("settings cannot be used")

// Fill renders the configuration for a node and requires that the result is JSON.
func (c CNI) Fill(podCIDR, nodeIP string) (string, error) {
	t, err := template.New("cniConfig").Option("missingkey=error").Parse(c.Template)
	if err != nil {
		return "", fmt.Errorf("parsing the template: %w", err)
	}
	var out bytes.Buffer
	pod := Pod{
		PodCIDR: podCIDR, ServiceCIDR: c.ServiceCIDR, ClusterDNS: c.ClusterDNS, NodeIP: nodeIP,
		ServiceCIDRs: append([]string{c.ServiceCIDR}, c.MoreServiceCIDRs...),
	}
	if err := t.Execute(&out, pod); err != nil {
		return "", fmt.Errorf("executing the template: %w", err)
	}
	var conf struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal(out.Bytes(), &conf); err != nil {
		return "", fmt.Errorf("the template's output is not JSON: %w", err)
	}
	if conf.Name == "" || conf.Type == "" {
		return "", errors.New("the template's output has no name or no type; a single CNI configuration with both is required")
	}
	return out.String(), nil
}
