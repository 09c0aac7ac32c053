package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WindowsInstance is one Windows Server host that is, or is to become, a node of this cluster.
// The operator makes one for each entry of the ConfigMap windows-instances; users may write their own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=winst,path=windowsinstances,singular=windowsinstance
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.metadata.labels.windowsmachineconfig\.openshift\.io/source`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeRef.name`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.plan.action`
// +kubebuilder:printcolumn:name="Waits For",type=string,JSONPath=`.status.plan.waitsFor`
// +kubebuilder:printcolumn:name="Payload",type=string,JSONPath=`.status.payload.current`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WindowsInstance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user, or the source the instance comes from, asks for.
	// +required
	Spec WindowsInstanceSpec `json:"spec"`

	// status is what the operator has seen and done. Only the operator writes it.
	// +optional
	Status WindowsInstanceStatus `json:"status,omitempty"`
}

// WindowsInstanceList is a list of WindowsInstance.
//
// +kubebuilder:object:root=true
type WindowsInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WindowsInstance `json:"items"`
}

// WindowsInstanceSpec says where the host is, how to log in, and what its node shall look like.
type WindowsInstanceSpec struct {
	// address is the IPv4 address or DNS name under which the operator reaches the host by SSH.
	// It cannot change: another address is another instance. Addresses that are nobody's host, of the operator's own machine (loopback)
	// and of the cluster's own machines and Services are refused, here or when the operator is about to connect.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="address cannot change; another address is another WindowsInstance"
	// +kubebuilder:validation:XValidation:rule="!self.contains(':')",message="address must be an IPv4 address or a DNS name; IPv6 addresses are not supported"
	// +kubebuilder:validation:XValidation:rule="self.contains(':') || self.matches('^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$')",message="address must be an IPv4 address or a DNS name"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(0|127|169[.]254|22[4-9]|23[0-9]|24[0-9]|25[0-5])[.][0-9.]+$')",message="address must be one that a Windows host can have: not loopback, link-local, multicast, broadcast or reserved"
	// +required
	Address string `json:"address"`

	// username is a local or domain account in the host's Administrators group whose authorized keys
	// hold the public half of the key in Secret cloud-private-key.
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

	// hostKey pins the host's SSH key in advance, as ssh-keyscan prints it without the host name:
	// "ssh-ed25519 AAAA...". Empty means: the key shown at first contact is kept in status.hostKey and
	// asked for from then on. Setting it also answers a host key that changed for a good reason.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^((ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp256|ecdsa-sha2-nistp384|ecdsa-sha2-nistp521) [A-Za-z0-9+/]+={0,2}( .*)?)?$`
	// +optional
	HostKey string `json:"hostKey,omitempty"`

	// hostname is the name that the host shall have; with another name it is renamed and restarted when it joins. Empty means: the
	// name it has.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$')",message="hostname must be one label of lower-case letters, digits and hyphens"
	// +optional
	Hostname string `json:"hostname,omitempty"`

	// nodeLabels are put on the node, besides those of the operator, and kept there.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// nodeTaints are put on the node when it registers, besides os=Windows:NoSchedule.
	// +kubebuilder:validation:MaxItems=32
	// +optional
	NodeTaints []corev1.Taint `json:"nodeTaints,omitempty"`

	// network says which of the host's interfaces the cluster uses, where it has more than one.
	// +optional
	Network *InstanceNetwork `json:"network,omitempty"`

	// paused leaves the host as it is: nothing is started on it until paused is taken away. A version that failed on it goes on to the others.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// InstanceNetwork chooses the interface whose address the node has, and which carries the pod network. Without it, that is the interface
// with the default route.
//
// +kubebuilder:validation:XValidation:rule="!has(self.interface) || !has(self.cidr)",message="at most one of network.interface and network.cidr may be set"
type InstanceNetwork struct {
	// interface is the name of the interface, as Get-NetAdapter shows it: "Ethernet 2".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Interface string `json:"interface,omitempty"`

	// cidr is a range of IPv4 addresses: the interface that has an address in it is taken, and this address with it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4",message="cidr must be a range of IPv4 addresses, for example 10.0.8.0/24"
	// +optional
	CIDR string `json:"cidr,omitempty"`
}

