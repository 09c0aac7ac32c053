package v1alpha1

// WindowsUpdatesSpec specifies what nodes do about updates of Windows.
type WindowsUpdatesSpec struct {
	// policy specifies what WICD does. Notify asks the Windows Update Agent of each host a few times a day which updates
	// it knows as pending and installed, and reports them on the Node, in metrics and with an alert
	// (docs/windows-updates.md). The agent is not made to contact any server. Unmanaged asks and reports nothing. With
	// both, when and from where Windows gets updates remains up to the policies of the host. A change interrupts no pods.
	// +kubebuilder:validation:Enum=Unmanaged;Notify
	// +kubebuilder:default=Notify
	// +optional
	Policy WindowsUpdatePolicy `json:"policy,omitempty"`
}

// WindowsUpdatePolicy specifies what WICD does about updates of Windows.
type WindowsUpdatePolicy string

// The policies of updates.
const (
	// UpdatesUnmanaged asks and reports nothing.
	UpdatesUnmanaged WindowsUpdatePolicy = "Unmanaged"
	// UpdatesNotify asks the agent what it knows, and reports it.
	UpdatesNotify WindowsUpdatePolicy = "Notify"
)
