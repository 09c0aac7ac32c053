package machines

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

// Groups and kind of the two APIs.
const (
	// MachineAPIGroup is the group of OpenShift's Machine API.
	MachineAPIGroup = "machine.openshift.io"
	// ClusterAPIGroup is the group of Cluster API.
	ClusterAPIGroup = "cluster.x-k8s.io"
	// Kind is the kind in both.
	Kind = "Machine"
)

// pausedAnnotation is on a Cluster API Machine that controllers must ignore. OpenShift sets it on those that mirror a Machine of its own API.
const pausedAnnotation = "cluster.x-k8s.io/paused"

// windowsOS is the value of the label that makes a Machine a Windows node.
const windowsOS = "Windows"

// content has the fields that both APIs share and those of only one; null counts as absent.
type content struct {
	Spec struct {
		ProviderID       string `json:"providerID"`
		AuthoritativeAPI string `json:"authoritativeAPI"` // Machine API
		ProviderSpec     struct {
			Value map[string]any `json:"value"` // in the platform's format, which the API server does not validate
		} `json:"providerSpec"` // Machine API
		ClusterName       string `json:"clusterName"` // Cluster API
		InfrastructureRef struct {
			Kind string `json:"kind"`
		} `json:"infrastructureRef"` // Cluster API
	} `json:"spec"`
	Status struct {
		Phase     string `json:"phase"`
		Addresses []struct {
			Type    string `json:"type"`
			Address string `json:"address"`
		} `json:"addresses"`
	} `json:"status"`
}

// Read converts a Machine of either API. The error names a field that has the wrong type.
func Read(object *unstructured.Unstructured) (Machine, error) {
	labels := object.GetLabels()
	m := Machine{
		Source:    api.SourceMachine,
		Namespace: object.GetNamespace(),
		Name:      object.GetName(),
		Windows:   labels[api.LabelMachineOS] == windowsOS,
		Ignored:   labels[api.LabelIgnore] == "true",
		Deleting:  object.GetDeletionTimestamp() != nil,
	}
	var current content
	text, err := json.Marshal(object.Object)
	if err == nil {
		err = json.Unmarshal(text, &current)
	}
	if err != nil {
		return m, fmt.Errorf("reading Machine %s: %w", ID(m.Namespace, m.Name), err)
	}
	m.Phase, m.ProviderID = current.Status.Phase, current.Spec.ProviderID
	for _, a := range current.Status.Addresses {
		switch a.Type {
		case "InternalIP":
			m.Addresses = append(m.Addresses, a.Address)
		case "Hostname", "InternalDNS":
			m.Names = append(m.Names, strings.ToLower(a.Address))
		case "ExternalIP", "ExternalDNS":
			m.External = append(m.External, strings.ToLower(a.Address))
		}
	}
	if object.GroupVersionKind().Group == ClusterAPIGroup {
		m.Source, m.ClusterName = api.SourceClusterAPI, current.Spec.ClusterName
		m.Platform = platform.OfMachine(current.Spec.InfrastructureRef.Kind)
		_, m.OfOtherAPI = object.GetAnnotations()[pausedAnnotation]
		return m, nil
	}
	kind, _ := current.Spec.ProviderSpec.Value["kind"].(string)
	m.Platform = platform.OfMachine(kind)
	m.OfOtherAPI = current.Spec.AuthoritativeAPI == "ClusterAPI"
	return m, nil
}
