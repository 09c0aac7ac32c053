package api

// Conditions of a Node. Only the daemon on the host (WICD) writes them.
const (
	// ConditionServicesHealthy is False while a service of the node crashes repeatedly, or runs without working while
	// other services depend on it. The message names the service and ends with the last lines of its log. It is True
	// again when no service has crashed for five minutes. Absent until all services have run once. Good when True.
	ConditionServicesHealthy = "WindowsServicesHealthy"
	// ConditionUpdated is False after an update to another version failed and the node rolled back. The message contains
	// the cause and ends with the last lines of the relevant log. It is True again when the node's version is the desired
	// one. Absent until an update fails. Good when True.
	ConditionUpdated = "WindowsUpdated"
	// ConditionNodeRebootRequired is True while Windows itself has a restart pending; the message names the causes. Absent
	// until the first pending restart. Bad when True.
	ConditionNodeRebootRequired = "WindowsRebootRequired"
	// ConditionWindowsNetworkUnavailable is True while the pod network does not work: the Host Network Service does not
	// answer, or has lost networks, endpoints or load balancers, which the daemon repairs; or the hybrid overlay of
	// OVN-Kubernetes has a problem (reasons that begin with Overlay). The message names the problem. With provider Custom,
	// it is True while the daemon waits for something that is missing, and absent before that. Bad when True.
	ConditionWindowsNetworkUnavailable = "WindowsNetworkUnavailable"
	// ConditionCommitPressure is True while Windows has committed 90% or more of the memory it can commit, which is the
	// physical memory and the paging files. Beyond that limit, programs cannot allocate memory. Absent until this first
	// happens. Bad when True.
	ConditionCommitPressure = "WindowsCommitPressure"
	// ConditionHostComputeUnavailable is True while the Host Compute Service of Windows, which runs the containers, does
	// not answer. Absent until this first happens. Bad when True.
	ConditionHostComputeUnavailable = "WindowsHostComputeUnavailable"
	// ConditionClockSkewed is True while the clock of the host is off by a minute or more, compared with the API server.
	// Absent until this first happens. Bad when True.
	ConditionClockSkewed = "WindowsClockSkewed"
	// ConditionDefenderInterference is True while the real-time protection of Microsoft Defender scans what containerd
	// writes, although WindowsConfig requests exclusions. Absent until this first happens. Bad when True.
	ConditionDefenderInterference = "WindowsDefenderInterference"
	// ConditionWindowsUpdateNeeded is True while the revision of the host's Windows is too old for the pod network, or has
	// a known fault that an update fixes. The message names the revision, the fault and the update. The node keeps its
	// pods. Absent until this first happens. Bad when True.
	ConditionWindowsUpdateNeeded = "WindowsUpdateNeeded"
	// ConditionUpdatesOverdue is True while Windows has installed no update for 45 days, has not searched for updates for 14
	// days, has its Windows Update service disabled, or misses minimumRevisions or the deadline of spec.windowsUpdates. The
	// message names what is known. The condition installs nothing. Absent until this first happens. Bad when True.
	ConditionUpdatesOverdue = "WindowsUpdatesOverdue"
	// ConditionAddressesHidden is True while VMware Tools does not report to vSphere the adapter that has had the node's
	// address since the pod network was created, so the Machine loses its address. Only Nodes with a provider ID of
	// vSphere have it. Absent until this first happens. Bad when True.
	ConditionAddressesHidden = "WindowsAddressesHidden"
	// ConditionKubeletSettingsHeld is True while the kubelet keeps its former reservations and policies, because the host
	// cannot satisfy those of spec.kubelet, or because they take effect at a restart of the host. The message contains the
	// cause. Absent until this first happens. Bad when True.
	ConditionKubeletSettingsHeld = "WindowsKubeletSettingsHeld"
	// ConditionNetworkPoliciesNotApplied is True while NetworkPolicies of pods on the node are not in force as they are
	// written: they could not be read or applied, or do not fit on the endpoint of a pod. Pods are closed as far as
	// possible. Absent until this first happens. Bad when True.
	ConditionNetworkPoliciesNotApplied = "WindowsNetworkPoliciesNotApplied"
	// ConditionImagesMissing is True while the node lacks images of spec.images.prepull that could not be pulled, or that
	// were removed; the message names each with its cause. It is Unknown while the node pulls them for the first time, and
	// absent until images are listed. Bad when True.
	ConditionImagesMissing = "WindowsImagesMissing"
	// ConditionGMSACapable is True when containers on the node can get the identity of a group Managed Service Account, as
	// far as the host can determine: it is joined to a domain, or has a plugin of Container Credential Guard. It is False
	// when the host no longer has either, and absent when it never had one. Whether the domain answers is not checked.
	// Good when True.
	ConditionGMSACapable = "WindowsGMSACapable"
	// ConditionHyperVCapable is True when pods on the node can have Hyper-V isolation: Hyper-V runs on the host. While it
	// is False, the message names what is missing and what to do. It is Unknown when WindowsConfig no longer requests
	// Hyper-V isolation, and absent when it never did. Good when True.
	ConditionHyperVCapable = "WindowsHyperVCapable"
)

