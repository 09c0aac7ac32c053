package api

// Conditions of a Node. Only the daemon on the host (WICD) writes them.
const (
	// ConditionServicesHealthy is False while a service of the node crashes repeatedly, or runs without working while
	// other services depend on it. The message names the service and ends with the last lines of its log. It is True
	// again when no service has crashed for five minutes. Absent until all services have run once. Good when True.
	ConditionServicesHealthy = "WindowsServicesHealthy"
	// ConditionUpdated is False after an update to another version failed and the node rolled back. The message says
	// why and ends with the last lines of the relevant log. It is True again when the node's version is the desired
	// one. Absent until an update fails. Good when True.
	ConditionUpdated = "WindowsUpdated"
	// ConditionNodeRebootRequired is True while Windows itself has a restart pending; the message says what for. Absent
	// until the first pending restart. Bad when True.
	ConditionNodeRebootRequired = "WindowsRebootRequired"
	// ConditionWindowsNetworkUnavailable is True while the pod network does not work: the Host Network Service does not
	// answer, or has lost networks, endpoints or load balancers, which the daemon repairs; or the hybrid overlay of
	// OVN-Kubernetes has a problem (reasons that begin with Overlay). The message says which. When the user supplies the
	// network (provider Custom), it is True while something is missing that the daemon waits for, and absent until then.
	// Bad when True.
	ConditionWindowsNetworkUnavailable = "WindowsNetworkUnavailable"
	// ConditionCommitPressure is True while Windows has committed 90% or more of the memory it can commit, which is the
	// physical memory and the paging files. Beyond that, programs get no memory. Absent until the first time. Bad when
	// True.
	ConditionCommitPressure = "WindowsCommitPressure"
	// ConditionHostComputeUnavailable is True while the Host Compute Service of Windows, which runs the containers, does
	// not answer. Absent until the first time. Bad when True.
	ConditionHostComputeUnavailable = "WindowsHostComputeUnavailable"
	// ConditionClockSkewed is True while the clock of the host is off by a minute or more, compared with the API server.
	// Absent until the first time. Bad when True.
	ConditionClockSkewed = "WindowsClockSkewed"
	// ConditionDefenderInterference is True while the real-time protection of Microsoft Defender scans what containerd
	// writes, although WindowsConfig asks for exclusions. Absent until the first time. Bad when True.
	ConditionDefenderInterference = "WindowsDefenderInterference"
	// ConditionWindowsUpdateNeeded is True while the revision of the host's Windows is too old for the network of pods, or
	// has a known fault that an update fixes. The message names the revision, the fault and the update. The node keeps its
	// pods. Absent until the first time. Bad when True.
	ConditionWindowsUpdateNeeded = "WindowsUpdateNeeded"
	// ConditionAddressesHidden is True while VMware Tools do not tell vSphere of the adapter that has the node's address
	// since the network of pods exists: the Machine loses its address. Only Nodes with a provider ID of vSphere have it.
	// Absent until the first time. Bad when True.
	ConditionAddressesHidden = "WindowsAddressesHidden"
	// ConditionKubeletSettingsHeld is True while the kubelet goes on with former reservations and policies, because the
	// machine cannot have those of spec.kubelet, or because they take effect with a restart of the host. The message says
	// which. Absent until the first time. Bad when True.
	ConditionKubeletSettingsHeld = "WindowsKubeletSettingsHeld"
	// ConditionGMSACapable is True when containers on the node can get the identity of a group Managed Service Account,
	// as far as the host can tell: it is joined to a domain, or has a plugin of Container Credential Guard. It is False
	// when the host has neither any more, and absent when it never had one. Whether the domain answers is not checked.
	// Good when True.
	ConditionGMSACapable = "WindowsGMSACapable"
	// ConditionHyperVCapable is True when pods on the node can have Hyper-V isolation: Hyper-V runs on the host. While it
	// is False, the message says what is missing and what to do. It is Unknown when WindowsConfig no longer asks for
	// Hyper-V isolation, and absent when it never did. Good when True.
	ConditionHyperVCapable = "WindowsHyperVCapable"
)

// Reasons of condition WindowsKubeletSettingsHeld.
const (
	// ReasonKubeletSettingsUnsuitable means that the machine does not have what spec.kubelet of WindowsConfig needs: more
	// is reserved than there is of memory or processors, or a NUMA node is missing. The message has both values.
	ReasonKubeletSettingsUnsuitable = "KubeletSettingsUnsuitable"
	// ReasonKubeletSettingsAwaitRestart means that policies of spec.kubelet for processors, memory or topology, or what is
	// reserved for them, take effect with the next restart of the host.
	ReasonKubeletSettingsAwaitRestart = "KubeletSettingsAwaitRestart"
	// ReasonKubeletSettingsInForce means that the kubelet has all of spec.kubelet again.
	ReasonKubeletSettingsInForce = "KubeletSettingsInForce"
)

