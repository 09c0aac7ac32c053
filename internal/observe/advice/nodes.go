package advice

import "github.com/windows-machine-config/wmco/api"

const nodeProblems = "node-problems#problems-of-windows"

const nodeConditions = "troubleshooting#conditions-of-a-node"

// nodes are the reasons of NodeReady and of the conditions that WICD writes on Nodes.
func nodes() Table {
	const repair, ownNetwork = "network#repair", "network#your-own-network"
	return Table{
		api.ReasonNodeReady: good(),
		api.ReasonNodeMissing: {Warning, "Run kubectl get csr: events on a request say which rule it violates; on the host, see C:\\var\\log\\kubelet\\kubelet.log.",
			notReady},
		api.ReasonNodeNotWindows: {Error, "Treat the host as compromised: remove its WindowsInstance, run kubectl delete node <name>, and shut down the host.", notReady},
		api.ReasonNodeNotReady:   {Warning, "See the conditions of the Node; on the host, see C:\\var\\log\\kubelet and C:\\var\\log\\wicd.", notReady},
		api.ReasonWaitingForCloud: {Info, "Wait: a working cloud controller initializes the node within seconds.",
			"cloud#a-node-waits-for-its-cloud"},
		api.ReasonCloudNotInitialized: {Error, "See the log of the cloud-controller-manager: it names the Node and says why it found no machine for it; without such a controller, " +
			"set spec.cloudProvider of WindowsConfig to None.", "cloud#a-node-waits-for-its-cloud"},
		api.ReasonVersionPending: {Info, "Wait: WICD reports the version as its last step; if this persists, see C:\\var\\log\\wicd on the host.", notReady},

		api.ReasonNetworkWorks: good(),
		api.ReasonHNSUnavailable: {Error, "On the host, start the service hns (Host Network Service); if it does not answer, restart the host with kubectl windows reboot <host>.",
			repair},
		api.ReasonHNSNetworkMissing: {Warning, "Wait: WICD restarts the program that creates the pod network; if this persists, see C:\\var\\log on the host.", repair},
		api.ReasonHNSEndpointLost:   {Warning, "Wait: WICD recreates the endpoints.", repair},
		api.ReasonLoadBalancersLost: {Warning, "Wait: WICD restarts kube-proxy if that is safe; otherwise, the message says why not; the log of kube-proxy says why it creates no load balancers.", repair},
		api.ReasonServiceNotProgrammed: {Info, "See the log of kube-proxy on the host (C:\\var\\log\\kube-proxy) for the Services in the message; if all nodes report the same, check the Service.",
			repair},

		api.ReasonNetworkRepairWithheld: {Info, "Set spec.network.repair of WindowsConfig to Full to have WICD remove it.", repair},
		api.ReasonWindowsNetworkUnverified: {Warning, "Restart the host with kubectl windows reboot <host>; if this persists, send the output of kubectl windows collect <host> to the project.",
			repair},
		api.ReasonPortsExcluded:     {Warning, "Run the commands in the message on the host, or restart Windows: it excludes different ports at each start.", "network#excluded-ports"},
		api.ReasonDynamicPortsShort: {Warning, "Widen the range of dynamic ports on the host with the command in the message.", "network#dynamic-ports"},

		api.ReasonNetworkConfigurationMissing: {Warning, "Install your network on the node, so that its CNI configuration is in the folder that the message names.",
			ownNetwork},
		api.ReasonKubeProxyUnsupported: {Error, "Set spec.network.custom.kubeProxy of WindowsConfig to None, and deploy kube-proxy with your network.", ownNetwork},
	}
}

