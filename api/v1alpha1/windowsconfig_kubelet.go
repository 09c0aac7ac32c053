package v1alpha1

// KubeletSpec changes single values of the kubelet's configuration. Absent values keep their defaults.
type KubeletSpec struct {
	// maxPods is the maximum number of pods on a node. The default is 250.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxPods int32 `json:"maxPods,omitempty"`

	// systemReserved is the amount of each resource reserved for the system. The default is cpu 500m, memory 2Gi,
	// ephemeral-storage 1Gi.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",message="keys must be cpu, memory or ephemeral-storage"
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(self[k]))",message="values must be quantities, for example 500m or 2Gi"
	// +optional
	SystemReserved map[string]string `json:"systemReserved,omitempty"`

	// evictionHard is the kubelet's set of hard eviction thresholds. The default is nodefs.available 10%,
	// imagefs.available 15%.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])",message="keys must be memory.available, nodefs.available or imagefs.available"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('^[0-9]+(.[0-9]+)?%$') || isQuantity(self[k]))",message="values must be a quantity or a percentage, for example 500Mi or 10%"
	// +optional
	EvictionHard map[string]string `json:"evictionHard,omitempty"`
}

// CloudProvider says who initializes nodes.
type CloudProvider string

// Who initializes nodes.
const (
	// CloudProviderAuto follows the cluster.
	CloudProviderAuto CloudProvider = "Auto"
	// CloudProviderExternal leaves it to the cloud's controller.
	CloudProviderExternal CloudProvider = "External"
	// CloudProviderNone means that nodes are not initialized by a cloud.
	CloudProviderNone CloudProvider = "None"
)

// CloudProviderStatus is the decision about who initializes nodes.
type CloudProviderStatus struct {
	// mode is External or None.
	Mode CloudProvider `json:"mode"`
	// reason says what led to it.
	Reason string `json:"reason"`
}

// MissingService is a service that nodes do not have.
type MissingService struct {
	// name is the name of the service.
	Name string `json:"name"`
	// effect says what does not work without it, and how to get it.
	Effect string `json:"effect"`
}
