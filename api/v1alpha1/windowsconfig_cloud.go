package v1alpha1

// CloudProvider specifies whether an external cloud provider initializes nodes.
type CloudProvider string

// The modes of initialization.
const (
	// CloudProviderAuto follows the cluster.
	CloudProviderAuto CloudProvider = "Auto"
	// CloudProviderExternal leaves initialization to the cloud's controller.
	CloudProviderExternal CloudProvider = "External"
	// CloudProviderNone means that nodes are not initialized by a cloud.
	CloudProviderNone CloudProvider = "None"
)

// CloudProviderStatus is the decision on the initialization of nodes.
type CloudProviderStatus struct {
	// mode is External or None.
	Mode CloudProvider `json:"mode"`
	// reason explains the decision.
	Reason string `json:"reason"`
}

// MissingService is a service that nodes do not have.
type MissingService struct {
	// name is the name of the service.
	Name string `json:"name"`
	// effect describes what does not work without the service, and how to get it.
	Effect string `json:"effect"`
}
