package desired

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// The fields of a CNI configuration that each node inserts itself.
const (
	podCIDRField = "{{.PodCIDR}}"
	nodeIPField  = "{{.NodeIP}}"
)

// Pod is what a user's CNI configuration template can use.
type Pod struct {
	// PodCIDR is the node's range of pod addresses, ServiceCIDR the cluster's first range of Services, ClusterDNS the
	// first address of its DNS, NodeIP the node's own address.
	PodCIDR, ServiceCIDR, ClusterDNS, NodeIP string
	// ServiceCIDRs are all ranges of Services.
	ServiceCIDRs []string
}

// CNIConfigs returns the names that the configuration of the pod network can have. containerd reads the first as that of one plugin and the
// second as a list of plugins (loadFromConfDir in opts.go of go-cni), and uses only the first while both exist.
func CNIConfigs() []string { return []string{cniConfig, cniList} }

// IsCNIConfig reports whether a file is the configuration of the pod network.
func IsCNIConfig(path string) bool { return slices.Contains(CNIConfigs(), path) }

// ErrSettings is the class of errors about settings that nodes cannot use.
var ErrSettings = errors.New("settings cannot be used")

// Fill inserts the values of a node and requires that the result is one CNI configuration.
func (c CNI) Fill(podCIDR, nodeIP string) (string, error) {
	text, err := insert(c.Content, map[string]string{podCIDRField: podCIDR, nodeIPField: nodeIP})
	if err != nil {
		return "", err
	}
	var conf struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal([]byte(text), &conf); err != nil {
		return "", fmt.Errorf("the result is not a JSON object: %w", err)
	}
	if conf.Name == "" || conf.Type == "" {
		return "", errors.New("the result has no name or no type; a single CNI configuration with both is required")
	}
	return text, nil
}

// insertable matches the fields that a node inserts in its files.
var insertable = regexp.MustCompile(`{{\.[A-Za-z]*}}`)

// insert replaces fields, such as {{.PodCIDR}}, with their values, and requires that the result is JSON. Nodes do not execute templates:
// text/template finds methods by name, so the linker would keep all exported methods of WICD's libraries.
func insert(content string, values map[string]string) (string, error) {
	unknown := ""
	text := insertable.ReplaceAllStringFunc(content, func(field string) string {
		value, ok := values[field]
		if !ok {
			unknown = field
		}
		return value
	})
	if unknown != "" {
		return "", fmt.Errorf("no node has a value for %s", unknown)
	}
	if !json.Valid([]byte(text)) {
		return "", errors.New("the result is not JSON")
	}
	return text, nil
}

// execute executes the user's template, except for the fields that each node inserts. A template that does more with those fields than to insert
// them is refused.
func execute(text string, p Pod) (string, error) {
	t, err := template.New("cniConfig").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("parsing the template: %w", err)
	}
	executed := func(podCIDR, nodeIP string) (string, error) {
		p.PodCIDR, p.NodeIP = podCIDR, nodeIP
		var out strings.Builder
		if err := t.Execute(&out, p); err != nil {
			return "", fmt.Errorf("executing the template: %w", err)
		}
		return out.String(), nil
	}
	content, err := executed(podCIDRField, nodeIPField)
	if err != nil {
		return "", err
	}
	for _, sample := range [][2]string{{"10.0.0.0/24", "192.0.2.1"}, {"172.16.128.0/20", "198.51.100.22"}} {
		want, err := executed(sample[0], sample[1])
		if err != nil {
			return "", err
		}
		if got := strings.NewReplacer(podCIDRField, sample[0], nodeIPField, sample[1]).Replace(content); got != want {
			return "", errors.New(".PodCIDR and .NodeIP can only be inserted: each node does that, so the template cannot compare, cut or format them")
		}
	}
	return content, nil
}
