package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WindowsInstance is a Windows Server host that is, or will become, a node of this cluster. The operator creates one
// for each entry of ConfigMap windows-instances and for each Machine of a Windows node; users can create their own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=winst,path=windowsinstances,singular=windowsinstance
// +kubebuilder:validation:XValidation:rule="!has(self.spec.replaceWith) || self.spec.replaceWith != self.metadata.name",message="spec.replaceWith must name another WindowsInstance"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of condition Ready"
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.plan.action`,description="Next action on the host; empty when none is due"
// +kubebuilder:printcolumn:name="Waits For",type=string,JSONPath=`.status.plan.waitsFor`,description="Why the next action has not started; empty while it runs"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the object was created"
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`,priority=1,description="Where the operator reaches the host by SSH"
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeRef.name`,priority=1,description="Node of the host"
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.metadata.labels.windowsmachineconfig\.openshift\.io/source`,priority=1,description="Where the instance comes from; empty when the user created it"
// +kubebuilder:printcolumn:name="Payload",type=string,JSONPath=`.status.payload.current`,priority=1,description="Payload that the host was last joined with"
type WindowsInstance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state, declared by the user or by the source of the instance.
	// +required
	Spec WindowsInstanceSpec `json:"spec"`

	// status is the observed state. Only the operator writes it.
	// +optional
	Status WindowsInstanceStatus `json:"status,omitempty"`
}

// WindowsInstanceList is a list of WindowsInstances.
//
// +kubebuilder:object:root=true
type WindowsInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WindowsInstance `json:"items"`
}

