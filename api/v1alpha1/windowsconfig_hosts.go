package v1alpha1

// HostsSpec limits which hosts may become nodes.
type HostsSpec struct {
	// namePattern is a regular expression (RE2) that the whole name of a new node must match, for example win-[0-9]+. A
	// host with another name does not join. Existing nodes stay. By default, every name is allowed that is not in use in
	// the cluster: a compromised host can then choose the name of a machine that joins later.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="'a'.matches(self) || !'a'.matches(self)",message="must be a regular expression of RE2, for example win-[0-9]+"
	// +optional
	NamePattern string `json:"namePattern,omitempty"`
}

// ClusterAPISpec names the Machines of Cluster API whose hosts become nodes of this cluster. The operator may read them
// only after an administrator has applied a Role for it in their namespace (docs/machines.md).
type ClusterAPISpec struct {
	// namespace is the namespace of the Machines.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Namespace string `json:"namespace"`

	// clusterName is the name of the Cluster in namespace that represents this cluster. Its spec.controlPlaneEndpoint must be
	// an address or a name of this cluster's API server, and only Machines with this name in spec.clusterName count.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	ClusterName string `json:"clusterName"`
}
