package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutStatus sums up the plans of all hosts.
type RolloutStatus struct {
	// version that nodes shall have.
	// +optional
	Version string `json:"version,omitempty"`
	// nodes is how many Windows nodes there are that have a WindowsInstance. All other numbers but orphans are of these.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// atVersion is how many nodes have the version and are in service.
	// +optional
	AtVersion int32 `json:"atVersion,omitempty"`
	// outOfService is how many nodes are cordoned or not Ready, for whatever reason.
	// +optional
	OutOfService int32 `json:"outOfService,omitempty"`
	// orphans is how many Windows nodes there are without a WindowsInstance. Nobody manages them, and they take no part of the budget.
	// +optional
	Orphans int32 `json:"orphans,omitempty"`
	// maxUnavailable is how many may be.
	// +optional
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
	// waiting is how many hosts wait for something before they are acted on.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// failed are the instances on which an action failed. While an upgrade to the version is among them that was not given up
	// for its drain, and whose instance is not paused, no other node goes to the version.
	// +listType=atomic
	// +optional
	Failed []string `json:"failed,omitempty"`
	// startedAt is when the first node went to the version.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// estimatedEnd is when all nodes will have the version if the rest take as long as those before. Absent while that cannot be said.
	// +optional
	EstimatedEnd *metav1.Time `json:"estimatedEnd,omitempty"`
	// message says in a sentence what goes on, and what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// RolloutSpec bounds what happens to how many hosts at once.
type RolloutSpec struct {
	// maxConcurrentJoins is how many hosts may be in the steps of a join that the operator works in
	// at the same time. Hosts that did not answer the last time take no place until they do.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=32
	// +optional
	MaxConcurrentJoins int32 `json:"maxConcurrentJoins,omitempty"`

	// paused starts nothing new on any host; what runs is finished.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// maxUnavailable is how many Windows nodes may be out of service at the same time, for whatever reason: a number, or a
	// percentage of all that have a WindowsInstance, rounded down, at least 1. Those that are cordoned or not Ready count, whoever made
	// them so; when they use it up, the operator takes no further node out of service.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="maxUnavailable must be a number of nodes, at least 1, or a percentage from 1% to 100%"
	// +kubebuilder:default=1
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// canary lets a few nodes go to a new version first. Without it, the first node is not treated otherwise than the rest.
	// +optional
	Canary *CanarySpec `json:"canary,omitempty"`

	// drain says how pods leave a node before it goes out of service.
	// +optional
	Drain DrainSpec `json:"drain,omitempty"`

	// maintenanceWindows are the only times at which nodes that serve are taken out of service. Without any, it may happen at all
	// times. What was begun in a window is finished after it; a reboot that a user asks for, and nodes that are broken anyway,
	// do not wait for one.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MaintenanceWindows []MaintenanceWindow `json:"maintenanceWindows,omitempty"`

	// reboots says what happens when Windows itself has to restart (updates, files that are replaced at a restart): Never
	// leaves it to the user, Allowed drains and restarts the node within maxUnavailable and the maintenance windows.
	// +kubebuilder:validation:Enum=Never;Allowed
	// +kubebuilder:default=Never
	// +optional
	Reboots RebootPolicy `json:"reboots,omitempty"`

	// stagingBandwidth is how many bytes a second all hosts together are sent of a version that they do not have yet, behind what
	// the others do: a quantity of at least 1Mi, 50Mi by default. Joins are not bounded by it.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0",message="stagingBandwidth must be a quantity of bytes a second, at least 1Mi, for example 50Mi"
	// +kubebuilder:default="50Mi"
	// +optional
	StagingBandwidth string `json:"stagingBandwidth,omitempty"`

	// readinessGates are types of Node conditions, written by whom the user likes, that must be True before a node that was
	// changed or restarted counts as in service again, besides what the operator checks itself.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=316
	// +listType=set
	// +optional
	ReadinessGates []string `json:"readinessGates,omitempty"`

	// machines says whether the operator may delete Machines, for their MachineSet to make others: Never; OnKeyRotation, those
	// that know neither the old nor the new SSH key; WhenBroken, also those whose node could not be repaired.
	// +kubebuilder:validation:Enum=Never;OnKeyRotation;WhenBroken
	// +kubebuilder:default=OnKeyRotation
	// +optional
	Machines MachineReplacement `json:"machines,omitempty"`
}

// CanarySpec lets a few nodes go first.
type CanarySpec struct {
	// count of nodes that go first.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Count int32 `json:"count,omitempty"`

	// soak is how long they must work before the others follow: hours, minutes and seconds; 10m by default.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$')",message="soak must be hours, minutes and seconds, for example 10m or 1h30m"
	// +kubebuilder:default="10m"
	// +optional
	Soak string `json:"soak,omitempty"`
}

// DrainSpec says how pods leave a node.
type DrainSpec struct {
	// timeout is how long a drain may take: hours, minutes and seconds; 1h by default.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1s')",message="timeout must be hours, minutes and seconds, at least 1s, for example 1h or 20m"
	// +kubebuilder:default="1h"
	// +optional
	Timeout string `json:"timeout,omitempty"`

	// onTimeout says what happens to pods that are still there after timeout: Wait goes on evicting; Force deletes them, with
	// their grace, against their budgets; Abort gives up and brings the node back into service until it is asked for again.
	// +kubebuilder:validation:Enum=Wait;Force;Abort
	// +kubebuilder:default=Wait
	// +optional
	OnTimeout DrainTimeoutPolicy `json:"onTimeout,omitempty"`

	// gracePeriodOverride, in seconds, replaces the pods' own grace periods; without it, each pod gets its own.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +optional
	GracePeriodOverride *int32 `json:"gracePeriodOverride,omitempty"`
}

// DrainTimeoutPolicy says what happens to pods that did not leave in time.
type DrainTimeoutPolicy string

// The policies for drains that take too long.
const (
	DrainWait  DrainTimeoutPolicy = "Wait"
	DrainForce DrainTimeoutPolicy = "Force"
	DrainAbort DrainTimeoutPolicy = "Abort"
)

// RebootPolicy says what happens when Windows has to restart.
type RebootPolicy string

// The policies for restarts that Windows needs.
const (
	RebootsNever   RebootPolicy = "Never"
	RebootsAllowed RebootPolicy = "Allowed"
)

// MachineReplacement says which Machines the operator may delete.
type MachineReplacement string

// Which Machines may be deleted.
const (
	ReplaceNever         MachineReplacement = "Never"
	ReplaceOnKeyRotation MachineReplacement = "OnKeyRotation"
	ReplaceWhenBroken    MachineReplacement = "WhenBroken"
)

// MaintenanceWindow is a time at which nodes may be taken out of service.
type MaintenanceWindow struct {
	// schedule is when the window opens, as five fields of cron: minute, hour, day of the month, month, day of the week.
	// "0 22 * * 6" is Saturday, 22:00. When the clock is set ahead, what falls into the hour that is left out opens at its end; when it is set back,
	// the first of the two hours counts.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	// +required
	Schedule string `json:"schedule"`

	// duration is how long it is open: hours, minutes and seconds, from 1m to 168h.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration must be hours, minutes and seconds, from 1m to 168h, for example 4h"
	// +required
	Duration string `json:"duration"`

	// timeZone of schedule, as the IANA database names it: Europe/Berlin. UTC by default.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}
