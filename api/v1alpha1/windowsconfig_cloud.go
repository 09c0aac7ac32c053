package v1alpha1

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
