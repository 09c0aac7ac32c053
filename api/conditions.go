package api

// Conditions of a WindowsInstance. All are written by the operator.
const (
	// ConditionReachable is True while the host answers by SSH with the key we know. Good when True.
	ConditionReachable = "Reachable"
	// ConditionSupported is True when the host can become a node: build, edition, name, disk, clock, no foreign
	// services. Good when True.
	ConditionSupported = "Supported"
	// ConditionConfigured is True when everything the host needs is on it and its services are installed. Good when True.
	ConditionConfigured = "Configured"
	// ConditionNodeReady follows the Node: it exists, its kubelet says Ready, and WICD reports the version. Good when True.
	ConditionNodeReady = "NodeReady"
	// ConditionReady sums up: the host is a Ready node as the cluster wants it. Its reason is that of the
	// first condition that is not as it should be. Good when True.
	ConditionReady = "Ready"
	// ConditionStalled is True when only the user can help; its message says how. Absent otherwise. Bad when True.
	ConditionStalled = "Stalled"
	// ConditionRebootRequired is True from when a host must restart to go on until it has. Absent otherwise. Bad when True.
	ConditionRebootRequired = "RebootRequired"
	// ConditionDraining is True while pods leave the node; its message names those that do not, and the budgets in their way.
	// Absent otherwise. Bad when True.
	ConditionDraining = "Draining"
)

// Conditions of WindowsConfig. They are written by the operator.
const (
	// ConditionPublished is True when the settings make sense as a whole and nodes can read them. Good when True.
	ConditionPublished = "Published"
	// ConditionDegraded is True when a part of the settings cannot be had: a mirror set that containerd cannot express, a
	// certificate that has expired. The rest is published. Bad when True.
	ConditionDegraded = "Degraded"
	// ConditionPolicies is True while the admission policies that limit hosts and the operator are in the cluster as they were installed.
	// While it is not, no host joins, and WICD's certificates are not renewed. Good when True.
	ConditionPolicies = "PoliciesInForce"
)

// Conditions of a Node. They are written by the daemon on the host (WICD), and by nobody else.
const (
	// ConditionServicesHealthy is False while a service of the node keeps dying, or runs and does not work while others wait
	// for it; the message names it and ends with the last lines of its log. It is True again when none has died for five minutes.
	// Absent until all services ran once. Good when True.
	ConditionServicesHealthy = "WindowsServicesHealthy"
	// ConditionUpdated is False after the node went to another version in vain and back; the message says why, and ends with
	// the last lines of the log concerned. It is True again when the node is to have the version it has. Absent until an
	// update failed. Good when True.
	ConditionUpdated = "WindowsUpdated"
	// ConditionNodeRebootRequired is True while Windows itself waits for a restart; the message says what for. Bad when True,
	// absent until Windows waited for the first time.
	ConditionNodeRebootRequired = "WindowsRebootRequired"
	// ConditionWindowsNetworkUnavailable is True while the network of pods is not as it should be: the Host Network Service does not
	// answer, or has lost networks, endpoints or load balancers; the message says which. The daemon mends it meanwhile. Bad when
	// True, absent where the network is the user's own (provider Custom).
	ConditionWindowsNetworkUnavailable = "WindowsNetworkUnavailable"
)

// Reasons of condition WindowsNetworkUnavailable of Nodes.
const (
	// ReasonNetworkWorks means that networks, endpoints and load balancers are as they should be.
	ReasonNetworkWorks = "NetworkWorks"
	// ReasonHNSUnavailable means that the Host Network Service of Windows does not answer.
	ReasonHNSUnavailable = "HNSUnavailable"
	// ReasonHNSNetworkMissing means that the network of pods is not there: it is not made yet, or was lost.
	ReasonHNSNetworkMissing = "HNSNetworkMissing"
	// ReasonHNSEndpointLost means that pods, or the host itself, have no endpoint in the network of pods.
	ReasonHNSEndpointLost = "HNSEndpointLost"
	// ReasonLoadBalancersLost means that Services have no load balancer on the node.
	ReasonLoadBalancersLost = "LoadBalancersLost"
	// ReasonNetworkRepaired is that of events: the daemon mended the network of pods.
	ReasonNetworkRepaired = "NetworkRepaired"
)