// windowsReasons are the reasons of WICD's Node conditions about Windows and WICD's services.
func windowsReasons() Table {
	return Table{
		api.ReasonRebootPending: {Warning, "Run kubectl windows reboot <host>, or set spec.rollout.reboots of WindowsConfig to Allowed.", "fleet#reboots"},
		api.ReasonRebootDidNotHelp: {Warning, "Remove the cause in the message, for example the program that makes Windows require a restart; kubectl windows retry <host> allows another restart.",
			"fleet#reboots"},
		api.ReasonNoRebootPending: good(),
		api.ReasonUpToDate:        good(),
		api.ReasonUpdateFailed: {Error, "Fix the cause in the message (see C:\\var\\log\\wicd\\update.log on the host); then run kubectl windows retry <host>.",
			nodeConditions},
		api.ReasonHCSUnavailable: {Error, "On the host, start the service vmcompute (Host Compute Service); if it does not answer, restart the host with kubectl windows reboot <host>.",
			nodeProblems},
		api.ReasonHCSWorks: good(),
		api.ReasonCommitLimitNear: {Warning, "Give pods memory limits, move some to other nodes, or add memory to the host or to its paging file.",
			nodeProblems},
		api.ReasonCommitAvailable:           good(),
		api.ReasonClockOutOfSync:            {Warning, "Synchronize the host's clock: w32tm /resync.", nodeProblems},
		api.ReasonClockInSync:               good(),
		api.ReasonDefenderExclusionsInForce: good(),
		api.ReasonWindowsUpToDate:           good(),
		api.ReasonAddressesReported:         good(),
		api.ReasonUpdatesNotOverdue:         good(),
		api.ReasonUpdatesUnmanaged:          good(),
		api.ReasonUpdatesOverdue: {Warning, "Install updates on the host, one node after the other and drained; kubectl windows updates <host> lists them.",
			"windows-updates#overdue"},
		api.ReasonRevisionTooLow: {Warning, "Install a cumulative update with the required revision; kubectl windows updates <host> lists the pending ones.",
			"windows-updates#overdue"},
		api.ReasonUpdateDeadlinePassed: {Warning, "See in kubectl windows updates <host> what the update waits for, and install it.", "windows-updates#overdue"},
		api.ReasonUpdateSearchOverdue: {Warning, "Make the host search for updates, or find out why it cannot: kubectl windows updates <host> shows what is known.",
			"windows-updates#overdue"},
		api.ReasonUpdateServiceDisabled: {Warning, "Enable service wuauserv on the host, or set spec.windowsUpdates.policy of WindowsConfig to Unmanaged.",
			"windows-updates#overdue"},
		api.ReasonKubeletSettingsInForce:    good(),
		api.ReasonKubeletSettingsUnsuitable: {Warning, "Set spec.kubelet of WindowsConfig to values that fit the smallest host, as the message says.", "settings#kubelet"},
		api.ReasonKubeletSettingsAwaitRestart: {Warning, "Run kubectl windows reboot <host>, or set spec.rollout.reboots of WindowsConfig to Allowed.",
			"settings#processors-and-memory-of-their-own"},
		api.ReasonVMwareToolsHideVirtualAdapters: {Warning, "On the host, write exclude-nics= without a value into section [guestinfo] of " +
			"C:\\ProgramData\\VMware\\VMware Tools\\tools.conf; do the same in the image for new Machines.", "prerequisites#vmware-tools"},
		api.ReasonNetworkPoliciesApplied: good(),
		api.ReasonNetworkPoliciesNotApplied: {Error, "Fix the cause in the message; until then, pods of the namespaces that it names keep their rules, or are closed.",
			"network-policies#on-a-node"},
		api.ReasonNetworkPolicyTooLarge: {Error, "Shorten the NetworkPolicies of the pod that the message names, for example by ranges of addresses instead of many selectors.",
			"network-policies#on-a-node"},
		api.ReasonDomainJoined:     good(),
		api.ReasonCredentialPlugin: good(),
		api.ReasonNotInDomain: {Warning, "Join the host to its domain again, or register the plugin of Container Credential Guard again.",
			"workloads#group-managed-service-accounts"},
		api.ReasonServicesRunning: good(),
		api.ReasonServiceCrashLoop: {Error, "Fix the error in the last lines of the service's log, which the message quotes; WICD keeps restarting the service.",
			nodeConditions},
		api.ReasonServiceNotReady: {Error, "See the service's log that the message names; WICD keeps retrying.", nodeConditions},
	}
}

// isolation are the reasons of the condition on Hyper-V isolation.
func isolation() Table {
	const hyperV = "workloads#hyper-v-isolation"
	return Table{
		api.ReasonHyperVRuns:           good(),
		api.ReasonHyperVNotWanted:      good(),
		api.ReasonHyperVDisabled:       {Info, "Wait: WICD enables the feature, which takes some minutes.", hyperV},
		api.ReasonHyperVRestartPending: {Warning, "Run kubectl windows reboot <host>, or set spec.rollout.reboots of WindowsConfig to Allowed.", hyperV},
		api.ReasonHyperVEnablingFailed: {Warning, "See C:\\Windows\\Logs\\DISM\\dism.log on the host; WICD retries every hour.", hyperV},
		api.ReasonHyperVUnavailable:    {Info, "Run pods with Hyper-V isolation on hosts with Windows Server Standard or Datacenter.", hyperV},
		api.ReasonVirtualizationUnavailable: {Info, "Enable virtualization in the firmware of the host, or nested virtualization for the virtual machine; then restart the host.",
			hyperV},
		api.ReasonHypervisorStopped: {Warning, "On the host, run bcdedit /set hypervisorlaunchtype auto; then run kubectl windows reboot <host>.", hyperV},
	}
}

