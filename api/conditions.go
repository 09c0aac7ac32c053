package api

// Conditions of a WindowsInstance. All are written by the operator.
const (
	// ConditionReachable is True while the host answers by SSH with its known host key. Good when True.
	ConditionReachable = "Reachable"
	// ConditionSupported is True when the host can become a node. The operator checks build, edition, name, disk space,
	// clock and conflicting services. Good when True.
	ConditionSupported = "Supported"
	// ConditionConfigured is True when the host has everything it needs and its services are installed. Good when True.
	ConditionConfigured = "Configured"
	// ConditionNodeReady is True when the Node exists, its kubelet reports Ready, and WICD reports the version. Good
	// when True.
	ConditionNodeReady = "NodeReady"
	// ConditionReady is the summary: it is True when the host is a Ready node with the configuration that the cluster
	// declares. Its reason is the reason of the first condition that is not good. Good when True.
	ConditionReady = "Ready"
	// ConditionStalled is True when only the user can resolve the problem; the message explains how. Absent otherwise. Bad
	// when True.
	ConditionStalled = "Stalled"
	// ConditionRebootRequired is True while the host must restart before the operator can continue. Absent otherwise. Bad
	// when True.
	ConditionRebootRequired = "RebootRequired"
	// ConditionSandboxImage is False on a WindowsInstance while its host could not pull the sandbox image that
	// WindowsConfig names; absent otherwise. On the Node, where WICD writes it, it is True once the image is present. The
	// message names the registry, its response, what to do, and the image that pods use in the meantime. Good when True.
	ConditionSandboxImage = "SandboxImage"
	// ConditionDraining is True while the node is being drained. The message names the pods that have not left and the
	// PodDisruptionBudgets that block their eviction. Absent otherwise. Bad when True.
	ConditionDraining = "Draining"
	// ConditionWindowsUnsupported is True once Microsoft no longer provides security updates for the host's version of
	// Windows. The node keeps working. The message contains the date. Absent otherwise. Bad when True.
	ConditionWindowsUnsupported = "WindowsUnsupported"
)

// Conditions of WindowsConfig. All are written by the operator.
const (
	// ConditionPublished is True when the settings are valid as a whole and nodes can read them. Good when True.
	ConditionPublished = "Published"
	// ConditionDegraded is True when part of the settings cannot be applied, for example a mirror set that containerd
	// cannot express or a certificate that has expired. The rest is published. Bad when True.
	ConditionDegraded = "Degraded"
	// ConditionPolicies is True while the admission policies that limit hosts and the operator are installed and
	// unchanged. While it is not True, no host joins and WICD's certificates are not renewed. If the operator applies the
	// policies itself (--apply-policies), those that limit the operator do not count; the message names the missing ones.
	// Good when True.
	ConditionPolicies = "PoliciesInForce"
	// ConditionLimitsMissing is True while admission policies that limit the operator itself are missing or altered, and
	// the operator works without them (--apply-policies). It then does not explain why pods do not start. The message
	// names the policies. Absent otherwise. Bad when True.
	ConditionLimitsMissing = "LimitsMissing"
	// ConditionAnotherOperator is True while a second operator is installed in another namespace. The second operator
	// stands by and writes this condition; the message names both namespaces. Absent otherwise. Bad when True.
	ConditionAnotherOperator = "AnotherOperator"
	// ConditionClusterAPI is True while Machines of Cluster API become nodes, as configured in spec.clusterAPI. When it is
	// False, the message names what is missing; existing nodes stay. Absent on OpenShift and where Cluster API is not
	// used. Good when True.
	ConditionClusterAPI = "ClusterAPIReady"
	// ConditionKubernetesUnsupported is True while nodes run a minor version of Kubernetes that no longer receives fixes. On
	// OpenShift, what counts is the version of OpenShift with that Kubernetes. The message contains the date. Absent
	// otherwise. Bad when True.
	ConditionKubernetesUnsupported = "KubernetesUnsupported"
	// ConditionContainerdUnsupported is True while nodes get a release line of containerd that no longer receives fixes. The
	// message contains the date. Absent otherwise. Bad when True.
	ConditionContainerdUnsupported = "ContainerdUnsupported"
)