// Reasons of condition WindowsHyperVCapable.
const (
	// ReasonHyperVRuns means that Hyper-V runs on the host.
	ReasonHyperVRuns = "HyperVRuns"
	// ReasonHyperVRestartPending means that the feature Microsoft-Hyper-V of Windows takes effect with the next restart.
	ReasonHyperVRestartPending = "HyperVRestartPending"
	// ReasonHyperVDisabled means that the feature is not enabled yet. WICD enables it.
	ReasonHyperVDisabled = "HyperVDisabled"
	// ReasonHyperVEnablingFailed means that Windows could not enable the feature. WICD tries again every hour.
	ReasonHyperVEnablingFailed = "HyperVEnablingFailed"
	// ReasonHyperVUnavailable means that the Windows of the host does not have the feature.
	ReasonHyperVUnavailable = "HyperVUnavailable"
	// ReasonVirtualizationUnavailable means that the processor or the firmware of the host does not allow virtual machines,
	// or that the cloud does not give the machine nested virtualization.
	ReasonVirtualizationUnavailable = "VirtualizationUnavailable"
	// ReasonHypervisorStopped means that the feature is enabled, and the hypervisor does not run.
	ReasonHypervisorStopped = "HypervisorStopped"
	// ReasonHyperVNotWanted means that WindowsConfig no longer asks for Hyper-V isolation.
	ReasonHyperVNotWanted = "HyperVNotWanted"
)

// Reasons of condition WindowsGMSACapable.
const (
	// ReasonDomainJoined means that the host is joined to the domain that the message names.
	ReasonDomainJoined = "DomainJoined"
	// ReasonCredentialPlugin means that the host is joined to no domain, and has a plugin of Container Credential Guard.
	ReasonCredentialPlugin = "CredentialPluginRegistered"
	// ReasonNotInDomain means that the host has neither any more.
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
	// ReasonHCSUnavailable means that the Host Compute Service (vmcompute) does not answer. The message has its state.
	ReasonHCSUnavailable = "HCSUnavailable"
	// ReasonHCSWorks means that the Host Compute Service answers again.
	ReasonHCSWorks = "HCSWorks"
)

// Reasons of condition WindowsClockSkewed.
const (
	// ReasonClockOutOfSync means that the clock of the host differs from that of the API server. The message says by how
	// much, and the state of the service Windows Time (W32Time).
	ReasonClockOutOfSync = "ClockOutOfSync"
	// ReasonClockInSync means that the clock of the host agrees with that of the API server again.
	ReasonClockInSync = "ClockInSync"
)

// Reasons of condition WindowsUpdateNeeded. The bad one is ReasonWindowsUpdateNeeded, which is a reason of condition
// Supported, too.
const (
	// ReasonWindowsUpToDate means that Windows has an update with which the fault is gone.
	ReasonWindowsUpToDate = "WindowsUpToDate"
)

// Reasons of condition WindowsAddressesHidden.
const (
	// ReasonVMwareToolsHideVirtualAdapters means that exclude-nics in tools.conf of VMware Tools, or its default, is for
	// the virtual adapters of Windows. The message says what to write.
	ReasonVMwareToolsHideVirtualAdapters = "VMwareToolsHideVirtualAdapters"
	// ReasonAddressesReported means that VMware Tools tell vSphere of all addresses again.
	ReasonAddressesReported = "AddressesReported"
)

