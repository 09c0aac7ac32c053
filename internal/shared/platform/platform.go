// Package platform lists the differences between clouds, one row each. A row without a value is like bare metal. A new cloud needs a row here,
// and a case in internal/shared/platform/metadata if its metadata service names its nodes.
package platform

import "slices"

// Names of the platforms, as in status.platformStatus.type of OpenShift's Infrastructure.
const (
	AWS     = "AWS"
	Azure   = "Azure"
	GCP     = "GCP"
	VSphere = "VSphere"
	Nutanix = "Nutanix"
)

// MetadataAddress is the address of the metadata services of AWS, Azure and GCP.
const MetadataAddress = "169.254.169.254"

// MaxNodeName is the maximum length of a node name: the kubelet uses it as a label value.
const MaxNodeName = 63

// Platform holds the properties of one cloud.
type Platform struct {
	Name string
	// MachineKinds are the kinds of the provider specification of its Machines, in the Machine API and in Cluster API.
	MachineKinds []string
	// Username is the account with which the operator logs in to new Machines.
	Username string
	// NamesNodes means that the cloud provider finds the machine of a Node by its name in the metadata service.
	NamesNodes bool
	// NamesHosts means that a new host has the name of its Machine, and its node has the host's DNS suffix, too.
	NamesHosts bool
	// MetadataRoute is the route to the metadata service, which Windows loses when pod networks are created or removed.
	MetadataRoute Route
	// RoutesInUserData means that new hosts need this route before the operator connects.
	RoutesInUserData bool
	// ProviderScheme is the scheme of its nodes' provider IDs, as in aws:///us-east-1a/i-0abc, by which it is identified in clusters that do not
	// report their platform; "" for others.
	ProviderScheme string
	// PayloadGroup is the payload group with files for its hosts only; "" if there is none.
	PayloadGroup string
	// PlainUserData means that the cloud's agent runs user data unchanged. The agents of other clouds look for tags.
	PlainUserData bool
	// VXLANPort is the required VXLAN port if the platform's own network uses 4789; 0 for any.
	VXLANPort uint16
	// HealthChecks are the source ranges of the load balancers' health checks of nodes, unless these come from the cluster's own network.
	HealthChecks []string
	// ForwardsVIP means that these health checks target the address of the Service, not that of the node.
	ForwardsVIP bool
}

// Route is the way to an address; 0 if no route is needed.
type Route int

// Routes: by the default gateway, or on-link.
const (
	ByGateway Route = iota + 1
	OnLink
)

// Of returns the row of a platform; for an unknown one, that of bare metal with its name.
func Of(name string) Platform {
	for _, p := range table() {
		if p.Name == name {
			return p
		}
	}
	return Platform{Name: name, Username: administrator}
}

// OfMachine returns the platform whose Machines have a kind of provider specification; "" for an unknown kind.
func OfMachine(kind string) string {
	for _, p := range table() {
		if slices.Contains(p.MachineKinds, kind) {
			return p.Name
		}
	}
	return ""
}

// PayloadGroups returns the payload groups that belong to a platform.
func PayloadGroups() (groups []string) {
	for _, p := range table() {
		if p.PayloadGroup != "" {
			groups = append(groups, p.PayloadGroup)
		}
	}
	return groups
}

const administrator = "Administrator"

// table has a row for each cloud. Azure has no account Administrator, and both of its Machine APIs require capi. The GCP agent creates the
// on-link route to its metadata service itself.
func table() []Platform {
	return []Platform{
		{
			Name: AWS, ProviderScheme: "aws", PayloadGroup: "aws", MachineKinds: []string{"AWSMachineProviderConfig", "AWSMachine"}, Username: administrator,
			NamesNodes: true, MetadataRoute: ByGateway, RoutesInUserData: true,
		},
		{
			Name: Azure, ProviderScheme: "azure", PayloadGroup: "azure", MachineKinds: []string{"AzureMachineProviderSpec", "AzureMachine"}, Username: "capi",
			MetadataRoute: ByGateway,
			// https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
			HealthChecks: []string{"168.63.129.16/32"},
		},
		{
			Name: GCP, ProviderScheme: "gce", MachineKinds: []string{"GCPMachineProviderSpec", "GCPMachine"}, Username: administrator,
			NamesNodes: true, MetadataRoute: OnLink, PlainUserData: true,
			// https://cloud.google.com/load-balancing/docs/health-check-concepts#ip-ranges
			HealthChecks: []string{"35.191.0.0/16", "130.211.0.0/22", "209.85.152.0/22", "209.85.204.0/22"},
			ForwardsVIP:  true,
		},
		{
			Name: VSphere, MachineKinds: []string{"VSphereMachineProviderSpec", "VSphereMachine"}, Username: administrator,
			NamesHosts: true, VXLANPort: 9898,
		},
		{
			Name: Nutanix, MachineKinds: []string{"NutanixMachineProviderConfig", "NutanixMachine"}, Username: administrator,
			NamesHosts: true,
		},
	}
}
