package v1alpha1

// InstanceNetwork selects the interface that has the node's address and carries the pod network. The default is the
// interface with the default route.
//
// +kubebuilder:validation:XValidation:rule="!has(self.interface) || !has(self.cidr)",message="at most one of network.interface and network.cidr may be set"
type InstanceNetwork struct {
	// interface is the name of the interface as Get-NetAdapter shows it: "Ethernet 2".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Interface string `json:"interface,omitempty"`

	// cidr is a range of IPv4 addresses. It selects the interface that has an address in the range, and that address.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4",message="cidr must be a range of IPv4 addresses, for example 10.0.8.0/24"
	// +optional
	CIDR string `json:"cidr,omitempty"`
}