// Reasons of condition WindowsRebootRequired.
const (
	// ReasonRebootPending means that Windows waits for a restart.
	ReasonRebootPending = "RebootPending"
	// ReasonNoRebootPending means that it does not any more.
	ReasonNoRebootPending = "NoRebootPending"
)

// Reasons of condition WindowsUpdated.
const (
	// ReasonUpToDate means that the node has the version it shall have.
	ReasonUpToDate = "UpToDate"
	// ReasonUpdateFailed means that the version that the node shall have did not work, and the node has its former one.
	ReasonUpdateFailed = "UpdateFailed"
)

// Reasons of condition WindowsServicesHealthy.
const (
	// ReasonServicesRunning means that every service runs.
	ReasonServicesRunning = "ServicesRunning"
	// ReasonServiceCrashLoop means that a service died, or could not be started, three times within five minutes.
	ReasonServiceCrashLoop = "ServiceCrashLoop"
	// ReasonServiceNotReady means that a service runs, has not worked for a minute, and others wait for it.
	ReasonServiceNotReady = "ServiceNotReady"
)

// Reasons of conditions Published and Degraded. Where the network is wrong, Published has the reason that Configured has of instances
// that wait for it.
const (
	// ReasonPublished means that nodes can read the settings.
	ReasonPublished = "Published"
	// ReasonSettingsInvalid means that nothing can be published: nodes keep what they have.
	ReasonSettingsInvalid = "SettingsInvalid"
	// ReasonSettingsIgnored means that the message names parts of the settings that had to be left out.
	ReasonSettingsIgnored = "SettingsIgnored"
	// ReasonPoliciesInForce means that every admission policy is there.
	ReasonPoliciesInForce = "PoliciesInForce"
	// ReasonPoliciesAltered means that an admission policy or its binding is missing, is not as this version of the operator has it, or may
	// not be read; the message says which. It is also that of Configured of instances that wait for it, and of events on policies.
	ReasonPoliciesAltered = "PoliciesAltered"
	// ReasonAsExpected means that nothing was left out.
	ReasonAsExpected = "AsExpected"
)

// Reasons of condition Reachable.
const (
	// ReasonConnected means that the host answered and showed the right key.
	ReasonConnected = "Connected"
	// ReasonConnectionRefused means that nothing listens on the host's SSH port.
	ReasonConnectionRefused = "ConnectionRefused"
	// ReasonConnectionTimeout means that nothing came back: host off, wrong address, or a firewall.
	ReasonConnectionTimeout = "ConnectionTimeout"
	// ReasonNoRoute means that the network knows no way to the host.
	ReasonNoRoute = "NoRoute"
	// ReasonNotSSH means that what listens on the port is no SSH server, or shares no algorithm with us.
	ReasonNotSSH = "NotSSH"
	// ReasonAddressUnresolvable means that the DNS name has no IPv4 address.
	ReasonAddressUnresolvable = "AddressUnresolvable"
	// ReasonAddressInvalid means that no Windows host can have the address, or one that its name has: loopback, link-local, multicast, of
	// Services, of pods, of the API server, or of a Node that is not Windows. It is not connected to.
	ReasonAddressInvalid = "AddressInvalid"
	// ReasonAuthenticationFailed means that the host knows neither this user nor this key.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonHostKeyChanged means that the host shows another key than before: another machine, a new
	// installation, or an attack. Nothing is sent until the user confirms the new key in spec.hostKey.
	ReasonHostKeyChanged = "HostKeyChanged"
	// ReasonHostKeyUnknown means that WindowsConfig (trust) wants hosts whose key is known in advance, and this one's is not. Nothing is
	// sent until the user has compared the fingerprint in the message and set spec.hostKey.
	ReasonHostKeyUnknown = "HostKeyUnknown"
	// ReasonHostKeyUnsuitable means that the host's key is too weak to know it by.
	ReasonHostKeyUnsuitable = "HostKeyUnsuitable"
	// ReasonConnectionLost means that the connection broke in the middle of the work. It is taken up again.
	ReasonConnectionLost = "ConnectionLost"
)