// Reasons of condition SandboxImage.
const (
	// ReasonSandboxImagePresent means that the host has the sandbox image.
	ReasonSandboxImagePresent = "SandboxImagePresent"
	// ReasonSandboxImageNotFound means that neither the registry nor a mirror has the image.
	ReasonSandboxImageNotFound = "SandboxImageNotFound"
	// ReasonSandboxImageDenied means that the registry, or a mirror, rejects the host's credentials.
	ReasonSandboxImageDenied = "SandboxImageDenied"
	// ReasonSandboxImageUnsuitable means that the image has no entry for the host's Windows build.
	ReasonSandboxImageUnsuitable = "SandboxImageUnsuitable"
	// ReasonSandboxImagePulling means that the pull has taken more than a minute and is still running.
	ReasonSandboxImagePulling = "SandboxImagePulling"
	// ReasonSandboxImagePullFailed means that the pull failed for another reason, which the message contains. This reason
	// and those above, except ReasonSandboxImagePresent, are also reasons of NodeReady while the node waits for its first
	// image.
	ReasonSandboxImagePullFailed = "SandboxImagePullFailed"
)

// Reasons of condition LimitsMissing.
const (
	// ReasonLimitsMissing means that deploy/limits of the operator's version was not applied. A compromised operator could
	// approve certificates for other identities and change Linux nodes.
	ReasonLimitsMissing = "LimitsMissing"
)

// Reasons of condition KubernetesUnsupported.
const (
	// ReasonEndOfSupport means that the last day with fixes for the cluster's minor version of Kubernetes, or for its
	// version of OpenShift, has passed. Defects found in the kubelets of its nodes are no longer fixed.
	ReasonEndOfSupport = "EndOfSupport"
)

// Reasons of condition ContainerdUnsupported.
const (
	// ReasonContainerdEndOfSupport means that the last day with fixes for the release line of containerd that this version
	// of the operator installs has passed.
	ReasonContainerdEndOfSupport = "ContainerdEndOfSupport"
)

// Reasons of condition WindowsUnsupported.
const (
	// ReasonWindowsEndOfSupport means that extended support for the host's version of Windows Server has ended. Add
	// a host with a later version, and name it in spec.replaceWith of this one; for Machines, use kubectl windows replace.
	ReasonWindowsEndOfSupport = "WindowsEndOfSupport"
)

// Reasons of condition AnotherOperator.
const (
	// ReasonAnotherOperatorInstalled means that two operators are installed in the cluster. Only the first one is active.
	ReasonAnotherOperatorInstalled = "AnotherOperatorInstalled"
)

// Reasons of condition ClusterAPIReady.
const (
	// ReasonMachinesWatched means that the Cluster object represents this cluster, and that its Windows Machines become
	// nodes.
	ReasonMachinesWatched = "MachinesWatched"
	// ReasonClusterAPINotConfigured means that instances of Machines of Cluster API exist, but spec.clusterAPI of
	// WindowsConfig does not name their namespace.
	ReasonClusterAPINotConfigured = "ClusterAPINotConfigured"
	// ReasonClusterAPINotPermitted means that the operator is not permitted to read the Machines or the Cluster; the
	// message contains the commands that grant permission.
	ReasonClusterAPINotPermitted = "ClusterAPINotPermitted"
	// ReasonClusterAPIUnavailable means that the kinds of Cluster API, or the Cluster, do not exist or cannot be read.
	ReasonClusterAPIUnavailable = "ClusterAPIUnavailable"
	// ReasonClusterNotProven means that spec.controlPlaneEndpoint of the Cluster could not be matched with this cluster's
	// API server; the message contains the values that were compared.
	ReasonClusterNotProven = "ClusterNotProven"
)

// Reasons of conditions Published, Degraded and PoliciesInForce. When the network settings are wrong, Published has the
// same reason as condition Configured of the instances that wait for it.
const (
	// ReasonPublished means that nodes can read the settings.
	ReasonPublished = "Published"
	// ReasonSettingsInvalid means that no settings can be published; nodes keep their current settings.
	ReasonSettingsInvalid = "SettingsInvalid"
	// ReasonSettingsIgnored means that some settings had to be left out; the message names them.
	ReasonSettingsIgnored = "SettingsIgnored"
	// ReasonPoliciesInForce means that every admission policy is installed.
	ReasonPoliciesInForce = "PoliciesInForce"
	// ReasonPoliciesAltered means that an admission policy or its binding is missing, differs from the one in this version
	// of the operator, or cannot be read; the message names it. It is also a reason of condition Configured, for instances
	// that wait for the policies, and of events on policies.
	ReasonPoliciesAltered = "PoliciesAltered"
	// ReasonNodesOutOfService is the reason of condition Upgradeable of OLM's OperatorCondition while the operator acts on
	// a node or waits for it to work again.
	ReasonNodesOutOfService = "NodesOutOfService"
	// ReasonAsExpected means that no settings were left out.
	ReasonAsExpected = "AsExpected"
)

