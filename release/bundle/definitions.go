package bundle

import (
	operators "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Descriptors that the consoles of OKD and OpenShift support (packages/operator-lifecycle-manager/src/components/descriptors/types.ts of
// github.com/openshift/console).
const (
	inSpec     = "urn:alm:descriptor:com.tectonic.ui:"
	text       = inSpec + "text"
	number     = inSpec + "number"
	onOff      = inSpec + "booleanSwitch"
	advanced   = inSpec + "advanced"
	choice     = inSpec + "select:"
	group      = inSpec + "fieldGroup:"
	conditions = "urn:alm:descriptor:io.kubernetes.conditions"
	ofNode     = "urn:alm:descriptor:io.kubernetes:Node"
)

// policySets is the name of the kind that users do not create: consoles hide it.
const policySets = "windowspolicysets." + api.GroupName

// definitions describes the operator's kinds.
func definitions() operators.CustomResourceDefinitions {
	version := v1alpha1.GroupVersion().Version
	return operators.CustomResourceDefinitions{Owned: []operators.CRDDescription{
		{
			Name: "windowsconfigs." + api.GroupName, Version: version, Kind: "WindowsConfig", DisplayName: "Windows Config",
			Description:       "The settings of all Windows nodes: network, rollout, kubelet, registries and proxy. There is one, named cluster.",
			SpecDescriptors:   configSpec(),
			StatusDescriptors: configStatus(),
		},
		{
			Name: "windowsinstances." + api.GroupName, Version: version, Kind: "WindowsInstance", DisplayName: "Windows Instance",
			Description: "A Windows Server host that is, or is to become, a node. The operator creates one for each entry of ConfigMap windows-instances and for each Windows Machine.",
			Resources: []operators.APIResourceReference{
				{Kind: "Node", Version: "v1"}, {Kind: "ConfigMap", Version: "v1", Name: api.InstancesConfigMap}, {Kind: "Secret", Version: "v1", Name: api.PrivateKeySecret},
			},
			SpecDescriptors:   instanceSpec(),
			StatusDescriptors: instanceStatus(),
		},
		{
			Name: policySets, Version: version, Kind: "WindowsPolicySet", DisplayName: "Windows Policy Set",
			Description: "What the NetworkPolicies of a namespace allow its pods on Windows nodes. Only the operator writes it.",
		},
	}}
}

func configSpec() []operators.SpecDescriptor {
	return []operators.SpecDescriptor{
		{Path: "network", DisplayName: "Pod network", Description: "How pods on Windows nodes are connected.", XDescriptors: []string{group + "network"}},
		{Path: "network.provider", DisplayName: "Provider", Description: "OVNHybridOverlay, Flannel or Custom.",
			XDescriptors: []string{group + "network", choice + "OVNHybridOverlay", choice + "Flannel", choice + "Custom"}},
		{Path: "trust", DisplayName: "Trust at first contact", Description: "FirstUse accepts the SSH host key of a new host, Pinned requires one that is known.",
			XDescriptors: []string{choice + "FirstUse", choice + "Pinned"}},
		{Path: "rollout", DisplayName: "Rollout", Description: "How many hosts change at the same time, and when.", XDescriptors: []string{group + "rollout"}},
		{Path: "rollout.maxUnavailable", DisplayName: "Maximum unavailable", Description: "How many Windows nodes may be out of service: a number or a percentage.",
			XDescriptors: []string{group + "rollout", text}},
		{Path: "rollout.paused", DisplayName: "Paused", Description: "Start no new actions on any host.", XDescriptors: []string{group + "rollout", onOff}},
		{Path: "rollout.reboots", DisplayName: "Reboots", Description: "Whether the operator restarts hosts when Windows must restart.",
			XDescriptors: []string{group + "rollout", choice + "Never", choice + "Allowed"}},
		{Path: "kubelet", DisplayName: "Kubelet", Description: "The configuration of kubelets.", XDescriptors: []string{group + "kubelet", advanced}},
		{Path: "kubelet.maxPods", DisplayName: "Maximum pods", Description: "How many pods a node may have.", XDescriptors: []string{group + "kubelet", number, advanced}},
		{Path: "taint", DisplayName: "Taint", Description: "The taint that keeps pods without a toleration away.", XDescriptors: []string{text, advanced}},
	}
}

func configStatus() []operators.StatusDescriptor {
	return []operators.StatusDescriptor{
		{Path: "rollout.message", DisplayName: "Rollout", Description: "What happens, and what it waits for.", XDescriptors: []string{text}},
		{Path: "rollout.version", DisplayName: "Version of nodes", Description: "The version that all nodes are to have.", XDescriptors: []string{text}},
		{Path: "conditions", DisplayName: "Conditions", Description: "Published, Degraded, PoliciesInForce and LimitsMissing.", XDescriptors: []string{conditions}},
	}
}

func instanceSpec() []operators.SpecDescriptor {
	return []operators.SpecDescriptor{
		{Path: "address", DisplayName: "Address", Description: "The IPv4 address or DNS name of the host.", XDescriptors: []string{text}},
		{Path: "username", DisplayName: "User name", Description: "An account in the host's Administrators group, which accepts the SSH key.", XDescriptors: []string{text}},
		{Path: "port", DisplayName: "SSH port", Description: "The TCP port of the SSH server.", XDescriptors: []string{number, advanced}},
		{Path: "hostKey", DisplayName: "SSH host key", Description: "The public key of the host, as ssh-keyscan prints it.", XDescriptors: []string{text, advanced}},
		{Path: "paused", DisplayName: "Paused", Description: "Start nothing on this host.", XDescriptors: []string{onOff}},
	}
}

func instanceStatus() []operators.StatusDescriptor {
	return []operators.StatusDescriptor{
		{Path: "nodeRef.name", DisplayName: "Node", Description: "The Node of this host.", XDescriptors: []string{ofNode}},
		{Path: "osBuild", DisplayName: "Windows build", Description: "The build of Windows with its update revision.", XDescriptors: []string{text}},
		{Path: "plan.action", DisplayName: "Next action", Description: "What happens next on the host.", XDescriptors: []string{text}},
		{Path: "conditions", DisplayName: "Conditions", Description: "The state of the join and of the node.", XDescriptors: []string{conditions}},
	}
}

// windowsConfig returns the object that the console requests after the installation.
func windowsConfig() map[string]any {
	return map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": "WindowsConfig", "metadata": map[string]any{"name": api.WindowsConfigName},
		"spec": map[string]any{"trust": "FirstUse", "rollout": map[string]any{"maxUnavailable": 1}},
	}
}

// examples returns the objects that consoles offer in forms and as YAML, one of each kind.
func examples(namespace string) []any {
	return []any{
		windowsConfig(),
		map[string]any{
			"apiVersion": v1alpha1.GroupVersion().String(), "kind": "WindowsInstance", "metadata": map[string]any{"name": "win-1", "namespace": namespace},
			"spec": map[string]any{"address": "10.1.42.1", "username": "Administrator"},
		},
		map[string]any{ // a validator of bundles requires one of each kind
			"apiVersion": v1alpha1.GroupVersion().String(), "kind": "WindowsPolicySet", "metadata": map[string]any{"name": "shop", "namespace": namespace},
			"spec": map[string]any{"set": `{"version":1,"namespace":"shop","unlisted":{"ingress":true}}`},
		},
	}
}