// Reasons of condition Supported.
const (
	// ReasonSupported means that all checks passed.
	ReasonSupported = "Supported"
	// ReasonBuildUnsupported means a Windows build other than 17763, 20348 and 26100.
	ReasonBuildUnsupported = "BuildUnsupported"
	// ReasonArchitectureUnsupported means a processor that is not x64.
	ReasonArchitectureUnsupported = "ArchitectureUnsupported"
	// ReasonEditionUnsupported means a Windows that is not a server.
	ReasonEditionUnsupported = "EditionUnsupported"
	// ReasonHostnameInvalid means that the host's name, in lower case, is no RFC 1123 label, or that the name that its cloud has for
	// it cannot name a node.
	ReasonHostnameInvalid = "HostnameInvalid"
	// ReasonHostnameConflict means that another instance or node has this name already.
	ReasonHostnameConflict = "HostnameConflict"
	// ReasonHostnameChanged means that the host calls itself otherwise than when it was handed a token for its node's name. It keeps that
	// name until annotation accept-hostname of its instance, or spec.hostname, has the other one.
	ReasonHostnameChanged = "HostnameChanged"
	// ReasonAddressNotProven means that the address which the host names for its node is not the one it was reached at, and that at that
	// address nobody answers with the host's SSH key.
	ReasonAddressNotProven = "AddressNotProven"
	// ReasonServiceConflict means that a service with the name of one of ours is there and is not ours.
	ReasonServiceConflict = "ServiceConflict"
	// ReasonDiskTooSmall means less than 5 GB free on drive C:.
	ReasonDiskTooSmall = "DiskTooSmall"
	// ReasonClockSkewed means that the host's clock is off by more than two minutes.
	ReasonClockSkewed = "ClockSkewed"
	// ReasonAddressMissing means that the host has no IPv4 address for its node: none on the interface with the default route, or on
	// the one that spec.network of the instance chooses.
	ReasonAddressMissing = "AddressMissing"
	// ReasonTrunkPortUnsupported means that the adapter of the node's address puts its packets into a virtual LAN by itself, as it
	// has to on a trunk port of a switch.
	ReasonTrunkPortUnsupported = "TrunkPortUnsupported"
	// ReasonVXLANPortUnsupported means that the overlay has a port of its own and that the host's Windows (build 17763) can use none but
	// 4789.
	ReasonVXLANPortUnsupported = "VXLANPortUnsupported"
)

// Reasons of condition Configured.
const (
	// ReasonConfigured means that the host has everything.
	ReasonConfigured = "Configured"
	// ReasonJoining means that the steps of the join run; status.steps says which.
	ReasonJoining = "Joining"
	// ReasonRebooting means that the host restarts to go on with the join. Condition Reachable has it while the host does not answer for
	// that reason.
	ReasonRebooting = "Rebooting"
	// ReasonWaitingForSlot means that rollout.maxConcurrentJoins hosts are joining already.
	ReasonWaitingForSlot = "WaitingForSlot"
	// ReasonPaused means that spec.paused, or rollout.paused in WindowsConfig, holds the host where it is.
	ReasonPaused = "Paused"
	// ReasonAdoptionPending means that somebody else, as the original operator, configured the host, and that its node is drained before it is
	// joined.
	ReasonAdoptionPending = "AdoptionPending"
	// ReasonJoinFailed means that a step failed; its message says which and why. It is tried again.
	ReasonJoinFailed = "JoinFailed"
	// ReasonContentAltered means that a file on the host, or on its way, did not have the right content. It is sent again.
	ReasonContentAltered = "ContentAltered"
	// ReasonTransferTooSlow means that the host took less than 1 MiB of content in two minutes, or worked on it for ten without an end. Another
	// host got its place; the next attempt goes on at the byte where this one ended.
	ReasonTransferTooSlow = "TransferTooSlow"
	// ReasonNetworkNotConfigured means that WindowsConfig names no network provider, or one that cannot work.
	ReasonNetworkNotConfigured = "NetworkNotConfigured"
	// ReasonNetworkTypeUnsupported means that the cluster's network is not OVN-Kubernetes, which the provider needs.
	ReasonNetworkTypeUnsupported = "NetworkTypeUnsupported"
	// ReasonHybridOverlayNotConfigured means that OVN-Kubernetes has no range of addresses for pods on Windows nodes.
	ReasonHybridOverlayNotConfigured = "HybridOverlayNotConfigured"
	// ReasonNetworksOverlap means that two of the cluster's ranges, of pods, of pods on Windows nodes and of Services, share addresses.
	ReasonNetworksOverlap = "NetworksOverlap"
	// ReasonClusterNetworkReserved means that pods have addresses of class E (240.0.0.0/4), which Windows does not speak to.
	ReasonClusterNetworkReserved = "ClusterNetworkReserved"
	// ReasonClusterNetworkIPv6Only means that pods have no IPv4 addresses, which overlays of Windows need.
	ReasonClusterNetworkIPv6Only = "ClusterNetworkIPv6Only"
	// ReasonVXLANPortRequired means that the overlay has VXLAN's own port on vSphere, which may keep packets to it for itself.
	ReasonVXLANPortRequired = "VXLANPortRequired"
	// ReasonFlannelNotFound means that the ConfigMap with Flannel's configuration is not there.
	ReasonFlannelNotFound = "FlannelNotFound"
	// ReasonFlannelUnsuitable means that Flannel is not configured in a way that Windows nodes can take part in.
	ReasonFlannelUnsuitable = "FlannelUnsuitable"
	// ReasonClusterUnknown means that the cluster's own addresses or certificates could not be read.
	ReasonClusterUnknown = "ClusterUnknown"
)