// Reasons of condition WindowsDefenderInterference.
const (
	// ReasonDefenderExclusionsMissing means that exclusions are missing, because a policy or tamper protection prevents
	// them. The message names them.
	ReasonDefenderExclusionsMissing = "DefenderExclusionsMissing"
	// ReasonDefenderExclusionsInForce means that Defender has the exclusions again, or scans no more.
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
	// ReasonLoadBalancersLost means that Services have lost their load balancers on the node, or that kube-proxy has made
	// none at all.
	ReasonLoadBalancersLost = "LoadBalancersLost"
	// ReasonServiceNotProgrammed means that kube-proxy has not made load balancers of some Services, or that load balancers
	// have other back ends than their Services. The message names the Services. The condition stays False: the cause can
	// be the Service itself, and then all nodes have it.
	ReasonServiceNotProgrammed = "ServiceNotProgrammed"
	// ReasonWindowsNetworkUnverified means that the two generations of the Host Network Service's API disagree, so that WICD
	// repairs nothing: what one of them does not list may not be lost. The condition stays False.
	ReasonWindowsNetworkUnverified = "WindowsNetworkUnverified"
	// ReasonNetworkRepairWithheld means that WICD would remove what belongs to no Service and no pod, and does not, because
	// spec.network.repair of WindowsConfig is Report. The condition stays False.
	ReasonNetworkRepairWithheld = "NetworkRepairWithheld"
	// ReasonPortsExcluded means that Windows excludes ports on which programs of the node listen (netsh interface ipv4 show
	// excludedportrange tcp). The message names them. The condition stays False.
	ReasonPortsExcluded = "PortsExcluded"
	// ReasonDynamicPortsShort means that the load balancers of the cluster's Services take most of the dynamic ports of Windows
	// (netsh interface ipv4 show dynamicport tcp). Load balancers beyond are refused. The condition stays False.
	ReasonDynamicPortsShort = "DynamicPortsShort"
	// ReasonOverlayCertificatePending means that OVN-Kubernetes has not approved the certificate request of
	// hybrid-overlay-node for a minute, or has denied it. The message names the request.
	ReasonOverlayCertificatePending = "OverlayCertificatePending"
	// ReasonOverlaySubnetMissing means that OVN-Kubernetes has assigned no subnet to the Node for a minute (annotation
	// k8s.ovn.org/hybrid-overlay-node-subnet).
	ReasonOverlaySubnetMissing = "OverlaySubnetMissing"
	// ReasonOverlayNodeTreatedAsLinux means that OVN-Kubernetes has assigned the Node a subnet of Linux nodes (annotation
	// k8s.ovn.org/node-subnets) and none of the hybrid overlay.
	ReasonOverlayNodeTreatedAsLinux = "OverlayNodeTreatedAsLinux"
	// ReasonOverlayLinuxNodesMissing means that no Linux node takes part in the hybrid overlay, although OVN-Kubernetes has
	// assigned subnets to them: pods of the node reach those of Windows nodes only.
	ReasonOverlayLinuxNodesMissing = "OverlayLinuxNodesMissing"
	// ReasonOverlayAnnotationDenied means that the API server does not let hybrid-overlay-node write the address of the
	// host's router on its Node: other nodes have no route to its pods. The message has the answer.
	ReasonOverlayAnnotationDenied = "OverlayAnnotationDenied"
	// ReasonOverlaySubnetRefused means that other nodes have no route to the subnet of this Node, because of what the Node
	// says: the subnet is outside the ranges of OVN-Kubernetes, overlaps that of another Node, or has no usable address.
	ReasonOverlaySubnetRefused = "OverlaySubnetRefused"
	// ReasonOverlayNeighborRefused means that this node has no route to the pods of other nodes, because of what their Nodes
	// say. The message names some of them.
	ReasonOverlayNeighborRefused = "OverlayNeighborRefused"
	// ReasonOverlayHostRouteRefused means that Windows refuses the policy HostRoute for the pod network: the host, and with it
	// probes of the kubelet, cannot reach the pods of the node. hybrid-overlay-node tries again each minute.
	ReasonOverlayHostRouteRefused = "OverlayHostRouteRefused"
	// ReasonOverlayAdapterUnexpected means that Windows put a network of the overlay on an adapter that does not have the
	// address of the Node: other nodes do not reach its pods.
	ReasonOverlayAdapterUnexpected = "OverlayAdapterUnexpected"
	// ReasonOverlayNetworkUnexpected means that Windows returns another subnet, gateway, VNI or VXLAN port for a network than
	// hybrid-overlay-node requested. The network stays: to create it again would cut the host's connections and end all pods.
	ReasonOverlayNetworkUnexpected = "OverlayNetworkUnexpected"
	// ReasonHostAddressLost means that the first network of hybrid-overlay-node cost the host its address: it was on no adapter for
	// a minute. The networks were removed and are not created again until the file that the message names is deleted.
	ReasonHostAddressLost = "HostAddressLost"
	// ReasonHostNetworkChanged means that the first network of hybrid-overlay-node cost the host other settings of its adapter, and
	// that restoring them failed. The message names them.
	ReasonHostNetworkChanged = "HostNetworkChanged"
	// ReasonNetworkConfigurationMissing means that the folder of spec.network.custom.configDir has no CNI configuration, or
	// one that containerd cannot load. The installer of the user's network must write it.
	ReasonNetworkConfigurationMissing = "NetworkConfigurationMissing"
	// ReasonKubeProxyUnsupported means that the user's network is of a type for which the daemon cannot run kube-proxy.
	ReasonKubeProxyUnsupported = "KubeProxyUnsupported"
	// ReasonNetworkRepaired is a reason of events: the daemon repaired the pod network.
	ReasonNetworkRepaired = "NetworkRepaired"
)

// Reasons of condition WindowsRebootRequired.
const (
	// RebootPendingPrefix begins the message of condition WindowsRebootRequired. The causes follow, separated by "; ".
	RebootPendingPrefix = "Windows waits for a restart: "
	// ReasonRebootDidNotHelp means, on a WindowsInstance, that Windows has a restart pending for the same causes as before its
	// last one, or that the join needs a restart for a cause that a restart did not remove: a feature is not enabled
	// after it, or something set the host name back. Until the user asks, the host is not restarted for that again.
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