// WindowsInstanceStatus is what the operator knows of a host.
type WindowsInstanceStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// nodeRef names the Node this host became.
	// +optional
	NodeRef *NodeReference `json:"nodeRef,omitempty"`

	// hostname is the name of the node: the host's own, in lower case, or that which the cloud has for its machine.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Hostname string `json:"hostname,omitempty"`

	// hostnameFixed says that the host was handed a token for hostname. From then on it may join under no other name, until the user
	// accepts one with annotation accept-hostname or spec.hostname.
	// +optional
	HostnameFixed bool `json:"hostnameFixed,omitempty"`

	// nodeIP is the IPv4 address of the host's default-route interface, or of the one that spec.network chooses; the kubelet
	// registers with it. The host was reached there, or showed its SSH key there.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	NodeIP string `json:"nodeIP,omitempty"`

	// osBuild is the host's Windows build with its update revision, for example 10.0.20348.2402.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	OSBuild string `json:"osBuild,omitempty"`

	// bootID changes with every start of the host. Windows counts it.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	BootID string `json:"bootID,omitempty"`

	// hostKey is the SSH host key that is asked for at every connection, in authorized-keys form.
	// +optional
	HostKey string `json:"hostKey,omitempty"`

	// hostKeyFingerprint is the SHA256 fingerprint of hostKey, as ssh-keygen -l prints it.
	// +optional
	HostKeyFingerprint string `json:"hostKeyFingerprint,omitempty"`

	// payload is the content the host runs and the content it shall run.
	// +structType=atomic
	// +optional
	Payload PayloadStatus `json:"payload,omitempty"`

	// bootstrapCredentialID is the ID of the short-lived token the host joins with (a JTI, not a secret).
	// Certificate requests made with any other credential are not approved for this host.
	// +optional
	BootstrapCredentialID string `json:"bootstrapCredentialID,omitempty"`

	// steps of the last join, in order.
	// +listType=atomic
	// +optional
	Steps []StepStatus `json:"steps,omitempty"`

	// plan is what happens to the host next, how disruptive that is, and what it waits for.
	// +structType=atomic
	// +optional
	Plan *Plan `json:"plan,omitempty"`

	// maintenance is what the operator is doing with the host after its join; absent when it does nothing.
	// +structType=atomic
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`

	// failure is what the operator tried in vain and does not try again before something changes.
	// +structType=atomic
	// +optional
	Failure *Failure `json:"failure,omitempty"`

	// conditions are Reachable, Supported, Configured, NodeReady and Ready (good when True), and
	// Stalled, Draining and RebootRequired (bad when True; absent otherwise).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Plan is what happens to a host next.
type Plan struct {
	// action that comes next.
	Action PlanAction `json:"action"`
	// disruption of the action: None leaves all pods alone, Restart starts services anew while pods go on, Drain moves the pods
	// to other nodes, Reboot restarts the host after that.
	// +kubebuilder:validation:Enum=None;Restart;Drain;Reboot
	Disruption PlanDisruption `json:"disruption"`
	// waitsFor is the reason why the action has not begun; empty while it runs.
	// +optional
	WaitsFor string `json:"waitsFor,omitempty"`
	// message says why the action is due, and what it waits for.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// PlanAction is something that the operator does with a host.
// +kubebuilder:validation:Enum=Join;Stage;Upgrade;Repair;Reboot;Replace;Leave
type PlanAction string

// The actions.
const (
	// ActionJoin makes the host a node.
	ActionJoin PlanAction = "Join"
	// ActionStage sends the content of another version, for later.
	ActionStage PlanAction = "Stage"
	// ActionUpgrade takes the node to another version, newer or older.
	ActionUpgrade PlanAction = "Upgrade"
	// ActionRepair joins the host of a node again that does not work.
	ActionRepair PlanAction = "Repair"
	// ActionReboot restarts the host.
	ActionReboot PlanAction = "Reboot"
	// ActionReplace deletes the Machine of the host.
	ActionReplace PlanAction = "Replace"
	// ActionLeave takes everything of ours off the host and deletes the Node.
	ActionLeave PlanAction = "Leave"
)

// PlanDisruption is what an action does to the pods of a node.
type PlanDisruption string

// The disruptions, from the least to the greatest.
const (
	DisruptionNone    PlanDisruption = "None"
	DisruptionRestart PlanDisruption = "Restart"
	DisruptionDrain   PlanDisruption = "Drain"
	DisruptionReboot  PlanDisruption = "Reboot"
)

// Maintenance is an action under way. It is written before anything is done, so that an operator that starts anew goes on.
type Maintenance struct {
	// action under way.
	Action PlanAction `json:"action"`
	// step it is in: Drain, Act, Verify.
	// +kubebuilder:validation:Enum=Drain;Act;Verify
	Step MaintenanceStep `json:"step"`
	// disruption that was found necessary.
	// +kubebuilder:validation:Enum=None;Restart;Drain;Reboot
	Disruption PlanDisruption `json:"disruption"`
	// version is the version that an Upgrade installs.
	// +optional
	Version string `json:"version,omitempty"`
	// previousVersion is the version the node had before an Upgrade; a failed Upgrade returns to it.
	// +optional
	PreviousVersion string `json:"previousVersion,omitempty"`
	// bootID is the boot ID of the host before a Reboot.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// requestToken is the value of the reboot annotation that requested a Reboot.
	// +optional
	RequestToken string `json:"requestToken,omitempty"`
	// startedAt is when the action began.
	StartedAt metav1.Time `json:"startedAt"`
	// stepStartedAt is when the current step began.
	StepStartedAt metav1.Time `json:"stepStartedAt"`
	// rejoins is how often the host was joined again because its node did not come back, and rejoinedAt when last.
	// +optional
	Rejoins int32 `json:"rejoins,omitempty"`
	// rejoinedAt is when the host was joined again last.
	// +optional
	RejoinedAt *metav1.Time `json:"rejoinedAt,omitempty"`
	// message says what the step waits for.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// MaintenanceStep is a part of an action.
type MaintenanceStep string

// The steps of an action, in order.
const (
	// MaintenanceDrain keeps new pods away and moves those that are there.
	MaintenanceDrain MaintenanceStep = "Drain"
	// MaintenanceAct does what is to be done.
	MaintenanceAct MaintenanceStep = "Act"
	// MaintenanceVerify waits until the node works; then it comes back into service.
	MaintenanceVerify MaintenanceStep = "Verify"
)

// Failure is an action that failed.
type Failure struct {
	// action that failed.
	Action PlanAction `json:"action"`
	// version that an Upgrade went to in vain.
	// +optional
	Version string `json:"version,omitempty"`
	// step in which it failed. A drain that was given up is not the version's fault.
	// +optional
	Step MaintenanceStep `json:"step,omitempty"`
	// attempts so far.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// at is when it failed.
	At metav1.Time `json:"at"`
	// message says why.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// NodeReference names a Node.
type NodeReference struct {
	// name of the Node.
	Name string `json:"name"`
}

// PayloadStatus compares what runs with what is wanted. Values are the first twelve digits of the digest
// of all files.
type PayloadStatus struct {
	// current is what the host was last joined with.
	// +optional
	Current string `json:"current,omitempty"`
	// desired is what the operator carries.
	// +optional
	Desired string `json:"desired,omitempty"`
	// staged is what was sent to the host, so that it can go there at once.
	// +optional
	Staged string `json:"staged,omitempty"`
	// since is when the node came to the version it has.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// StepStatus is how one step of the last join went.
type StepStatus struct {
	// name of the step: Connect, Inspect, Check, Transfer, Configure, Register, Ready.
	Name string `json:"name"`
	// state of the step.
	// +kubebuilder:validation:Enum=Waiting;Running;Done;Failed
	State StepState `json:"state"`
	// message says what the step does now, or why it failed.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// startedAt is when the step began.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// finishedAt is when the step was done.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
}

// StepState is the state of a step of a join.
type StepState string

// The states of a step.
const (
	StepWaiting StepState = "Waiting"
	StepRunning StepState = "Running"
	StepDone    StepState = "Done"
	StepFailed  StepState = "Failed"
)
