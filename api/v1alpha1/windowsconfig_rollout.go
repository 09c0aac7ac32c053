package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutStatus summarizes the plans of all hosts.
type RolloutStatus struct {
	// version is the desired version of nodes.
	// +optional
	Version string `json:"version,omitempty"`
	// nodes is the number of Windows nodes with a WindowsInstance. All other numbers except orphans count only these.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// atVersion is the number of nodes that have the version and are in service.
	// +optional
	AtVersion int32 `json:"atVersion,omitempty"`
	// outOfService is the number of nodes that are cordoned or not Ready, for any reason.
	// +optional
	OutOfService int32 `json:"outOfService,omitempty"`
	// orphans is the number of Windows nodes without a WindowsInstance. They are not managed and do not count against
	// the budget.
	// +optional
	Orphans int32 `json:"orphans,omitempty"`
	// maxUnavailable is the number of nodes that may be out of service.
	// +optional
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
	// waiting is the number of hosts whose next action waits for something.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// failed are the instances on which an action failed. While they include an upgrade to the version, no other node
	// moves to it. Upgrades that ended with an aborted drain, and upgrades of paused instances, do not count.
	// +listType=atomic
	// +optional
	Failed []string `json:"failed,omitempty"`
	// startedAt is when the first node moved to the version.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// estimatedEnd is when all nodes will have the version if the remaining ones take as long as those before. Absent
	// while there is no estimate.
	// +optional
	EstimatedEnd *metav1.Time `json:"estimatedEnd,omitempty"`
	// message describes in one sentence what happens and what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// RolloutSpec limits how many hosts change at the same time, and when.
type RolloutSpec struct {
	// maxConcurrentJoins is the maximum number of hosts in the operator's join steps at the same time. A host that did not
	// answer the last time takes a slot only after it answers.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=32
	// +optional
	MaxConcurrentJoins int32 `json:"maxConcurrentJoins,omitempty"`

	// paused prevents the operator from starting new actions on any host; actions in progress finish.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// maxUnavailable is the maximum number of Windows nodes that may be out of service at the same time: a number, or a
	// percentage of all nodes with a WindowsInstance, rounded down, at least 1. Every node that is cordoned or not Ready
	// counts, whatever the cause. When the limit is reached, the operator takes no further node out of service.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="maxUnavailable must be a number of nodes, at least 1, or a percentage from 1% to 100%"
	// +kubebuilder:default=1
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// canary upgrades a few nodes to a new version first. Without it, the first node is treated like the rest.
	// +optional
	Canary *CanarySpec `json:"canary,omitempty"`

	// drain specifies how pods leave a node before it goes out of service.
	// +optional
	Drain DrainSpec `json:"drain,omitempty"`

	// maintenanceWindows are the only times at which nodes in service are taken out of service. Without any, it may
	// happen at any time. An action that started in a window finishes after it. Removals, and reboots that a user
	// requests, do not wait for a window.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MaintenanceWindows []MaintenanceWindow `json:"maintenanceWindows,omitempty"`

	// reboots specifies what happens when Windows itself must restart (updates, files that are replaced at a restart):
	// Never leaves the restart to the user, Allowed drains and restarts the node within maxUnavailable and the maintenance
	// windows.
	// +kubebuilder:validation:Enum=Never;Allowed
	// +kubebuilder:default=Never
	// +optional
	Reboots RebootPolicy `json:"reboots,omitempty"`

	// stagingBandwidth limits the rate at which a new version is sent to hosts in advance, with a lower priority than
	// other transfers: bytes per second, for all hosts together. It is a quantity of at least 1Mi. It does not limit
	// joins.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0",message="stagingBandwidth must be a quantity of bytes a second, at least 1Mi, for example 50Mi"
	// +kubebuilder:default="50Mi"
	// +optional
	StagingBandwidth string `json:"stagingBandwidth,omitempty"`

	// readinessGates are types of Node conditions, written by any program of the user's choice, that must be True
	// before a node that was changed or restarted counts as in service again, in addition to the operator's own checks.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=316
	// +listType=set
	// +optional
	ReadinessGates []string `json:"readinessGates,omitempty"`

	// machines specifies whether the operator may delete Machines, so that their MachineSet creates new ones: Never
	// deletes none, OnKeyRotation those that accept neither the old nor the new SSH key, WhenBroken also those whose node
	// could not be repaired.
	// +kubebuilder:validation:Enum=Never;OnKeyRotation;WhenBroken
	// +kubebuilder:default=OnKeyRotation
	// +optional
	Machines MachineReplacement `json:"machines,omitempty"`
}

// CanarySpec upgrades a few nodes first.
type CanarySpec struct {
	// count is the number of nodes that are upgraded first.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Count int32 `json:"count,omitempty"`

	// soak is how long these nodes must work before the others follow: hours, minutes and seconds.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$')",message="soak must be hours, minutes and seconds, for example 10m or 1h30m"
	// +kubebuilder:default="10m"
	// +optional
	Soak string `json:"soak,omitempty"`
}

// DrainSpec specifies how pods leave a node.
type DrainSpec struct {
	// timeout is how long a drain may take: hours, minutes and seconds, at least 1s.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1s')",message="timeout must be hours, minutes and seconds, at least 1s, for example 1h or 20m"
	// +kubebuilder:default="1h"
	// +optional
	Timeout string `json:"timeout,omitempty"`

	// onTimeout specifies what happens to pods that remain after timeout: Wait keeps evicting them; Force deletes them,
	// with their grace periods, despite their PodDisruptionBudgets; Abort gives up and returns the node to service until
	// the action is requested again.
	// +kubebuilder:validation:Enum=Wait;Force;Abort
	// +kubebuilder:default=Wait
	// +optional
	OnTimeout DrainTimeoutPolicy `json:"onTimeout,omitempty"`

	// settle is how long after its drain a node counts against the budget, even if it has returned to service, so that the
	// pods that left it can start elsewhere before the next node is drained: hours, minutes and seconds, or 0s to disable
	// it. By default, the node counts until the pods that replace them are Ready, but at most two minutes.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$')",message="settle must be hours, minutes and seconds, for example 5m, or 0s"
	// +optional
	Settle string `json:"settle,omitempty"`

	// gracePeriodOverride replaces the grace periods of the pods, in seconds. Without it, each pod keeps its own.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +optional
	GracePeriodOverride *int32 `json:"gracePeriodOverride,omitempty"`
}

// DrainTimeoutPolicy specifies what happens to pods that did not leave in time.
type DrainTimeoutPolicy string

// The policies for drains that exceed their timeout.
const (
	// DrainWait keeps evicting the pods.
	DrainWait DrainTimeoutPolicy = "Wait"
	// DrainForce deletes the pods despite their PodDisruptionBudgets.
	DrainForce DrainTimeoutPolicy = "Force"
	// DrainAbort gives up the action and returns the node to service.
	DrainAbort DrainTimeoutPolicy = "Abort"
)

// RebootPolicy specifies what happens when Windows must restart.
type RebootPolicy string

// The policies for restarts that Windows requires.
const (
	// RebootsNever leaves the restart to the user.
	RebootsNever RebootPolicy = "Never"
	// RebootsAllowed drains and restarts the node.
	RebootsAllowed RebootPolicy = "Allowed"
)

// MachineReplacement specifies which Machines the operator may delete.
type MachineReplacement string

// The policies for deleting Machines.
const (
	// ReplaceNever deletes no Machine.
	ReplaceNever MachineReplacement = "Never"
	// ReplaceOnKeyRotation deletes Machines that accept neither the old nor the new SSH key.
	ReplaceOnKeyRotation MachineReplacement = "OnKeyRotation"
	// ReplaceWhenBroken also deletes Machines whose node could not be repaired.
	ReplaceWhenBroken MachineReplacement = "WhenBroken"
)

// MaintenanceWindow is a time at which nodes may be taken out of service.
type MaintenanceWindow struct {
	// schedule is when the window opens, as five cron fields: minute, hour, day of the month, month, day of the week.
	// "0 22 * * 6" is Saturday, 22:00. When clocks are set forward, a window that would open in the skipped hour opens
	// at its end. When clocks are set back, the first of the two hours counts.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	// +required
	Schedule string `json:"schedule"`

	// duration is how long the window stays open: hours, minutes and seconds, from 1m to 168h.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration must be hours, minutes and seconds, from 1m to 168h, for example 4h"
	// +required
	Duration string `json:"duration"`

	// timeZone is the time zone of schedule, as the IANA database names it: Europe/Berlin. The default is UTC.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}