// Reasons why an action waits, in status.plan.waitsFor; ReasonPaused is one, too.
const (
	// ReasonBudget means that as many Windows nodes are out of service as rollout.maxUnavailable allows.
	ReasonBudget = "Budget"
	// ReasonMaintenanceWindow means that no maintenance window is open.
	ReasonMaintenanceWindow = "MaintenanceWindow"
	// ReasonCanary means that the first nodes have not worked with the version for long enough.
	ReasonCanary = "Canary"
	// ReasonRolloutStopped means that the version failed on another host.
	ReasonRolloutStopped = "RolloutStopped"
	// ReasonUpgradeCooldown means that the node came to its version just now, and its daemon may still go back by itself.
	ReasonUpgradeCooldown = "UpgradeCooldown"
	// ReasonVersionSkewUnsupported means that the version does not go with the API server.
	ReasonVersionSkewUnsupported = "VersionSkewUnsupported"
	// ReasonUnpublished means that ConfigMap windows-services-<version> is not there yet: the operator writes it when it starts.
	ReasonUnpublished = "Unpublished"
	// ReasonFailed means that the action failed on this host; status.failure says why.
	ReasonFailed = "Failed"
)

// Reasons of condition Draining.
const (
	// ReasonDraining means that pods leave the node.
	ReasonDraining = "Draining"
	// ReasonDrainBlocked means that a PodDisruptionBudget does not let pods go, or that the API server refuses to evict them; the message says why.
	ReasonDrainBlocked = "DrainBlocked"
	// ReasonDrainTimeout means that pods are still there after rollout.drain.timeout.
	ReasonDrainTimeout = "DrainTimeout"
	// ReasonPodStuck means that a pod has not ended although its grace is over.
	ReasonPodStuck = "PodStuck"
)

// Reasons of condition NodeReady.
const (
	// ReasonNodeReady means that the node is Ready and configured.
	ReasonNodeReady = "NodeReady"
	// ReasonNodeMissing means that the host has not registered a Node, or that the Node was deleted.
	ReasonNodeMissing = "NodeMissing"
	// ReasonNodeNotWindows means that the Node says of itself that it is no Windows node, by its label kubernetes.io/os and its status: the
	// operator may neither change nor delete it. It is also that of events, where changing or deleting a Node was forbidden.
	ReasonNodeNotWindows = "NodeNotWindows"
	// ReasonNodeNotReady means that the Node exists and its kubelet does not say Ready.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonVersionPending means that the node is Ready and WICD has not yet reported the version.
	ReasonVersionPending = "VersionPending"
)

// Reasons of condition Stalled.
const (
	// ReasonPrivateKeyMissing means that Secret cloud-private-key, or its key private-key.pem, is not there.
	ReasonPrivateKeyMissing = "PrivateKeyMissing"
	// ReasonPrivateKeyInvalid means that private-key.pem cannot be used as an SSH key.
	ReasonPrivateKeyInvalid = "PrivateKeyInvalid"
	// ReasonRepairFailed means that a node that does not work was joined again in vain, as often as the operator does so.
	ReasonRepairFailed = "RepairFailed"
)

