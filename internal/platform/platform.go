// Package platform lists what differs between the clouds: one row each. What a row has no value for is as on bare metal. A new cloud
// is a row here, and a case in internal/platform/metadata where its nodes are named by its metadata service.
package platform

import "slices"

// The names of the platforms, as OpenShift's Infrastructure has them in status.platformStatus.type.
const (
	AWS     = "AWS"
	Azure   = "Azure"
	GCP     = "GCP"
	VSphere = "VSphere"
	Nutanix = "Nutanix"
)

// MetadataAddress is where the metadata services of AWS, Azure and GCP answer.
const MetadataAddress = "169.254.169.254"

// MaxNodeName is how long the name of a node may be: the kubelet makes a label of it.
const MaxNodeName = 63

// Platform is what differs on one cloud.
type Platform struct {
	Name string
	// MachineKinds are the kinds of the provider specification of its Machines, in the Machine API and in Cluster API.
	MachineKinds []string
	// Username is the account with which the operator logs in to new Machines.
	Username string
	// NamesNodes is true where the cloud provider finds the machine of a Node by the name that the metadata service has for it.
	NamesNodes bool
	// NamesHosts is true where a new host has the name of its Machine, and its node the DNS suffix of the host, too.
	NamesHosts bool
	// MetadataRoute is the route to the metadata service that Windows loses when networks of pods come and go.
	MetadataRoute Route
	// RoutesInUserData is true where new hosts need this route before the operator comes.
	RoutesInUserData bool
	// ProviderScheme is the scheme of the provider IDs of its nodes, as in aws:///us-east-1a/i-0abc, where clusters that do not tell their
	// platform are told by it; "" elsewhere.
	ProviderScheme string
	// PayloadGroup is the group of the files in the payload that only its hosts get; "" where there are none.
	PayloadGroup string
	// PlainUserData is true where the cloud's agent runs user data as they are. The agents of the others look for tags.
	PlainUserData bool
	// VXLANPort is the port that VXLAN must have because the platform's own network takes 4789 for itself; 0 for any.
	VXLANPort uint16
	// HealthChecks are the ranges from which the platform's load balancers ask nodes whether they serve, where they are not addresses of
	// the cluster's own network.
	HealthChecks []string
	// ForwardsVIP is true where these load balancers ask at the address of the Service, and not at that of the node.
	ForwardsVIP bool
}

// Route is the way to an address; 0 where we need none of our own.
type Route int

// The ways: by the default gateway, or on the link.
const (
	ByGateway Route = iota + 1
	OnLink
)

// Of returns the row of a platform; for one that has none, that of bare metal with its name.
func Of(name string) Platform {
	for _, p := range table() {
		if p.Name == name {
			return p
		}
	}
	return Platform{Name: name, Username: administrator}
}

// OfMachine returns the name of the platform whose Machines have a kind of provider specification; "" for a kind that is in no row.
func OfMachine(kind string) string {
	for _, p := range table() {
		if slices.Contains(p.MachineKinds, kind) {
			return p.Name
		}
	}
	return ""
}

// PayloadGroups are the groups of the payload that belong to a platform.
func PayloadGroups() (groups []string) {
	for _, p := range table() {
		if p.PayloadGroup != "" {
			groups = append(groups, p.PayloadGroup)
		}
	}
	return groups
}

const administrator = "Administrator"

// table has a row for each cloud. Azure has no account Administrator, and both of its Machine APIs ask for capi. The agent of GCP puts
// the route to its metadata service on the link itself.
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
