package advice

import "github.com/windows-machine-config/wmco/api"

const noAction = "troubleshooting#an-upgrade-reboot-or-removal-does-not-happen"

// hostEvents are reasons of events on WindowsInstances, and on their sources.
func hostEvents() Table {
	return Table{
		api.EventInstanceInvalid:     {Error, "Correct the entry or the Machine as the message says.", "troubleshooting#a-machine-gets-no-instance"},
		api.EventInstanceSetup:       good(),
		api.EventInstanceTeardown:    good(),
		api.EventProviderIDDiffers:   {Warning, "Check whether the Machine's address belongs to another machine, or the Node is left over from one.", noAction},
		api.EventHostKeyPinned:       good(),
		api.EventHostKeyShared:       {Warning, "Create new host keys on copies of one image: delete C:\\ProgramData\\ssh\\ssh_host_*, and restart sshd.", "machines#host-keys"},
		api.EventMaintenanceStarted:  good(),
		api.EventMaintenanceDone:     good(),
		api.EventMaintenanceFailed:   {Error, "Fix the cause in the message; then run kubectl windows retry <host>.", "fleet#retrying-a-failed-action"},
		api.EventMaintenanceDeferred: good(),
		api.EventUninstallingUpdate:  {Warning, "Wait for the end of the Patch; then block the update, or retry the host.", "windows-updates#an-update-that-does-not-work"},
		api.EventPodsRemain:          {Info, "Remove the toleration of taint node.kubernetes.io/unschedulable from workloads whose pods must leave before a restart.", "fleet#drain"},
		api.EventCollectRefused:      {Warning, "Set annotation collect to 1 to 40 lower-case letters, digits and hyphens, or remove it.", "logs-and-support#an-archive-of-a-nodes-state"},
		api.EventHostLeft:            good(),
		api.EventHostReleased:        {Warning, "Reinstall the host, or add it again: when it joins and is removed again, it is cleaned up.", noAction},
		api.EventSettingsPublished:   good(),
		api.EventSettingsRestored:    good(),
		api.EventPolicyApplied:       good(),
		api.EventSigningKeyMade:      {Info, "Wait: nodes that know another key join again.", "settings#signed-settings"},
	}
}

// nodeEvents are reasons of events on Nodes, and on certificate requests.
func nodeEvents() Table {
	const policies = "network-policies#events-conditions-and-metrics"
	return Table{
		api.EventCertificateRefused: {Warning, "Find out which host made the request, and why it breaks the rule in the message.", "machines#certificate-requests"},
		api.EventAddressDisputed:    {Error, "Correct the Node or the Service that claims the address, or move the address to the right host, as the event says.", notReady},
		api.EventSettingsRefused: {Error, "If the message names an unknown key, wait ten minutes; otherwise find out who writes ConfigMaps in the operator's namespace.",
			"troubleshooting#settings-do-not-arrive"},
		api.EventVersionRefused: {Warning, "If the operator did not write annotation desired-version, find out from the audit log of the API server who did; the operator orders versions automatically.",
			"fleet#upgrade"},
		api.EventRuntimeClassConflict: {Warning, "Run kubectl delete runtimeclass <name> to have the operator create its own, or use another name in spec.runtimeClasses of WindowsConfig.",
			"workloads#runtimeclasses"},
		api.EventNodeOrphaned: {Warning, "Add the host, or run kubectl delete node <name> if the host is gone.", "fleet#nodes-without-an-instance"},
		api.EventRegistryUnavailable: {Error, "Stop the program on the host that uses the port in the message.",
			"settings#registries-and-mirrors"},
		api.EventDefenderExclusions: {Warning, "Add the exclusions to the policy of Microsoft Defender, or set spec.runtime.defenderExclusions of WindowsConfig to None.",
			"troubleshooting#exclusions-in-microsoft-defender"},
		api.EventNetworkPolicyNotEnforced: {Warning, "Set spec.network.policies of WindowsConfig to Enforce; or restrict connections in the application, or at the Linux pods that it connects to.",
			"network#networkpolicies"},
		api.EventNetworkPolicyInvalid:     {Warning, "Correct the field that the message names.", policies},
		api.EventNetworkPolicyIPv6Ignored: {Info, "Add IPv4 ranges if pods on Windows nodes need the peers.", policies},
		api.EventNetworkPolicyTooLarge: {Error, "Divide the namespace, or select peers by ipBlock; spec.network.policyFallback of WindowsConfig can open such pods instead.",
			policies},
		api.ReasonNetworkRepaired:        good(),
		api.EventOverlayLeftoversRemoved: good(),
		api.EventNodeTakenForLinux: {Error, "Set no-hostsubnet-nodes to kubernetes.io/os=windows in OVN-Kubernetes' configuration, and restart its control plane.",
			"network#annotations-that-ovn-kubernetes-leaves"},
	}
}

// Reasons of the operator's Deployment (see fleetstatus).
const (
	// OperatorNotFound means that the namespace has no Deployment of the operator.
	OperatorNotFound = "OperatorNotFound"
	// OperatorNotReady means that no pod of the operator is Ready.
	OperatorNotReady = "OperatorNotReady"
)

func operators() Table {
	const page = "troubleshooting#the-operator-does-not-start"
	return Table{
		OperatorNotFound: {Error, "Install the operator, or name its namespace with -n.", page},
		OperatorNotReady: {Error, "Run kubectl describe pod and kubectl logs for the operator's pod: the last state of container manager has the reason.", page},
	}
}