// Reasons of condition WindowsKubeletSettingsHeld.
const (
	// ReasonKubeletSettingsUnsuitable means that the host cannot satisfy spec.kubelet of WindowsConfig: all of its memory,
	// processors or disk space is reserved, or more than that, or a NUMA node is missing. The message contains both values.
	ReasonKubeletSettingsUnsuitable = "KubeletSettingsUnsuitable"
	// ReasonKubeletSettingsAwaitRestart means that policies of spec.kubelet for processors, memory or topology, or the
	// reservations for them, take effect at the next restart of the host.
	ReasonKubeletSettingsAwaitRestart = "KubeletSettingsAwaitRestart"
	// ReasonKubeletSettingsInForce means that the kubelet uses all settings of spec.kubelet again.
	ReasonKubeletSettingsInForce = "KubeletSettingsInForce"
)

// Reasons of condition WindowsNetworkPoliciesNotApplied.
const (
	// ReasonNetworkPoliciesNotApplied means that the policies of some pods could not be read or applied for half a minute.
	// The message names the pods or namespaces and the cause.
	ReasonNetworkPoliciesNotApplied = "NetworkPoliciesNotApplied"
	// ReasonNetworkPolicyTooLarge means that the policies of a pod need more rules than its endpoint may have. The pod is
	// closed in that direction, or open if spec.network.policyFallback is Open. The message names the pod and the limit.
	ReasonNetworkPolicyTooLarge = "NetworkPolicyTooLarge"
	// ReasonNetworkPoliciesApplied means that the policies of all pods are in force again, or that the node enforces none
	// any more.
	ReasonNetworkPoliciesApplied = "NetworkPoliciesApplied"
)

// Reasons of condition WindowsImagesMissing.
const (
	// ReasonImagesPulling means that the node pulls the images, each for the first time.
	ReasonImagesPulling = "ImagesPulling"
	// ReasonImagesNotPulled means that images could not be pulled, or were removed from the host. WICD keeps trying; the
	// node takes pods.
	ReasonImagesNotPulled = "ImagesNotPulled"
	// ReasonImagesPulled means that the node has the images that WindowsConfig lists for its version of Windows.
	ReasonImagesPulled = "ImagesPulled"
)

// Reasons of condition WindowsHyperVCapable.
const (
	// ReasonHyperVRuns means that Hyper-V runs on the host.
	ReasonHyperVRuns = "HyperVRuns"
	// ReasonHyperVRestartPending means that the Windows feature Microsoft-Hyper-V takes effect at the next restart.
	ReasonHyperVRestartPending = "HyperVRestartPending"
	// ReasonHyperVDisabled means that the feature is not enabled yet. WICD enables it.
	ReasonHyperVDisabled = "HyperVDisabled"
	// ReasonHyperVEnablingFailed means that Windows could not enable the feature. WICD retries every hour.
	ReasonHyperVEnablingFailed = "HyperVEnablingFailed"
	// ReasonHyperVUnavailable means that the host's Windows does not have the feature.
	ReasonHyperVUnavailable = "HyperVUnavailable"
	// ReasonVirtualizationUnavailable means that the processor or the firmware of the host does not allow virtual machines,
	// or that the cloud does not provide nested virtualization for the machine.
	ReasonVirtualizationUnavailable = "VirtualizationUnavailable"
	// ReasonHypervisorStopped means that the feature is enabled, but the hypervisor does not run.
	ReasonHypervisorStopped = "HypervisorStopped"
	// ReasonHyperVNotWanted means that WindowsConfig no longer requests Hyper-V isolation.
	ReasonHyperVNotWanted = "HyperVNotWanted"
)

