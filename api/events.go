package api

// Reasons of events that are not reasons of a condition.
const (
	// EventInstanceInvalid is reported on ConfigMap windows-instances, or on a Machine, for an entry or a Machine that
	// gets no WindowsInstance, and on ConfigMap windows-known-hosts for lines that cannot be used.
	EventInstanceInvalid = "InstanceInvalid"
	// EventInstanceSetup is reported on ConfigMap windows-instances, or on a Machine, when a WindowsInstance was
	// created from an entry or the Machine.
	EventInstanceSetup = "InstanceSetup"
	// EventInstanceTeardown is reported on ConfigMap windows-instances, or on a Machine, when the WindowsInstance
	// created from it was removed.
	EventInstanceTeardown = "InstanceTeardown"
	// EventCertificateRefused is reported on a certificate request that claims to come from a Windows host and breaks a
	// rule.
	EventCertificateRefused = "CertificateRefused"
	// EventAddressDisputed is reported on a Node that claims an address which is proven to belong to another host, or at
	// which an entry announces a new host, and on a WindowsInstance whose address a Service claims.
	EventAddressDisputed = "AddressDisputed"
	// EventProviderIDDiffers is reported on a Machine whose host's Node has a different spec.providerID than the Machine.
	EventProviderIDDiffers = "ProviderIDDiffers"
	// EventHostKeyPinned is reported on a WindowsInstance when its host key was seen for the first time and stored.
	EventHostKeyPinned = "HostKeyPinned"
	// EventHostKeyShared is reported on a WindowsInstance whose host presents the same key as another one, as copies of
	// one image do. Each of these hosts can impersonate the others.
	EventHostKeyShared = "HostKeyShared"
	// EventSettingsIgnored is reported on the object (a mirror set or a WindowsConfig) that declares a setting that nodes
	// cannot have.
	EventSettingsIgnored = "SettingsIgnored"
	// EventSettingsPublished is reported on ConfigMap windows-services-<version> when nodes can read new settings.
	EventSettingsPublished = "SettingsPublished"
	// EventSettingsRestored is reported on ConfigMap windows-services-<version> when it, or an object that belongs to
	// it, was deleted or changed and the operator created it again. It is also reported on Secret windows-user-data
	// when the operator updated it.
	EventSettingsRestored = "SettingsRestored"
	// EventPolicyApplied is reported on an admission policy or its binding that was missing or different, and that the
	// operator applied (--apply-policies).
	EventPolicyApplied = "PolicyApplied"
	// EventSigningKeyMade is reported on Secret windows-settings-signing-key when the operator created it. Nodes that
	// know another key are joined again.
	EventSigningKeyMade = "SigningKeyMade"
	// EventSettingsRefused is reported on a Node that rejects a ConfigMap windows-services-<version>, because the operator
	// did not sign that content, or because it is older than the settings of the node. The note contains the cause.
	EventSettingsRefused = "SettingsRefused"
	// EventVersionRefused is reported on a Node that keeps its version although annotation desired-version names another
	// one: annotation version-order is missing, is not what the operator signed for that version and this Node, or was
	// already used. The note contains the cause.
	EventVersionRefused = "VersionRefused"
	// EventServiceCrashLoop is reported on a Node when one of its services crashes repeatedly. The note ends with the
	// last lines of the service's log.
	EventServiceCrashLoop = ReasonServiceCrashLoop
	// EventServiceNotReady is reported on a Node when one of its services runs without working while other services
	// depend on it.
	EventServiceNotReady = ReasonServiceNotReady
	// EventUpdateFailed is reported on a Node whose update to another version failed and was rolled back.
	EventUpdateFailed = ReasonUpdateFailed
	// EventMaintenanceStarted is reported on a WindowsInstance when an action starts on its host after the join.
	EventMaintenanceStarted = "MaintenanceStarted"
	// EventMaintenanceDone is reported on a WindowsInstance when its node works again and is back in service.
	EventMaintenanceDone = "MaintenanceDone"
	// EventUninstallingUpdate is reported on a WindowsInstance when its node does not work with an update of Windows, and the
	// cumulative update is uninstalled as spec.windowsUpdates.rollback of WindowsConfig allows.
	EventUninstallingUpdate = "UninstallingUpdate"
	// EventMaintenanceFailed is reported on a WindowsInstance when an action on its host failed. The note contains the
	// error.
	EventMaintenanceFailed = "MaintenanceFailed"
	// EventMaintenanceDeferred is reported on a WindowsInstance when an action that began because its node was broken is
	// abandoned before it changed anything, because the node works again. The plan decides when the action may begin again.
	EventMaintenanceDeferred = "MaintenanceDeferred"
	// EventPodsRemain is reported on a WindowsInstance whose node was drained although some pods are still on it: they
	// started after the node was cordoned, or should have ended long ago and spec.rollout.drain.onTimeout is Force.
	EventPodsRemain = "PodsRemain"
	// EventHostLeft is reported on a WindowsInstance whose host has left the cluster. The note names what remains on the
	// host.
	EventHostLeft = "HostLeft"
	// EventHostReleased is reported on a WindowsInstance that was removed although its host could not be cleaned up.
	EventHostReleased = "HostReleased"
	// EventNodeOrphaned is reported on a Windows Node that has had no WindowsInstance for ten minutes: once for each
	// Node while the operator runs, and for at most twenty Nodes.
	EventNodeOrphaned = "NodeOrphaned"
	// EventRegistryUnavailable is reported on a Node whose daemon cannot serve registry mirrors to containerd, because
	// another program has its port.
	EventRegistryUnavailable = "RegistryUnavailable"
	// EventDefenderExclusions is reported on a Node on which Microsoft Defender does not have the exclusions of containerd
	// that WindowsConfig requests, because a policy or tamper protection prevents it, or because Defender does not answer.
	// The note explains what to do.
	EventDefenderExclusions = ReasonDefenderExclusionsMissing
	// EventCommitLimitNear is reported on a Node when condition WindowsCommitPressure becomes True.
	EventCommitLimitNear = ReasonCommitLimitNear
	// EventHCSUnavailable is reported on a Node when condition WindowsHostComputeUnavailable becomes True.
	EventHCSUnavailable = ReasonHCSUnavailable
	// EventClockOutOfSync is reported on a Node when condition WindowsClockSkewed becomes True.
	EventClockOutOfSync = ReasonClockOutOfSync
	// EventWindowsUpdateNeeded is reported on a Node when condition WindowsUpdateNeeded becomes True.
	EventWindowsUpdateNeeded = ReasonWindowsUpdateNeeded
	// EventUpdatesOverdue is reported on a Node when condition WindowsUpdatesOverdue becomes True because the newest
	// installed update is old.
	EventUpdatesOverdue = ReasonUpdatesOverdue
	// EventRevisionTooLow is reported on a Node when condition WindowsUpdatesOverdue becomes True because the revision of
	// Windows is lower than WindowsConfig requires.
	EventRevisionTooLow = ReasonRevisionTooLow
	// EventUpdateDeadlinePassed is reported on a Node when condition WindowsUpdatesOverdue becomes True because an update is
	// pending for longer than WindowsConfig allows.
	EventUpdateDeadlinePassed = ReasonUpdateDeadlinePassed
	// EventUpdateSearchOverdue is reported on a Node when condition WindowsUpdatesOverdue becomes True because Windows has
	// not searched for updates.
	EventUpdateSearchOverdue = ReasonUpdateSearchOverdue
	// EventUpdateServiceDisabled is reported on a Node when condition WindowsUpdatesOverdue becomes True because the service
	// of Windows Update is disabled.
	EventUpdateServiceDisabled = ReasonUpdateServiceDisabled
	// EventVMwareToolsHideVirtualAdapters is reported on a Node when condition WindowsAddressesHidden becomes True.
	EventVMwareToolsHideVirtualAdapters = ReasonVMwareToolsHideVirtualAdapters
	// EventRebootPending is reported on a Node when a restart of Windows becomes pending.
	EventRebootPending = ReasonRebootPending
	// EventRebootDidNotHelp is reported on a WindowsInstance when Windows waits for a restart for the same causes as before the
	// last one. The operator does not restart the host for these causes again.
	EventRebootDidNotHelp = ReasonRebootDidNotHelp
	// EventCollectRefused is reported on a WindowsInstance whose annotation collect is invalid, or could not be set on the
	// Node.
	EventCollectRefused = "CollectRefused"
	// EventRuntimeClassConflict is reported on a RuntimeClass that has the name of one of the operator's RuntimeClasses,
	// but was not created by the operator, which leaves it unchanged.
	EventRuntimeClassConflict = "RuntimeClassConflict"
	// EventOverlayLeftoversRemoved is reported on a Windows Node when the operator removed annotations that OVN-Kubernetes
	// wrote to it while the hybrid overlay was off. With them, Linux pods do not reach the node's pods.
	EventOverlayLeftoversRemoved = "OverlayLeftoversRemoved"
	// EventNodeTakenForLinux is reported on a Windows Node that OVN-Kubernetes keeps treating as a Linux node, because its
	// no-hostsubnet-nodes does not select Windows nodes.
	EventNodeTakenForLinux = "NodeTakenForLinux"
	// EventNetworkPolicyNotEnforced is reported on a NetworkPolicy that selects a pod on a Windows node, where the network
	// enforces no NetworkPolicy: once for each generation of the policy.
	EventNetworkPolicyNotEnforced = "NetworkPolicyNotEnforced"
	// EventNetworkPolicyInvalid is reported on a NetworkPolicy of which a part is invalid or unknown, in a namespace with
	// pods on Windows nodes, once for each generation: the part allows nothing there. The note names the field.
	EventNetworkPolicyInvalid = "NetworkPolicyInvalid"
	// EventNetworkPolicyIPv6Ignored is reported on a NetworkPolicy with IPv6 ranges, in a namespace with pods on Windows
	// nodes, once for each generation: these pods have no IPv6 addresses.
	EventNetworkPolicyIPv6Ignored = "NetworkPolicyIPv6Ignored"
	// EventNetworkPolicyTooLarge is reported on the NetworkPolicies of a namespace with pods on Windows nodes, once for each
	// generation, if they are too large for the nodes or for the operator's memory: they close the namespace's pods there.
	EventNetworkPolicyTooLarge = "NetworkPolicyTooLarge"
	// EventNodeReady is reported on a WindowsInstance when its host has become a Ready node.
	EventNodeReady = "NodeReady"
)

// ApprovalReason is the reason of the approval condition on certificate requests that the operator approves. The
// original operator uses the same name.
const ApprovalReason = "WMCOApprove"