// Reasons of condition Reachable.
const (
	// ReasonConnected means that the host answered with the expected host key.
	ReasonConnected = "Connected"
	// ReasonConnectionRefused means that nothing listens on the host's SSH port.
	ReasonConnectionRefused = "ConnectionRefused"
	// ReasonConnectionTimeout means that the host did not answer: it is off, the address is wrong, or a firewall drops the
	// packets.
	ReasonConnectionTimeout = "ConnectionTimeout"
	// ReasonNoRoute means that the network has no route to the host.
	ReasonNoRoute = "NoRoute"
	// ReasonNotSSH means that the service on the port is not an SSH server, or has no algorithm in common with the
	// operator.
	ReasonNotSSH = "NotSSH"
	// ReasonAddressUnresolvable means that the DNS name has no IPv4 address.
	ReasonAddressUnresolvable = "AddressUnresolvable"
	// ReasonAddressInvalid means that the address, or one that the DNS name resolves to, cannot belong to a Windows host:
	// it is loopback, link-local or multicast, or belongs to a Service, a pod, the API server, or a Node that is not
	// Windows. A name without a dot, or in the cluster's domain, is invalid, too. The operator does not connect to it.
	ReasonAddressInvalid = "AddressInvalid"
	// ReasonAuthenticationFailed means that the host does not accept this user with this key.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonHostKeyChanged means that the host presents another key than before: another machine, a new installation,
	// or an attack. Nothing is sent until the user confirms the new key in spec.hostKey.
	ReasonHostKeyChanged = "HostKeyChanged"
	// ReasonHostKeyUnknown means that WindowsConfig (trust) requires host keys that are known in advance, and this
	// host's key is not. Nothing is sent until the user compares the fingerprint in the message and sets spec.hostKey.
	ReasonHostKeyUnknown = "HostKeyUnknown"
	// ReasonHostKeyUnsuitable means that the host's key is too weak to identify it.
	ReasonHostKeyUnsuitable = "HostKeyUnsuitable"
	// ReasonConnectionLost means that the connection broke during an operation. The operator resumes it.
	ReasonConnectionLost = "ConnectionLost"
)

// Reasons of condition Supported.
const (
	// ReasonSupported means that all checks passed.
	ReasonSupported = "Supported"
	// ReasonBuildUnsupported means that the Windows build is not 17763, 20348 or 26100.
	ReasonBuildUnsupported = "BuildUnsupported"
	// ReasonDriveUnsupported means that Windows is not on drive C:.
	ReasonDriveUnsupported = "DriveUnsupported"
	// ReasonWindowsUpdateNeeded means that the revision of the host's Windows is too old for the pod network. The message
	// names the revision, the required revision, and the update to install. Only hosts that are not nodes yet are rejected
	// for this reason.
	ReasonWindowsUpdateNeeded = "WindowsUpdateNeeded"
	// ReasonArchitectureUnsupported means that the processor is not x64.
	ReasonArchitectureUnsupported = "ArchitectureUnsupported"
	// ReasonEditionUnsupported means that the Windows edition is not a server.
	ReasonEditionUnsupported = "EditionUnsupported"
	// ReasonHostnameInvalid means that the host's name, in lower case, is not an RFC 1123 label, or that its name in the
	// cloud is not a valid node name.
	ReasonHostnameInvalid = "HostnameInvalid"
	// ReasonHostnameConflict means that another instance or node already has this name.
	ReasonHostnameConflict = "HostnameConflict"
	// ReasonHostnameChanged means that the host reports a different name than the one for which it received a token. The
	// instance keeps that name until annotation accept-hostname of the instance, or spec.hostname, is set to the new one.
	ReasonHostnameChanged = "HostnameChanged"
	// ReasonAddressNotProven means that the address the host reports for its node is not the one at which the operator
	// reached it, and that no host answers with its SSH host key at the reported address.
	ReasonAddressNotProven = "AddressNotProven"
	// ReasonServiceConflict means that a Windows service with the name of one of the operator's services exists and
	// does not belong to the operator.
	ReasonServiceConflict = "ServiceConflict"
	// ReasonDiskTooSmall means that less than 5 GB is free on drive C:.
	ReasonDiskTooSmall = "DiskTooSmall"
	// ReasonClockSkewed means that the host's clock is off by more than two minutes.
	ReasonClockSkewed = "ClockSkewed"
	// ReasonAddressMissing means that the host has no IPv4 address for its node: neither on the interface with the
	// default route nor on the one that spec.network of the instance selects.
	ReasonAddressMissing = "AddressMissing"
	// ReasonTrunkPortUnsupported means that the adapter with the node's address tags its packets with a VLAN ID, as it
	// must on a trunk port of a switch.
	ReasonTrunkPortUnsupported = "TrunkPortUnsupported"
	// ReasonAdapterUnsupported means that the node's address is on an interface that cannot carry the pod network: a virtual
	// switch of Hyper-V, a team of adapters, or a VPN.
	ReasonAdapterUnsupported = "AdapterUnsupported"
	// ReasonVXLANPortUnsupported means that the overlay uses a VXLAN port other than 4789, the only one that the host's
	// Windows (build 17763) supports.
	ReasonVXLANPortUnsupported = "VXLANPortUnsupported"
	// ReasonAPIServerUnreachable means that the host cannot reach the cluster's API server at the address that nodes get,
	// or that another server answers there. The message contains the address, what it resolves to on the host, the error,
	// and the source of the address. Nothing was installed on the host.
	ReasonAPIServerUnreachable = "APIServerUnreachable"
	// ReasonPortInUse means that another program listens on a port that a service of the node needs. The message names the
	// service, the port and the program. Only hosts that are not nodes yet are rejected for this reason.
	ReasonPortInUse = "PortInUse"
	// ReasonContainerRuntimeConflict means that another program, such as the containerd of Docker, listens on the named
	// pipe of the node's containerd. Docker itself is not a conflict: if it does not use the pipe, the join only warns.
	ReasonContainerRuntimeConflict = "ContainerRuntimeConflict"
)