// Reasons of condition WindowsGMSACapable.
const (
	// ReasonDomainJoined means that the host is joined to the domain that the message names.
	ReasonDomainJoined = "DomainJoined"
	// ReasonCredentialPlugin means that the host is not joined to a domain, but has a plugin of Container Credential
	// Guard.
	ReasonCredentialPlugin = "CredentialPluginRegistered"
	// ReasonNotInDomain means that the host is no longer joined to a domain and has no plugin of Container Credential
	// Guard.
	ReasonNotInDomain = "NotInDomain"
)

// Reasons of condition WindowsCommitPressure.
const (
	// ReasonCommitLimitNear means that the committed memory is near its limit.
	ReasonCommitLimitNear = "CommitLimitNear"
	// ReasonCommitAvailable means that Windows can commit enough memory again.
	ReasonCommitAvailable = "CommitAvailable"
)

// Reasons of condition WindowsHostComputeUnavailable.
const (
	// ReasonHCSUnavailable means that the Host Compute Service (vmcompute) does not answer. The message contains the state
	// of the service.
	ReasonHCSUnavailable = "HCSUnavailable"
	// ReasonHCSWorks means that the Host Compute Service answers again.
	ReasonHCSWorks = "HCSWorks"
)

// Reasons of condition WindowsClockSkewed.
const (
	// ReasonClockOutOfSync means that the clock of the host differs from that of the API server. The message contains the
	// difference and the state of the Windows Time service (W32Time).
	ReasonClockOutOfSync = "ClockOutOfSync"
	// ReasonClockInSync means that the clock of the host agrees with that of the API server again.
	ReasonClockInSync = "ClockInSync"
)

// Reasons of condition WindowsUpdateNeeded. When it is True, the reason is ReasonWindowsUpdateNeeded, which is also a
// reason of condition Supported.
const (
	// ReasonWindowsUpToDate means that Windows has an update that fixes the fault.
	ReasonWindowsUpToDate = "WindowsUpToDate"
)

// Reasons of condition WindowsUpdatesOverdue.
const (
	// ReasonUpdatesOverdue means that the newest installed update of Windows is 45 days old or older. Definitions of
	// Microsoft Defender do not count. The message names the update and the number of pending ones.
	ReasonUpdatesOverdue = "UpdatesOverdue"
	// ReasonRevisionTooLow means that Windows has a lower revision than spec.windowsUpdates.minimumRevisions of
	// WindowsConfig requires for its build.
	ReasonRevisionTooLow = "RevisionTooLow"
	// ReasonUpdateDeadlinePassed means that an update of Windows has been pending for longer than
	// spec.windowsUpdates.deadlineDays of WindowsConfig allows. The message names the one that has been overdue the longest.
	ReasonUpdateDeadlinePassed = "UpdateDeadlinePassed"
	// ReasonUpdateSearchOverdue means that Windows has not searched for updates successfully for 14 days, so that the list
	// of pending ones is outdated.
	ReasonUpdateSearchOverdue = "UpdateSearchOverdue"
	// ReasonUpdateServiceDisabled means that the Windows Update service (wuauserv) is disabled on the host.
	ReasonUpdateServiceDisabled = "UpdateServiceDisabled"
	// ReasonUpdatesNotOverdue means that Windows has searched for and installed updates recently.
	ReasonUpdatesNotOverdue = "UpdatesNotOverdue"
	// ReasonUpdatesUnmanaged means that WindowsConfig has spec.windowsUpdates.policy: Unmanaged, so that WICD no longer asks
	// Windows about updates.
	ReasonUpdatesUnmanaged = "UpdatesUnmanaged"
)

// Reasons of condition WindowsAddressesHidden.
const (
	// ReasonVMwareToolsHideVirtualAdapters means that exclude-nics in tools.conf of VMware Tools, or its default, excludes
	// the virtual adapters of Windows. The message contains the line to write.
	ReasonVMwareToolsHideVirtualAdapters = "VMwareToolsHideVirtualAdapters"
	// ReasonAddressesReported means that VMware Tools reports all addresses to vSphere again.
	ReasonAddressesReported = "AddressesReported"
)

