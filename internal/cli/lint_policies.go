package cli

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

type lintPolicy struct {
	file, object, namespace string
	policy                  map[string]any
}

// check reports the selected pods: if policies are not enforced on Windows nodes, their connections are not restricted. Policies do not select
// pods with hostNetwork.
func (p lintPolicy) check(pods []lintPod) (found []lintFinding, err error) {
	var policy networkingv1.NetworkPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(p.policy, &policy); err != nil {
		return nil, fmt.Errorf("decoding the NetworkPolicy: %w", err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		return nil, fmt.Errorf("reading spec.podSelector: %w", err)
	}
	var selected []string
	for _, pod := range pods {
		if pod.namespace == p.namespace && pod.spec["hostNetwork"] != true && selector.Matches(pod.labels) {
			selected = append(selected, pod.object)
		}
	}
	if len(selected) == 0 {
		return nil, nil
	}
	return []lintFinding{{p.file, p.object, podrules.Finding{
		Severity: podrules.Warning, Field: "spec.podSelector",
		Message: fmt.Sprintf("The policy selects pods for Windows (%s), and spec.network.policies of WindowsConfig is not Enforce: "+
			"connections of these pods are not restricted.",
			truncate.List(selected, 3, ", ")),
		Remedy: "Remove spec.network.policies, or set it to Enforce; or restrict connections in the application, or at the Linux pods that it talks to.",
	}}}, nil
}

func labelsOf(object map[string]any) labels.Set {
	metadata, _ := object["metadata"].(map[string]any)
	written, _ := metadata["labels"].(map[string]any)
	all := labels.Set{}
	for key, value := range written {
		if text, ok := value.(string); ok {
			all[key] = text
		}
	}
	return all
}