// Reasons of condition Configured.
const (
	// ReasonConfigured means that the host has everything it needs.
	ReasonConfigured = "Configured"
	// ReasonJoining means that the join is in progress; status.steps shows the step.
	ReasonJoining = "Joining"
	// ReasonRebooting means that the host restarts to continue the join. It is also a reason of condition Reachable
	// while the host does not answer because of that restart.
	ReasonRebooting = "Rebooting"
	// ReasonWaitingForWindowsSetup means that Windows Setup is still in progress, for at most 30 minutes after Windows
	// started: a restart would interrupt it. The operator continues the join automatically.
	ReasonWaitingForWindowsSetup = "WaitingForWindowsSetup"
	// ReasonWindowsServicing means that Windows is installing features or updates, for at most 15 minutes after it started:
	// a restart would interrupt that. The operator continues the join automatically.
	ReasonWindowsServicing = "WindowsServicing"
	// ReasonDISMNotAnswering means that DISM, which lists and enables the Windows features, has not answered for minutes:
	// Windows Update may hold the component store, or DISM hangs. The operator retries the join.
	ReasonDISMNotAnswering = "DISMNotAnswering"
	// ReasonWaitingForSlot means that rollout.maxConcurrentJoins hosts are already joining.
	ReasonWaitingForSlot = "WaitingForSlot"
	// ReasonPaused means that spec.paused, or rollout.paused in WindowsConfig, pauses the host.
	ReasonPaused = "Paused"
	// ReasonAdoptionPending means that another program, for example the original operator, configured the host, and
	// that its node is drained before the host joins.
	ReasonAdoptionPending = "AdoptionPending"
	// ReasonJoinFailed means that a step failed; the message names the step and the error. The operator retries it.
	ReasonJoinFailed = "JoinFailed"
	// ReasonContentAltered means that a file did not have the expected content, on the host or in transit. The operator
	// sends it again.
	ReasonContentAltered = "ContentAltered"
	// ReasonTransferTooSlow means that the host received less than 1 MiB of content in two minutes, or spent ten
	// minutes processing it without finishing. Another host got its slot; the next attempt resumes at the byte where
	// this one stopped.
	ReasonTransferTooSlow = "TransferTooSlow"
	// ReasonBlockedBySecuritySoftware means that antivirus software or a policy on the host removes the operator's program
	// or prevents it from running. The message contains its path and SHA-256. The operator retries every ten minutes.
	ReasonBlockedBySecuritySoftware = "BlockedBySecuritySoftware"
	// ReasonNetworkNotConfigured means that WindowsConfig names no network provider, or one that cannot work.
	ReasonNetworkNotConfigured = "NetworkNotConfigured"
	// ReasonNetworkTypeUnsupported means that the cluster's network is not OVN-Kubernetes, which the provider requires.
	ReasonNetworkTypeUnsupported = "NetworkTypeUnsupported"
	// ReasonNetworkProviderMismatch means that spec.network.provider of WindowsConfig does not match the network of the
	// Linux nodes.
	ReasonNetworkProviderMismatch = "NetworkProviderMismatch"
	// ReasonHybridOverlayNotConfigured means that OVN-Kubernetes has no hybrid overlay, or that the range or the port of
	// the overlay prevents it from starting or from reaching Windows nodes.
	ReasonHybridOverlayNotConfigured = "HybridOverlayNotConfigured"
	// ReasonHybridOverlayDualStack means that an OpenShift cluster has IPv4 and IPv6. OVN-Kubernetes does not support
	// OpenShift's hybrid overlay on such a cluster.
	ReasonHybridOverlayDualStack = "HybridOverlayDualStack"
	// ReasonNetworksOverlap means that two of the cluster's address ranges (pods, pods on Windows nodes, Services,
	// OVN-Kubernetes' own) overlap.
	ReasonNetworksOverlap = "NetworksOverlap"
	// ReasonClusterNetworkReserved means that pods have addresses of class E (240.0.0.0/4), which Windows does not
	// support.
	ReasonClusterNetworkReserved = "ClusterNetworkReserved"
	// ReasonClusterNetworkIPv6Only means that pods have no IPv4 addresses, which overlay networks on Windows require.
	ReasonClusterNetworkIPv6Only = "ClusterNetworkIPv6Only"
	// ReasonVXLANPortRequired means that the overlay uses the default VXLAN port on vSphere, which may intercept
	// packets to it.
	ReasonVXLANPortRequired = "VXLANPortRequired"
	// ReasonFlannelNotFound means that the ConfigMap with Flannel's configuration does not exist.
	ReasonFlannelNotFound = "FlannelNotFound"
	// ReasonFlannelUnsuitable means that Flannel's configuration does not support Windows nodes.
	ReasonFlannelUnsuitable = "FlannelUnsuitable"
	// ReasonClusterDNSUnknown means that the address of the cluster's DNS could not be determined. The message names the
	// objects that were checked; set spec.network.dns.servers of WindowsConfig.
	ReasonClusterDNSUnknown = "ClusterDNSUnknown"
	// ReasonClusterUnknown means that the cluster's own addresses or certificates could not be read.
	ReasonClusterUnknown = "ClusterUnknown"
)