// Reasons of condition WindowsDefenderInterference.
const (
	// ReasonDefenderExclusionsMissing means that exclusions are missing, because a policy or tamper protection prevents
	// them. The message names them.
	ReasonDefenderExclusionsMissing = "DefenderExclusionsMissing"
	// ReasonDefenderExclusionsInForce means that Defender has the exclusions again, or no longer scans.
	ReasonDefenderExclusionsInForce = "DefenderExclusionsInForce"
)

// Reasons of condition WindowsNetworkUnavailable of Nodes.
const (
	// ReasonNetworkWorks means that all networks, endpoints and load balancers exist as expected.
	ReasonNetworkWorks = "NetworkWorks"
	// ReasonHNSUnavailable means that the Host Network Service of Windows does not answer.
	ReasonHNSUnavailable = "HNSUnavailable"
	// ReasonHNSNetworkMissing means that the pod network does not exist, or has no addresses: it has not been created yet, or was lost.
	ReasonHNSNetworkMissing = "HNSNetworkMissing"
	// ReasonHNSEndpointLost means that pods, or the host itself, have no endpoint in the pod network.
	ReasonHNSEndpointLost = "HNSEndpointLost"
	// ReasonLoadBalancersLost means that Services have lost their load balancers on the node, or that kube-proxy has
	// created none at all.
	ReasonLoadBalancersLost = "LoadBalancersLost"
	// ReasonServiceNotProgrammed means that kube-proxy has not created load balancers for some Services, or that load
	// balancers have other back ends than their Services. The message names the Services. The condition stays False,
	// because the cause can be the Service itself, which then affects all nodes.
	ReasonServiceNotProgrammed = "ServiceNotProgrammed"
	// ReasonWindowsNetworkUnverified means that the two generations of the Host Network Service's API disagree, so WICD
	// repairs nothing: an object that one of them does not list may still exist. The condition stays False.
	ReasonWindowsNetworkUnverified = "WindowsNetworkUnverified"
	// ReasonNetworkRepairWithheld means that WICD does not remove objects that belong to no Service and no pod, because
	// spec.network.repair of WindowsConfig is Report. The condition stays False.
	ReasonNetworkRepairWithheld = "NetworkRepairWithheld"
	// ReasonPortsExcluded means that Windows excludes ports on which programs of the node listen (netsh interface ipv4 show
	// excludedportrange tcp). The message names them. The condition stays False.
	ReasonPortsExcluded = "PortsExcluded"
	// ReasonDynamicPortsShort means that the load balancers of the cluster's Services take most of the dynamic ports of Windows
	// (netsh interface ipv4 show dynamicport tcp). Further load balancers are refused. The condition stays False.
	ReasonDynamicPortsShort = "DynamicPortsShort"
	// ReasonOverlayCertificatePending means that OVN-Kubernetes has denied the certificate request of hybrid-overlay-node,
	// or has not approved it within a minute. The message names the request.
	ReasonOverlayCertificatePending = "OverlayCertificatePending"
	// ReasonOverlaySubnetMissing means that OVN-Kubernetes has not assigned a subnet to the Node within a minute
	// (annotation k8s.ovn.org/hybrid-overlay-node-subnet).
	ReasonOverlaySubnetMissing = "OverlaySubnetMissing"
	// ReasonOverlayNodeTreatedAsLinux means that OVN-Kubernetes has assigned the Node a subnet of Linux nodes (annotation
	// k8s.ovn.org/node-subnets) and none of the hybrid overlay.
	ReasonOverlayNodeTreatedAsLinux = "OverlayNodeTreatedAsLinux"
	// ReasonOverlayLinuxNodesMissing means that no Linux node takes part in the hybrid overlay, although OVN-Kubernetes has
	// assigned subnets to Linux nodes. Pods of this node reach only pods of Windows nodes.
	ReasonOverlayLinuxNodesMissing = "OverlayLinuxNodesMissing"
	// ReasonOverlayAnnotationDenied means that the API server does not allow hybrid-overlay-node to write the address of
	// the host's router to its Node, so other nodes have no route to its pods. The message contains the response.
	ReasonOverlayAnnotationDenied = "OverlayAnnotationDenied"
	// ReasonOverlaySubnetRefused means that other nodes have no route to the subnet of this Node, because the subnet is
	// outside the ranges of OVN-Kubernetes, overlaps that of another Node, or has no usable address.
	ReasonOverlaySubnetRefused = "OverlaySubnetRefused"
	// ReasonOverlayNeighborRefused means that this node has no route to the pods of other nodes, because the overlay's data
	// in their Nodes is invalid. The message names some of them.
	ReasonOverlayNeighborRefused = "OverlayNeighborRefused"
	// ReasonOverlayHostRouteRefused means that Windows rejects policy HostRoute for the pod network, so the host, including
	// the kubelet's probes, cannot reach the pods of the node. hybrid-overlay-node retries every minute.
	ReasonOverlayHostRouteRefused = "OverlayHostRouteRefused"
	// ReasonOverlayAdapterUnexpected means that Windows put a network of the overlay on an adapter that does not have the
	// address of the Node, so other nodes cannot reach its pods.
	ReasonOverlayAdapterUnexpected = "OverlayAdapterUnexpected"
	// ReasonOverlayNetworkUnexpected means that Windows returns another subnet, gateway, VNI or VXLAN port for a network than
	// hybrid-overlay-node requested. The network stays, because creating it again would cut the host's connections and end
	// all pods.
	ReasonOverlayNetworkUnexpected = "OverlayNetworkUnexpected"
	// ReasonHostAddressLost means that the host lost its address when hybrid-overlay-node created its first network: no adapter had
	// it for a minute. The networks were removed and are not created again until the file that the message names is deleted.
	ReasonHostAddressLost = "HostAddressLost"
	// ReasonHostNetworkChanged means that the host's adapter lost other settings when its first network was created, and that
	// they were not restored. The message names them and the cause.
	ReasonHostNetworkChanged = "HostNetworkChanged"
	// ReasonNetworkConfigurationMissing means that the folder in spec.network.custom.configDir has no CNI configuration, or
	// one that containerd cannot load. The installer of the user's network must write it.
	ReasonNetworkConfigurationMissing = "NetworkConfigurationMissing"
	// ReasonKubeProxyUnsupported means that the user's network is of a type for which the daemon cannot run kube-proxy.
	ReasonKubeProxyUnsupported = "KubeProxyUnsupported"
	// ReasonNetworkRepaired is the reason of events that report a repair of the pod network.
	ReasonNetworkRepaired = "NetworkRepaired"
)

