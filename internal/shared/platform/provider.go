package platform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Provider is whether an external cloud provider initializes the nodes of a cluster.
type Provider struct {
	External bool
	// Why explains the decision to users.
	Why string
	// Platform is the platform identified by the nodes' provider IDs, if names or programs of nodes depend on it and the cluster does not report
	// it otherwise; "" otherwise.
	Platform string
	// NodeManager means that nodes initialize themselves with the cloud-node-manager, as on Azure.
	NodeManager bool
}

// Evidence is what a cluster reveals about its cloud.
type Evidence struct {
	// OpenShift means that the cluster is OpenShift. Type and ControllerManager are status.platformStatus.type of its Infrastructure and
	// status.platformStatus.external.cloudControllerManager.state.
	OpenShift               bool
	Type, ControllerManager string
	// ProviderIDs are those of the Linux nodes; nodes without one are left out.
	ProviderIDs []string
	// NodeManager means that the payload has the cloud-node-manager for Windows.
	NodeManager bool
}

// ChooseProvider decides whether an external cloud provider initializes the nodes. A setting other than Auto and "" takes precedence. If
// unclear, the decision is None: nodes that wait for a missing controller take no pods, whereas nodes that no controller initializes do.
func ChooseProvider(setting v1alpha1.CloudProvider, e Evidence) Provider {
	schemes := schemesOf(e.ProviderIDs)
	p := fromNodes(schemes, e)
	if e.OpenShift {
		p = fromInfrastructure(e)
	}
	if setting == v1alpha1.CloudProviderExternal || setting == v1alpha1.CloudProviderNone {
		p.External, p.Why = setting == v1alpha1.CloudProviderExternal, "spec.cloudProvider of WindowsConfig cluster is "+string(setting)
		p.NodeManager = p.NodeManager && p.External
	}
	if p.External && !e.OpenShift && len(schemes) == 1 {
		p.Platform = platformOf(schemes[0])
	}
	return p
}

// fromNodes decides by the schemes of the Linux nodes' provider IDs.
func fromNodes(schemes []string, e Evidence) Provider {
	switch {
	case len(schemes) == 0:
		return Provider{Why: "no Linux node has a spec.providerID"}
	case len(schemes) > 1:
		return Provider{Why: fmt.Sprintf("Linux nodes have provider IDs of different clouds (%q and %q); set spec.cloudProvider", schemes[0], schemes[1])}
	case schemes[0] == "azure":
		return forAzure(`Linux nodes have provider IDs with scheme "azure"`, e)
	case !slices.Contains(externalSchemes(), schemes[0]):
		return Provider{Why: fmt.Sprintf("Linux nodes have provider IDs with scheme %q, and no external cloud provider with this scheme is known to "+
			"initialize Windows nodes; if one exists, set spec.cloudProvider to External", schemes[0])}
	}
	return Provider{External: true, Why: fmt.Sprintf("Linux nodes have provider IDs with scheme %q", schemes[0])}
}

// forAzure decides for Azure, where nodes can be initialized if the payload has the program for it.
func forAzure(current string, e Evidence) Provider {
	p := Provider{External: e.NodeManager, NodeManager: true, Why: current}
	if !e.NodeManager {
		p.Why += "; nodes on Azure initialize themselves with the cloud-node-manager, which the payload of this operator does not contain; " +
			"if the DaemonSet of cloud-provider-azure runs on Windows nodes, set spec.cloudProvider to External"
	}
	return p
}

// fromInfrastructure decides like IsCloudProviderExternal of github.com/openshift/library-go/pkg/cloudprovider. On Azure the decision also depends
// on the payload.
func fromInfrastructure(e Evidence) Provider {
	current := fmt.Sprintf("Infrastructure cluster has status.platformStatus.type %q", e.Type)
	if e.Type == "External" {
		current += fmt.Sprintf(" and external.cloudControllerManager.state %q", e.ControllerManager)
		return Provider{External: e.ControllerManager == "External", Why: current}
	}
	if e.Type == Azure {
		return forAzure(current, e)
	}
	types := []string{"AlibabaCloud", AWS, GCP, "IBMCloud", "KubeVirt", Nutanix, "OpenStack", "PowerVS", VSphere}
	return Provider{External: slices.Contains(types, e.Type), Why: current}
}

// externalSchemes returns the schemes of provider IDs that external cloud providers assign, whose controllers initialize every node with a known
// instance. It excludes kind:// and metal3://, whose installers assign IDs without a controller, and k3s:// and rke2://, whose controller waits
// for annotations or labels that only their own agents set (pkg/cloudprovider of k3s).
func externalSchemes() []string {
	return []string{
		"aws", "gce", "openstack", "vsphere", "nutanix", "ibm", "ibmpowervs", "kubevirt", "digitalocean", "hcloud", "linode", "equinixmetal",
	}
}

// schemeOf returns the scheme of a provider ID, such as aws of aws:///us-east-1a/i-0abc; "" if it has none.
func schemeOf(providerID string) string {
	scheme, _, ok := strings.Cut(providerID, "://")
	const maxScheme = 32
	if !ok || len(scheme) > maxScheme || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789-+.") != "" {
		return ""
	}
	return scheme
}

// schemesOf returns the sorted schemes of provider IDs, without duplicates, and with "" if an ID has none.
func schemesOf(ids []string) (schemes []string) {
	for _, id := range ids {
		schemes = append(schemes, schemeOf(id))
	}
	slices.Sort(schemes)
	return slices.Compact(schemes)
}

// platformOf returns the platform with a provider ID scheme, if its nodes have special names or programs.
func platformOf(scheme string) string {
	for _, p := range table() {
		if scheme != "" && p.ProviderScheme == scheme {
			return p.Name
		}
	}
	return ""
}