// ReasonReady is the reason of condition Ready when it is True.
const ReasonReady = "Ready"

// Reasons of events that are not reasons of a condition.
const (
	// EventInstanceInvalid is told on ConfigMap windows-instances, or on a Machine, for an entry or a Machine that gets no WindowsInstance,
	// and on ConfigMap windows-known-hosts for lines that cannot be used.
	EventInstanceInvalid = "InstanceInvalid"
	// EventInstanceSetup is told on ConfigMap windows-instances, or on a Machine, when an entry or a Machine became a WindowsInstance.
	EventInstanceSetup = "InstanceSetup"
	// EventInstanceTeardown is told on ConfigMap windows-instances, or on a Machine, when the WindowsInstance made from it was removed.
	EventInstanceTeardown = "InstanceTeardown"
	// EventCertificateRefused is told on a certificate request that claims to be of a Windows host and breaks a rule.
	EventCertificateRefused = "CertificateRefused"
	// EventAddressDisputed is told on a Node that says it has an address which is proven to be another host's.
	EventAddressDisputed = "AddressDisputed"
	// EventHostKeyPinned is told on a WindowsInstance when its host key was seen for the first time and kept.
	EventHostKeyPinned = "HostKeyPinned"
	// EventHostKeyShared is told on a WindowsInstance whose host shows the key that another one's shows, as copies of an image do: each of
	// them can pretend to be the other.
	EventHostKeyShared = "HostKeyShared"
	// EventSettingsIgnored is told on the object, a mirror set or a WindowsConfig, that asks for what nodes cannot have.
	EventSettingsIgnored = "SettingsIgnored"
	// EventSettingsPublished is told on ConfigMap windows-services-<version> when nodes can read new settings.
	EventSettingsPublished = "SettingsPublished"
	// EventSettingsRestored is told on ConfigMap windows-services-<version> when it, or what belongs to it, was deleted or
	// altered by somebody and the operator made it again, and on Secret windows-user-data when it was brought up to date.
	EventSettingsRestored = "SettingsRestored"
	// EventSigningKeyMade is told on Secret windows-settings-signing-key when the operator made it. Nodes that know another key are
	// joined again.
	EventSigningKeyMade = "SigningKeyMade"
	// EventSettingsRefused is told on a Node that does not follow a ConfigMap windows-services-<version>, since the operator did not
	// sign it so, or it is older than what the node has. The note says which.
	EventSettingsRefused = "SettingsRefused"
	// EventServiceCrashLoop is told on a Node when one of its services keeps dying. The note ends with the last lines of the
	// service's log.
	EventServiceCrashLoop = ReasonServiceCrashLoop
	// EventServiceNotReady is told on a Node when one of its services runs and does not work while others wait for it.
	EventServiceNotReady = ReasonServiceNotReady
	// EventUpdateFailed is told on a Node that went to another version in vain, and back.
	EventUpdateFailed = ReasonUpdateFailed
	// EventMaintenanceStarted is told on a WindowsInstance when something begins on its host after its join.
	EventMaintenanceStarted = "MaintenanceStarted"
	// EventMaintenanceDone is told on a WindowsInstance when its node works again, and is back in service.
	EventMaintenanceDone = "MaintenanceDone"
	// EventMaintenanceFailed is told on a WindowsInstance when what was tried on its host failed. The note says why.
	EventMaintenanceFailed = "MaintenanceFailed"
	// EventHostLeft is told on a WindowsInstance whose host has left the cluster. The note says what remains on it.
	EventHostLeft = "HostLeft"
	// EventHostReleased is told on a WindowsInstance that was let go although its host could not be cleaned.
	EventHostReleased = "HostReleased"
	// EventNodeOrphaned is told on a Windows Node that has had no WindowsInstance for ten minutes: once for each Node as long as the operator
	// runs, and for twenty at most.
	EventNodeOrphaned = "NodeOrphaned"
	// EventRebootPending is told on a Node when Windows begins to wait for a restart.
	EventRebootPending = ReasonRebootPending
	// EventNodeReady is told on a WindowsInstance when it became a Ready node.
	EventNodeReady = "NodeReady"
)

// ApprovalReason is the reason of the approval condition on certificate requests that we approve. The original's name.
const ApprovalReason = "WMCOApprove"
