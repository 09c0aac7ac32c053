package platform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Provider says whether an external cloud provider initializes the nodes of a cluster.
type Provider struct {
	External bool
	// Why is for users: what led to it.
	Why string
	// Platform is the name of the platform that the provider IDs of nodes tell, where the names or programs of nodes depend on it and
	// nobody else tells it; "" otherwise.
	Platform string
	// NodeManager says that nodes of the cloud initialize themselves, with the cloud-node-manager: those of Azure do.
	NodeManager bool
}

// Evidence is what a cluster shows of its cloud.
type Evidence struct {
	// OpenShift says that the cluster is one. Type and ControllerManager are status.platformStatus.type of its Infrastructure and
	// status.platformStatus.external.cloudControllerManager.state.
	OpenShift               bool
	Type, ControllerManager string
	// ProviderIDs are those of the Linux nodes, without those that have none.
	ProviderIDs []string
	// NodeManager says that the payload has the cloud-node-manager for Windows.
	NodeManager bool
}

// ChooseProvider says whether nodes are initialized by an external cloud provider. A setting other than Auto and "" decides alone. What
// is unclear is None: nodes that wait for a controller that is not there take no pods, and nodes that a controller does not initialize
// do.
func ChooseProvider(setting v1alpha1.CloudProvider, e Evidence) Provider {
	schemes := schemesOf(e.ProviderIDs)
	p := ofNodes(schemes, e)
	if e.OpenShift {
		p = ofInfrastructure(e)
	}
	if setting == v1alpha1.CloudProviderExternal || setting == v1alpha1.CloudProviderNone {
		p.External, p.Why = setting == v1alpha1.CloudProviderExternal, "spec.cloudProvider of WindowsConfig cluster is "+string(setting)
		p.NodeManager = p.NodeManager && p.External
	}
	if p.External && !e.OpenShift && len(schemes) == 1 {
		p.Platform = ofScheme(schemes[0])
	}
	return p
}

// ofNodes decides by the schemes of the provider IDs of Linux nodes.
func ofNodes(schemes []string, e Evidence) Provider {
	switch {
	case len(schemes) == 0:
		return Provider{Why: "no Linux node has a spec.providerID"}
	case len(schemes) > 1:
		return Provider{Why: fmt.Sprintf("Linux nodes have provider IDs of different clouds (%q and %q); set spec.cloudProvider", schemes[0], schemes[1])}
	case schemes[0] == "azure":
		return ofAzure(`Linux nodes have provider IDs with scheme "azure"`, e)
	case !slices.Contains(externalSchemes(), schemes[0]):
		return Provider{Why: fmt.Sprintf("Linux nodes have provider IDs with scheme %q, of which no external cloud provider is known that "+
			"initializes Windows nodes; where there is one, set spec.cloudProvider to External", schemes[0])}
	}
	return Provider{External: true, Why: fmt.Sprintf("Linux nodes have provider IDs with scheme %q", schemes[0])}
}

// ofAzure decides on Azure, where nodes can be initialized if the payload has the program for it.
func ofAzure(is string, e Evidence) Provider {
	p := Provider{External: e.NodeManager, NodeManager: true, Why: is}
	if !e.NodeManager {
		p.Why += "; nodes on Azure initialize themselves with the cloud-node-manager, which the payload of this operator does not have; " +
			"where the DaemonSet of cloud-provider-azure runs on Windows nodes, set spec.cloudProvider to External"
	}
	return p
}

// ofInfrastructure decides as IsCloudProviderExternal of github.com/openshift/library-go/pkg/cloudprovider does. On
// Azure it depends on the payload, too.
func ofInfrastructure(e Evidence) Provider {
	is := fmt.Sprintf("Infrastructure cluster has status.platformStatus.type %q", e.Type)
	if e.Type == "External" {
		is += fmt.Sprintf(" and external.cloudControllerManager.state %q", e.ControllerManager)
		return Provider{External: e.ControllerManager == "External", Why: is}
	}
	if e.Type == Azure {
		return ofAzure(is, e)
	}
	types := []string{"AlibabaCloud", AWS, GCP, "IBMCloud", "KubeVirt", Nutanix, "OpenStack", "PowerVS", VSphere}
	return Provider{External: slices.Contains(types, e.Type), Why: is}
}

// externalSchemes are those of provider IDs that nodes get from an external cloud provider, whose controller initializes every node that
// it finds an instance of. Not among them are kind:// and metal3://, which their installers give without a controller, and k3s:// and
// rke2://, whose controller waits for annotations or labels that only their own agents make (pkg/cloudprovider of k3s).
func externalSchemes() []string {
	return []string{
		"aws", "gce", "openstack", "vsphere", "nutanix", "ibm", "ibmpowervs", "kubevirt", "digitalocean", "hcloud", "linode", "equinixmetal",
	}
}

// schemeOf returns the scheme of a provider ID, as aws of aws:///us-east-1a/i-0abc; "" where it has none.
func schemeOf(providerID string) string {
	scheme, _, ok := strings.Cut(providerID, "://")
	const maxScheme = 32
	if !ok || len(scheme) > maxScheme || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789-+.") != "" {
		return ""
	}
	return scheme
}

// schemesOf are the schemes of provider IDs, sorted, each once, "" among them where an ID has none.
func schemesOf(ids []string) (schemes []string) {
	for _, id := range ids {
		schemes = append(schemes, schemeOf(id))
	}
	slices.Sort(schemes)
	return slices.Compact(schemes)
}

// ofScheme is the platform whose provider IDs have a scheme, where its nodes have names or programs of their own.
func ofScheme(scheme string) string {
	for _, p := range table() {
		if scheme != "" && p.ProviderScheme == scheme {
			return p.Name
		}
	}
	return ""
}