// Reasons of condition WindowsRebootRequired.
const (
	// RebootPendingPrefix begins the message of condition WindowsRebootRequired. The causes follow, separated by "; ".
	RebootPendingPrefix = "Windows waits for a restart: "
	// ReasonRebootDidNotHelp means, on a WindowsInstance, that Windows has a restart pending for the same causes as before its
	// last one, or that the join needs a restart for a cause that the last restart did not remove: a feature is still not
	// enabled, or the host name was set back. The host is not restarted for that again until the user requests it.
	ReasonRebootDidNotHelp = "RebootDidNotHelp"
	// ReasonRebootPending means that Windows has a restart pending.
	ReasonRebootPending = "RebootPending"
	// ReasonNoRebootPending means that Windows no longer has a restart pending.
	ReasonNoRebootPending = "NoRebootPending"
)

// Reasons of condition WindowsUpdated.
const (
	// ReasonUpToDate means that the node has the desired version.
	ReasonUpToDate = "UpToDate"
	// ReasonUpdateFailed means that the desired version did not work and the node runs its previous version.
	ReasonUpdateFailed = "UpdateFailed"
)

// Reasons of condition WindowsServicesHealthy.
const (
	// ReasonServicesRunning means that every service runs.
	ReasonServicesRunning = "ServicesRunning"
	// ReasonServiceCrashLoop means that a service crashed, or failed to start, three times within five minutes.
	ReasonServiceCrashLoop = "ServiceCrashLoop"
	// ReasonServiceNotReady means that a service runs but has not worked for a minute, and other services depend on it.
	ReasonServiceNotReady = "ServiceNotReady"
)