// kubelets are reasons of conditions set by kubelets (k8s.io/kubernetes, pkg/kubelet/nodestatus/setters.go) and by the node controller
// (pkg/controller/nodelifecycle).
func kubelets() Table {
	return Table{
		"KubeletReady":               good(),
		"KubeletNotReady":            {Warning, "Fix what the message says; on the host, see C:\\var\\log\\kubelet and C:\\var\\log\\containerd.", notReady},
		"NodeStatusUnknown":          {Error, "Check whether the host is on and reaches the API server; on the host, check whether the service kubelet runs.", notReady},
		"NodeStatusNeverUpdated":     {Error, "On the host, see C:\\var\\log\\kubelet\\kubelet.log: the kubelet has never reported.", notReady},
		"KubeletHasDiskPressure":     {Error, "Free disk space on the host: remove unused images and files, or enlarge drive C:.", nodeConditions},
		"KubeletHasNoDiskPressure":   good(),
		"KubeletHasSufficientMemory": good(),
		"KubeletHasInsufficientMemory": {Error, "Give pods memory limits, or move some to other nodes.",
			nodeConditions},
		"KubeletHasSufficientPID":   good(),
		"KubeletHasInsufficientPID": {Error, "Find the pod that starts too many processes.", nodeConditions},
	}
}

// images are the reasons of SandboxImage and WindowsImagesMissing.
func images() Table {
	const prepull = "settings#images-before-pods"
	return Table{
		api.ReasonImagesPulled:  good(),
		api.ReasonImagesPulling: {Info, "Wait: the node pulls the images of spec.images.prepull, and takes pods afterwards, or after an hour.", prepull},
		api.ReasonImagesNotPulled: {Warning, "Fix the cause that the message names for each image, or remove the image from spec.images.prepull of WindowsConfig.",
			prepull},
		api.ReasonSandboxImagePresent: good(),
		api.ReasonSandboxImageNotFound: {Error, "Copy the sandbox image to the mirror, or set spec.runtime.sandboxImage of WindowsConfig.",
			nodeConditions},
		api.ReasonSandboxImageDenied: {Error, "Check the name of the image, and the registry's entry in the pull secret.", nodeConditions},
		api.ReasonSandboxImageUnsuitable: {Error, "Copy the image for all Windows builds with skopeo copy --all, or set another one in spec.runtime.sandboxImage of WindowsConfig.",
			nodeConditions},
		api.ReasonSandboxImagePulling: {Warning, "Wait; if this persists, check the network from the host to the registry.", nodeConditions},
		api.ReasonSandboxImagePullFailed: {Error, "Check the registry or mirror, the proxy and the certificates: the message has the registry's response.",
			nodeConditions},
	}
}

// settings are the reasons of the conditions of WindowsConfig.
func settings() Table {
	const page, clusterAPI = "troubleshooting#settings-do-not-arrive", "machines#machines-of-cluster-api"
	return Table{
		api.ReasonPublished:       good(),
		api.ReasonAsExpected:      good(),
		api.ReasonPoliciesInForce: good(),
		api.ReasonSettingsInvalid: {Error, "Correct the object and field that the message names; nodes keep the settings they have.", page},
		api.ReasonSettingsIgnored: {Warning, "Change the setting as the message says; the rest is applied.", page},
		api.ReasonPoliciesAltered: {Error, "Apply the manifests that the operator was installed with again.", notReady},
		api.ReasonLimitsMissing:   {Warning, "Apply the limits of the operator's version: kubectl apply -k deploy/limits.", "install-olm#limits-of-the-operator"},
		api.ReasonEndOfSupport:    {Warning, "Upgrade the cluster to a minor version of Kubernetes that still gets fixes.", "support#clusters"},
		api.ReasonContainerdEndOfSupport: {Warning, "Upgrade the operator to a version whose containerd still gets fixes.",
			"support#programs-on-hosts"},
		api.ReasonWindowsEndOfSupport: {Warning, "Add a host with a later Windows Server, and name it in spec.replaceWith of this one, or replace its MachineSet.", "runbooks/WindowsEndOfSupport"},
		api.ReasonNodesOutOfService: {Info, "Wait until the operator has finished with the nodes.",
			"fleet"},
		api.ReasonMachinesWatched:          good(),
		api.ReasonClusterAPINotConfigured:  {Error, "Set spec.clusterAPI of WindowsConfig: the namespace of the Machines, and the name of their Cluster.", clusterAPI},
		api.ReasonClusterAPINotPermitted:   {Error, "Run the commands in the message, as an administrator of the namespace.", clusterAPI},
		api.ReasonClusterAPIUnavailable:    {Error, "Correct spec.clusterAPI of WindowsConfig, or install Cluster API.", clusterAPI},
		api.ReasonClusterNotProven:         {Error, "Name the Cluster that represents this cluster in spec.clusterAPI of WindowsConfig.", clusterAPI},
		api.ReasonAnotherOperatorInstalled: {Error, "Uninstall one of the two operators that the message names.", "troubleshooting#the-operator-does-not-start"},
	}
}