// Reasons of condition Draining.
const (
	// ReasonDraining means that the node's pods are being evicted.
	ReasonDraining = "Draining"
	// ReasonDrainBlocked means that a PodDisruptionBudget blocks evictions, or that the API server rejects them; the
	// message explains why.
	ReasonDrainBlocked = "DrainBlocked"
	// ReasonDrainTimeout means that pods remain on the node after rollout.drain.timeout.
	ReasonDrainTimeout = "DrainTimeout"
	// ReasonPodStuck means that a pod has not terminated after its grace period.
	ReasonPodStuck = "PodStuck"
)

// Reasons of condition NodeReady.
const (
	// ReasonNodeReady means that the node is Ready and configured.
	ReasonNodeReady = "NodeReady"
	// ReasonNodeMissing means that the host has not registered a Node, or that the Node was deleted.
	ReasonNodeMissing = "NodeMissing"
	// ReasonNodeNotWindows means that the Node, by its label kubernetes.io/os and its status, is not a Windows node, so
	// the operator may neither change nor delete it. It is also the reason of events about changes and deletions of a Node
	// that were forbidden.
	ReasonNodeNotWindows = "NodeNotWindows"
	// ReasonNodeNotReady means that the Node exists and its kubelet does not report Ready.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonWaitingForCloud means that the cloud's controller has not initialized the node yet: the Node has the taint
	// node.cloudprovider.kubernetes.io/uninitialized and gets no pods.
	ReasonWaitingForCloud = "WaitingForCloud"
	// ReasonCloudNotInitialized means that the cloud's controller has not initialized the node for more than five minutes.
	// The message contains the start time and what to check.
	ReasonCloudNotInitialized = "CloudNotInitialized"
	// ReasonVersionPending means that the node is Ready and WICD has not yet reported the version.
	ReasonVersionPending = "VersionPending"
)

// Reasons of condition Stalled.
const (
	// ReasonPrivateKeyMissing means that Secret cloud-private-key, or its key private-key.pem, does not exist.
	ReasonPrivateKeyMissing = "PrivateKeyMissing"
	// ReasonPrivateKeyInvalid means that private-key.pem is not a usable SSH key.
	ReasonPrivateKeyInvalid = "PrivateKeyInvalid"
	// ReasonRepairFailed means that a node still does not work after the operator joined it again the maximum number of
	// times.
	ReasonRepairFailed = "RepairFailed"
)

// ReasonReady is the reason of condition Ready when it is True.
const ReasonReady = "Ready"
