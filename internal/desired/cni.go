package desired

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"text/template"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Pod is what a CNI configuration template can use.
type Pod struct {
	// PodCIDR is the node's range of pod addresses, ServiceCIDR the cluster's range of services, ClusterDNS the
	// address of its DNS service, NodeIP the node's own address.
	PodCIDR, ServiceCIDR, ClusterDNS, NodeIP string
}

// ErrNetwork is the class of errors about the network settings of WindowsConfig.
var ErrNetwork = errors.New("network not configured")

// ErrSettings is the class of errors about the proxy.
var ErrSettings = errors.New("settings cannot be used")

// Fill renders the configuration for a node. The result is checked to be JSON.
func (c CNI) Fill(podCIDR, nodeIP string) (string, error) {
	t, err := template.New("cniConfig").Option("missingkey=error").Parse(c.Template)
	if err != nil {
		return "", fmt.Errorf("parsing the template: %w", err)
	}
	var out bytes.Buffer
	pod := Pod{PodCIDR: podCIDR, ServiceCIDR: c.ServiceCIDR, ClusterDNS: c.ClusterDNS, NodeIP: nodeIP}
	if err := t.Execute(&out, pod); err != nil {
		return "", fmt.Errorf("filling the template: %w", err)
	}
	var conf struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal(out.Bytes(), &conf); err != nil {
		return "", fmt.Errorf("the filled template is not JSON: %w", err)
	}
	if conf.Name == "" || conf.Type == "" {
		return "", errors.New("the filled template has no name or no type; a single CNI configuration with both is needed")
	}
	return out.String(), nil
}

// checkNetwork refuses network settings with which no node could become ready.
func checkNetwork(in Inputs) error {
	const object = `WindowsConfig "cluster": spec.network`
	n := in.Config.Network
	if n.Provider == "" {
		return fmt.Errorf("%w: %s.provider is empty; set it to %s and give spec.network.custom.cniConfig",
			ErrNetwork, object, v1alpha1.NetworkCustom)
	}
	if n.Custom == nil {
		return fmt.Errorf("%w: %s.custom is empty; provider %s needs spec.network.custom.cniConfig", ErrNetwork, object, n.Provider)
	}
	sample := CNI{Template: n.Custom.CNIConfig, ServiceCIDR: in.Cluster.ServiceCIDR, ClusterDNS: in.Cluster.ClusterDNS}
	if _, err := sample.Fill("10.0.0.0/24", "192.0.2.1"); err != nil {
		return fmt.Errorf("%w: %s.custom.cniConfig: %w", ErrNetwork, object, err)
	}
	return nil
}
