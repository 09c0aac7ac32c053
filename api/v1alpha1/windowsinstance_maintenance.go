package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Maintenance is an action in progress. The operator writes it before it acts, so that it resumes the action after its
// own restart.
type Maintenance struct {
	// action is the action in progress.
	Action PlanAction `json:"action"`
	// step is the current step of the action.
	// +kubebuilder:validation:Enum=Drain;Act;Verify
	Step MaintenanceStep `json:"step"`
	// disruption is the effect of the action on pods, as determined when it was planned.
	// +kubebuilder:validation:Enum=None;Restart;Drain;Reboot
	Disruption PlanDisruption `json:"disruption"`
	// version is the version that an Upgrade installs.
	// +optional
	Version string `json:"version,omitempty"`
	// previousVersion is the version the node had before an Upgrade. A failed Upgrade returns to it.
	// +optional
	PreviousVersion string `json:"previousVersion,omitempty"`
	// updates are the articles of the updates that a Patch installs, such as KB5068787.
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Updates []string `json:"updates,omitempty"`
	// failure is why the node does not work after a Patch, while its cumulative update is uninstalled.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Failure string `json:"failure,omitempty"`
	// bootID is the boot ID of the host before a Reboot or a Patch.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// requestToken is the value of the reboot annotation that requested a Reboot.
	// +optional
	RequestToken string `json:"requestToken,omitempty"`
	// startedAt is when the action started.
	StartedAt metav1.Time `json:"startedAt"`
	// stepStartedAt is when the current step started.
	StepStartedAt metav1.Time `json:"stepStartedAt"`
	// brokenSince is the time since which the node had not been Ready when the action began; absent for a node that was
	// Ready. If the node is Ready again before anything was changed on its host, the action is abandoned and planned
	// again.
	// +optional
	BrokenSince *metav1.Time `json:"brokenSince,omitempty"`
	// rebootCauses are the causes of the restart that Windows had pending when a Reboot or a Patch began.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	RebootCauses string `json:"rebootCauses,omitempty"`
	// restarts is the number of restarts that a Patch has requested.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`
	// restartedBootID is the boot ID of the host when a Patch last requested a restart.
	// +optional
	RestartedBootID string `json:"restartedBootID,omitempty"`
	// youngestPod is the creation time of the youngest pod that was on the node when its drain began. Pods that tolerate
	// the cordon and were created later stay.
	// +optional
	YoungestPod *metav1.Time `json:"youngestPod,omitempty"`
	// rejoins is the number of times the host was joined again because its node did not come back.
	// +optional
	Rejoins int32 `json:"rejoins,omitempty"`
	// rejoinedAt is when the host was last joined again.
	// +optional
	RejoinedAt *metav1.Time `json:"rejoinedAt,omitempty"`
	// message describes what the step waits for.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// MaintenanceStep is a step of an action.
type MaintenanceStep string

// The steps of an action, in order.
const (
	// MaintenanceDrain cordons the node and evicts its pods.
	MaintenanceDrain MaintenanceStep = "Drain"
	// MaintenanceAct performs the action.
	MaintenanceAct MaintenanceStep = "Act"
	// MaintenanceVerify waits until the node works; then the node returns to service.
	MaintenanceVerify MaintenanceStep = "Verify"
)

// Failure is an action that failed.
type Failure struct {
	// action is the action that failed.
	Action PlanAction `json:"action"`
	// version is the version that a failed Upgrade installs.
	// +optional
	Version string `json:"version,omitempty"`
	// updates are the articles of the updates that a failed Patch installs. They are installed on no other host.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Updates []string `json:"updates,omitempty"`
	// step is the step that failed. A drain that was aborted does not count against the version or the
	// updates.
	// +optional
	Step MaintenanceStep `json:"step,omitempty"`
	// attempts is the number of attempts so far.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// at is when the action failed.
	At metav1.Time `json:"at"`
	// message explains why the action failed.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// LastReboot is a restart that Windows required.
type LastReboot struct {
	// at is when the node returned after the restart.
	At metav1.Time `json:"at"`
	// causes are the causes for which Windows required the restart.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Causes string `json:"causes,omitempty"`
}

// InstalledUpdate is an update of Windows that the operator had installed.
type InstalledUpdate struct {
	// article is the article of the update, such as KB5068787.
	// +kubebuilder:validation:MaxLength=16
	Article string `json:"article"`
	// at is when the node returned to service with it.
	At metav1.Time `json:"at"`
}
