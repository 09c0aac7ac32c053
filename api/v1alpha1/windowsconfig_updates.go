package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WindowsUpdatesSpec specifies what nodes do about Windows updates.
//
// +kubebuilder:validation:XValidation:rule="!has(self.approved) || !has(self.blocked) || !self.approved.exists(a, a in self.blocked)",message="an update is both in approved and in blocked"
// +kubebuilder:validation:XValidation:rule="!has(self.rings) || self.policy == 'Install'",message="rings need policy: Install"
type WindowsUpdatesSpec struct {
	// policy specifies what happens about updates. Notify asks the Windows Update Agent of each host a few times a day
	// which updates it knows as pending and installed, and reports them on the Node, in metrics and with an alert
	// (docs/windows-updates.md). The agent is not made to contact any server. Install also has the agent search for and
	// download updates of classes, and installs them with action Patch: the rules of spec.rollout apply to it as to an
	// upgrade, and rings decides which nodes come first. Unmanaged asks and reports nothing. The source of updates
	// remains up to the policies of the host. A change interrupts no pods.
	// +kubebuilder:validation:Enum=Unmanaged;Notify;Install
	// +kubebuilder:default=Notify
	// +optional
	Policy WindowsUpdatePolicy `json:"policy,omitempty"`

	// classes are the classes of updates that policy Install installs; both if there are none. Definitions of Microsoft
	// Defender are left to Windows, and previews, drivers and new versions of Windows are never installed.
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	Classes []WindowsUpdateClass `json:"classes,omitempty"`

	// approved are the articles of the only updates that are installed, such as KB5068787. If there are none, each update of
	// classes is. Which updates a host is offered is up to its source: Microsoft offers only the newest cumulative update.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^KB[0-9]{6,8}$`
	// +listType=set
	// +optional
	Approved []string `json:"approved,omitempty"`

	// blocked are articles of updates that are not installed, such as KB5068787. Those with a defect that is known to the
	// operator (docs/windows-updates.md) are not installed either.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^KB[0-9]{6,8}$`
	// +listType=set
	// +optional
	Blocked []string `json:"blocked,omitempty"`

	// acceptDefects are articles of updates that are installed although they have a defect that is known to the operator.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^KB[0-9]{6,8}$`
	// +listType=set
	// +optional
	AcceptDefects []string `json:"acceptDefects,omitempty"`

	// minimumRevisions are the lowest revisions of Windows that nodes should have. A node with a lower one has condition
	// WindowsUpdatesOverdue; it stays in service, and hosts with lower ones become nodes.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=build
	// +optional
	MinimumRevisions []WindowsRevision `json:"minimumRevisions,omitempty"`

	// deadlineDays is how many days after its publication an update of classes may remain pending. A node on which
	// one is pending for longer has condition WindowsUpdatesOverdue. Nothing is installed earlier because of it. Without
	// it, there is no deadline.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=365
	// +optional
	DeadlineDays int32 `json:"deadlineDays,omitempty"`

	// rollback specifies what happens to a node that does not work with an update. Never leaves it out of service. Uninstall
	// removes the cumulative update that was installed, once and while the node is drained, and restarts the host. Other updates
	// cannot be removed. Either way, other nodes do not get the update.
	// +kubebuilder:validation:Enum=Never;Uninstall
	// +kubebuilder:default=Never
	// +optional
	Rollback UpdateRollback `json:"rollback,omitempty"`

	// rings are groups of nodes in the order in which they get updates: a node of a ring gets an update when a node of
	// each earlier ring that needs it works with it. A node must be in exactly one ring; others get no updates. Without
	// rings, all nodes are in one, which defers nothing.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Rings []UpdateRing `json:"rings,omitempty"`
}

// WindowsRevision is a revision of a build of Windows.
type WindowsRevision struct {
	// build is the build, the third number of the version of Windows: 20348 in 10.0.20348.4405.
	// +kubebuilder:validation:Minimum=17763
	// +kubebuilder:validation:Maximum=99999
	Build int32 `json:"build"`

	// revision is the fourth number: 4405 in 10.0.20348.4405.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99999
	Revision int32 `json:"revision"`
}

// WindowsUpdatePolicy specifies what happens about Windows updates.
type WindowsUpdatePolicy string

// The policies of updates.
const (
	// UpdatesUnmanaged asks and reports nothing.
	UpdatesUnmanaged WindowsUpdatePolicy = "Unmanaged"
	// UpdatesNotify asks the agent what it knows, and reports it.
	UpdatesNotify WindowsUpdatePolicy = "Notify"
	// UpdatesInstall also installs updates.
	UpdatesInstall WindowsUpdatePolicy = "Install"
)

// WindowsUpdateClass is a class of Windows updates.
//
// +kubebuilder:validation:Enum=Security;Critical
type WindowsUpdateClass string

// The classes of updates that can be installed.
const (
	// UpdatesSecurity are security updates, which include the monthly cumulative updates.
	UpdatesSecurity WindowsUpdateClass = "Security"
	// UpdatesCritical are critical updates that are not about security.
	UpdatesCritical WindowsUpdateClass = "Critical"
)

// UpdateRollback specifies what happens to a node that does not work with an update.
type UpdateRollback string

// The rollback policies for updates.
const (
	// UpdateRollbackNever leaves the node out of service.
	UpdateRollbackNever UpdateRollback = "Never"
	// UpdateRollbackUninstall removes the cumulative update.
	UpdateRollbackUninstall UpdateRollback = "Uninstall"
)

// UpdateRing is a group of nodes that get updates together.
type UpdateRing struct {
	// name is the name of the ring.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// nodeSelector selects the nodes by their labels. An empty selector selects all nodes.
	// +structType=atomic
	NodeSelector metav1.LabelSelector `json:"nodeSelector"`

	// deferDays is the minimum number of days between the publication of an update and its installation.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=60
	// +optional
	DeferDays int32 `json:"deferDays,omitempty"`
}