// WindowsInstanceSpec declares where the host is, how to log in, and how to configure its node.
type WindowsInstanceSpec struct {
	// address is the IPv4 address or DNS name at which the operator reaches the host by SSH. It is immutable: another
	// address is another instance. Addresses that cannot belong to a Windows host, loopback addresses (the operator's
	// own machine), and addresses of the cluster's own machines and Services are rejected, either here or before the
	// operator connects.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="address cannot change; another address is another WindowsInstance"
	// +kubebuilder:validation:XValidation:rule="!self.contains(':')",message="address must be an IPv4 address or a DNS name; IPv6 addresses are not supported"
	// +kubebuilder:validation:XValidation:rule="self.contains(':') || self.matches('^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$')",message="address must be an IPv4 address or a DNS name"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(0|127|169[.]254|22[4-9]|23[0-9]|24[0-9]|25[0-5])[.][0-9.]+$')",message="address must be one that a Windows host can have: not loopback, link-local, multicast, broadcast or reserved"
	// +required
	Address string `json:"address"`

	// username is a local or domain account in the host's Administrators group. Its authorized keys contain the public
	// key of the private key in Secret cloud-private-key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^[:cntrl:]]+$') && self.matches('^[^ ](.*[^ ])?$')",message="username must have no control characters, and no blanks around it"
	// +required
	Username string `json:"username"`

	// port is the TCP port of the host's SSH server.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=22
	// +optional
	Port int32 `json:"port,omitempty"`

	// hostKey pins the host's SSH host key in advance, as ssh-keyscan prints it without the host name: "ssh-ed25519
	// AAAA...". When it is empty, the operator stores the key of the first contact in status.hostKey and requires it
	// from then on. Set it also to confirm a host key that changed for a known reason.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^((ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp256|ecdsa-sha2-nistp384|ecdsa-sha2-nistp521) [A-Za-z0-9+/]+={0,2}( .*)?)?$`
	// +optional
	HostKey string `json:"hostKey,omitempty"`

	// hostname is the desired name of the host. A host with another name, or with capitals in its name, is renamed and
	// restarted when it joins; if only capitals differ, only before it has a Node. When it is empty, the host keeps its
	// name.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$')",message="hostname must be one label of lower-case letters, digits and hyphens"
	// +optional
	Hostname string `json:"hostname,omitempty"`

	// nodeLabels are labels that the operator sets on the node and restores, in addition to its own.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// nodeTaints are taints that the node gets when it registers, in addition to spec.taint of WindowsConfig.
	// +kubebuilder:validation:MaxItems=32
	// +optional
	NodeTaints []corev1.Taint `json:"nodeTaints,omitempty"`

	// additionalAddresses are DNS names and IP addresses of the host, in addition to its address and the name of its node:
	// those that the controller of a cloud writes into the status of the Node, such as an external address. The kubelet
	// requests a serving certificate for them, and the operator approves only those in this list or in the status of the
	// host's Machine.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be an IP address, or a DNS name in lower case"
	// +listType=set
	// +optional
	AdditionalAddresses []string `json:"additionalAddresses,omitempty"`

	// network selects the network interface that the cluster uses, on a host with more than one.
	// +optional
	Network *InstanceNetwork `json:"network,omitempty"`

	// replaceWith names the WindowsInstance whose host takes the place of this one, for example one with a newer version of
	// Windows Server. Once that host has worked as a node for ten minutes, and if the pods of this one have a place on other
	// nodes, the operator drains this node within the budget and the maintenance windows, removes the host from the cluster,
	// and deletes this object. A host that is not a node yet does not join. It has no effect on WindowsInstances that the
	// operator creates.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$')",message="replaceWith must be the name of a WindowsInstance"
	// +optional
	ReplaceWith string `json:"replaceWith,omitempty"`

	// paused prevents the operator from starting anything on the host while it is set. A version that failed on a paused
	// host still rolls out to the others.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// WindowsInstanceStatus is the observed state of a host.
type WindowsInstanceStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// nodeRef names the Node of this host.
	// +optional
	NodeRef *NodeReference `json:"nodeRef,omitempty"`

	// nodeConflict names a Node that has the name of this host and is not proven to belong to it. The operator neither
	// changes nor deletes that Node, and approves no certificates for the host. Absent when there is none.
	// +optional
	NodeConflict *NodeReference `json:"nodeConflict,omitempty"`

	// hostname is the name of the node: the host's own name in lower case, or the name of its machine in the cloud.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Hostname string `json:"hostname,omitempty"`

	// hostnameFixed is true when the host has received a token for hostname. From then on it can join under no other
	// name, until the user accepts one with annotation accept-hostname or spec.hostname.
	// +optional
	HostnameFixed bool `json:"hostnameFixed,omitempty"`

	// identitySince is when the host received its first token for hostname.
	// +optional
	IdentitySince *metav1.Time `json:"identitySince,omitempty"`

	// nodeIP is the IPv4 address of the interface with the host's default route, or of the interface that spec.network
	// selects. The kubelet registers with it. The operator reached the host at this address, or verified its SSH host
	// key there.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	NodeIP string `json:"nodeIP,omitempty"`

	// osBuild is the host's Windows build with its update revision, for example 10.0.20348.2402.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	OSBuild string `json:"osBuild,omitempty"`

	// bootID is a counter that Windows increments at every start of the host.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	BootID string `json:"bootID,omitempty"`

	// hostKey is the SSH host key that the operator requires at every connection, in authorized_keys format.
	// +optional
	HostKey string `json:"hostKey,omitempty"`

	// hostKeyFingerprint is the SHA256 fingerprint of hostKey, as ssh-keygen -l prints it.
	// +optional
	HostKeyFingerprint string `json:"hostKeyFingerprint,omitempty"`

	// payload is the payload that the host runs, and the one it should run.
	// +structType=atomic
	// +optional
	Payload PayloadStatus `json:"payload,omitempty"`

	// bootstrapCredentialID is the ID (JTI) of the short-lived token that the host joins with; it is not a secret.
	// Certificate requests made with any other credential are not approved for this host.
	// +optional
	BootstrapCredentialID string `json:"bootstrapCredentialID,omitempty"`

	// steps are the steps of the last join, in order.
	// +listType=atomic
	// +optional
	Steps []StepStatus `json:"steps,omitempty"`

	// plan is the next action on the host, how disruptive it is, and what it waits for.
	// +structType=atomic
	// +optional
	Plan *Plan `json:"plan,omitempty"`

	// maintenance is the action in progress on the host after its join. Absent when there is none.
	// +structType=atomic
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`

	// drainedAt is when the last drain that evicted pods from the node ended, or when it began if it is in progress. Absent
	// when the pods that replace them are Ready.
	// +optional
	DrainedAt *metav1.Time `json:"drainedAt,omitempty"`

	// lastReboot is the last restart that Windows required, while it is relevant: the operator does not restart the host
	// again for the same causes.
	// +structType=atomic
	// +optional
	LastReboot *LastReboot `json:"lastReboot,omitempty"`

	// installedUpdates are the Windows updates that the operator last had installed on the host, the newest first. One
	// that Windows still offers is not installed again.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	InstalledUpdates []InstalledUpdate `json:"installedUpdates,omitempty"`

	// retriedAt is when the user last requested, with the annotation retry, another restart of a host whose join a restart
	// did not fix.
	// +optional
	RetriedAt *metav1.Time `json:"retriedAt,omitempty"`

	// failure is the last action that failed. The operator does not retry it until something changes.
	// +structType=atomic
	// +optional
	Failure *Failure `json:"failure,omitempty"`

	// conditions are Reachable, Supported, Configured, NodeReady and Ready (good when True), and Stalled, Draining,
	// RebootRequired and WindowsUnsupported (bad when True; absent otherwise).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Plan is the next action on a host.
type Plan struct {
	// action is the action that comes next.
	Action PlanAction `json:"action"`
	// disruption is the effect of the action on pods: None does not affect pods, Restart restarts services while pods
	// keep running, Drain moves the pods to other nodes, Reboot drains the node and then restarts the host.
	// +kubebuilder:validation:Enum=None;Restart;Drain;Reboot
	Disruption PlanDisruption `json:"disruption"`
	// waitsFor is the reason why the action has not started. Empty while it runs.
	// +optional
	WaitsFor string `json:"waitsFor,omitempty"`
	// message explains why the action is due and what it waits for.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// PlanAction is an action of the operator on a host.
//
// +kubebuilder:validation:Enum=Join;Stage;Upgrade;Repair;Reboot;Patch;Replace;Leave
type PlanAction string

// The actions.
const (
	// ActionJoin makes the host a node.
	ActionJoin PlanAction = "Join"
	// ActionStage sends the content of another version to the host in advance.
	ActionStage PlanAction = "Stage"
	// ActionUpgrade moves the node to another version, newer or older.
	ActionUpgrade PlanAction = "Upgrade"
	// ActionRepair joins the host again because its node does not work.
	ActionRepair PlanAction = "Repair"
	// ActionReboot restarts the host.
	ActionReboot PlanAction = "Reboot"
	// ActionPatch installs Windows updates, and restarts the host if they need it.
	ActionPatch PlanAction = "Patch"
	// ActionReplace deletes the Machine of the host, or drains and removes a host that has spec.replaceWith.
	ActionReplace PlanAction = "Replace"
	// ActionLeave removes everything the operator installed from the host and deletes the Node.
	ActionLeave PlanAction = "Leave"
)

// PlanDisruption is the effect of an action on the pods of a node.
type PlanDisruption string

// The disruptions, from the smallest to the largest.
const (
	// DisruptionNone does not affect pods.
	DisruptionNone PlanDisruption = "None"
	// DisruptionRestart restarts services while pods keep running.
	DisruptionRestart PlanDisruption = "Restart"
	// DisruptionDrain moves the pods to other nodes.
	DisruptionDrain PlanDisruption = "Drain"
	// DisruptionReboot drains the node and then restarts the host.
	DisruptionReboot PlanDisruption = "Reboot"
)

// NodeReference names a Node.
type NodeReference struct {
	// name is the name of the Node.
	Name string `json:"name"`
	// uid is the UID of the Node. Another Node with that name must be proven to belong to the host.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// PayloadStatus compares the payload that runs with the desired one. Each value is the first twelve digits of the
// digest of all files.
type PayloadStatus struct {
	// current is the payload the host was last joined with.
	// +optional
	Current string `json:"current,omitempty"`
	// desired is the payload that the operator has.
	// +optional
	Desired string `json:"desired,omitempty"`
	// staged is the payload that was sent to the host in advance, so that the node can move to it at once.
	// +optional
	Staged string `json:"staged,omitempty"`
	// since is when the node reached its current version.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// StepStatus is the state of one step of the last join.
type StepStatus struct {
	// name is the name of the step: Connect, Inspect, Check, Transfer, Configure, Register or Ready.
	Name string `json:"name"`
	// state is the state of the step.
	// +kubebuilder:validation:Enum=Waiting;Running;Done;Failed
	State StepState `json:"state"`
	// message describes what the step currently does, or why it failed.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// startedAt is when the step started.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// finishedAt is when the step finished.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
}

// StepState is the state of a step of a join.
type StepState string

// The states of a step.
const (
	// StepWaiting means that the step has not started.
	StepWaiting StepState = "Waiting"
	// StepRunning means that the step is in progress.
	StepRunning StepState = "Running"
	// StepDone means that the step has succeeded.
	StepDone StepState = "Done"
	// StepFailed means that the step has failed.
	StepFailed StepState = "Failed"
)
