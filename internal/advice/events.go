package advice

import "github.com/windows-machine-config/wmco/api"

const noAction = "troubleshooting#an-upgrade-reboot-or-removal-does-not-happen"

// hostEvents are reasons of events on WindowsInstances, and on what they are made of.
func hostEvents() Table {
	return Table{
		api.EventInstanceInvalid:     {Error, "Correct the entry or the Machine as the message says.", "troubleshooting#a-machine-gets-no-instance"},
		api.EventInstanceSetup:       good(),
		api.EventInstanceTeardown:    good(),
		api.EventProviderIDDiffers:   {Warning, "Check whether the Machine's address is that of another machine, or the Node is left from one.", noAction},
		api.EventHostKeyPinned:       good(),
		api.EventHostKeyShared:       {Warning, "Create new host keys on copies of one image: delete C:\\ProgramData\\ssh\\ssh_host_*, and restart sshd.", "machines#host-keys"},
		api.EventMaintenanceStarted:  good(),
		api.EventMaintenanceDone:     good(),
		api.EventMaintenanceFailed:   {Error, "Fix the cause in the message; then run kubectl windows retry <host>.", "fleet#retrying-a-failed-action"},
		api.EventMaintenanceDeferred: good(),
		api.EventPodsRemain:          {Info, "Let workloads not tolerate taint node.kubernetes.io/unschedulable if their pods have to leave before a restart.", "fleet#drain"},
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
	return Table{
		api.EventCertificateRefused: {Warning, "Find out which host made the request, and why it breaks the rule in the message.", "machines#certificate-requests"},
		api.EventAddressDisputed:    {Error, "Correct the Node or the Service that claims the address, or which host has it, as the event says.", notReady},
		api.EventSettingsRefused: {Error, "If the message says another key, wait ten minutes; otherwise find out who writes ConfigMaps in the operator's namespace.",
			"troubleshooting#settings-do-not-arrive"},
		api.EventVersionRefused: {Warning, "If the operator did not write annotation desired-version, find out who did, in the audit log of the API server; the operator orders a version itself.",
			"fleet#upgrade"},
		api.EventRuntimeClassConflict: {Warning, "Run kubectl delete runtimeclass <name>, and the operator creates its own; or use another name in spec.runtimeClasses of WindowsConfig.",
			"workloads#runtimeclasses"},
		api.EventNodeOrphaned: {Warning, "Add the host, or run kubectl delete node <name> when the host is gone.", "fleet#nodes-without-an-instance"},
		api.EventRegistryUnavailable: {Error, "Stop the program on the host that uses the port in the message.",
			"settings#registries-and-mirrors"},
		api.EventDefenderExclusions: {Warning, "Add the exclusions to the policy of Microsoft Defender, or set spec.runtime.defenderExclusions of WindowsConfig to None.",
			"troubleshooting#exclusions-in-microsoft-defender"},
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

// operators are the reasons of the operator's Deployment.
func operators() Table {
	const page = "troubleshooting#the-operator-does-not-start"
	return Table{
		OperatorNotFound: {Error, "Install the operator, or name its namespace with -n.", page},
		OperatorNotReady: {Error, "Run kubectl describe pod and kubectl logs for the operator's pod: the last state of container manager has the reason.", page},
	}
}

// pods are the reasons of containers that wait (k8s.io/kubernetes, pkg/kubelet/images/types.go and
// pkg/kubelet/kuberuntime).
func pods() Table {
	const page, start = "troubleshooting#images-are-not-pulled", "workloads#why-a-pod-does-not-start"
	const accounts = "workloads#group-managed-service-accounts"
	return Table{
		api.EventImageForAnotherBuild: {Error, "Use an image that is built for the node's Windows build (for example tag ltsc2022 for Windows Server 2022), or select nodes of the " +
			"image's build with label node.kubernetes.io/windows-build.", page},
		api.EventMirrorUnavailable:   {Error, "Check whether the mirrors in the message answer and have the image.", page},
		api.EventRegistryDenied:      {Error, "Add an entry for the registry to the pull secret of the nodes, or imagePullSecrets to the pod.", page},
		api.EventRegistryUnreachable: {Error, "Check whether the node reaches the registry: DNS, proxy and firewalls.", page},
		api.EventProxyUnreachable:    {Error, "Check whether the proxy answers the node, and spec.proxy of WindowsConfig (on OpenShift, Proxy cluster).", "settings#proxy"},
		api.EventNoNodeForBuild:      {Error, "Add a Windows node of that build, or use an image and a RuntimeClass for a build that there is.", start},
		api.EventNoNodeFits:          {Error, "Correct the node selector or the affinity of the pod, or label a node with: kubectl label node <node> <key>=<value>.", start},
		api.EventNodesUnavailable:    {Warning, "Wait until a node is Ready and not cordoned any more; kubectl windows status says what keeps it.", start},
		api.EventTaintNotTolerated:   {Error, "Use a RuntimeClass such as windows2022, which adds the toleration of the taint of Windows nodes, or tolerate the taint in the message.", start},
		api.EventMemoryLimitMissing:  {Error, "Set resources.limits.memory of the containers, and free memory on the nodes.", start},
		api.EventRuntimeClassMissing: {Error, "Create the RuntimeClass again, or use another one; kubectl get runtimeclass lists them.", start},
		api.EventNodeNotInDomain: {Error, "Join a Windows host to the domain, or register a plugin of Container Credential Guard on it, and let the pod select " +
			api.LabelGMSA + "=true.", accounts},
		api.EventNoNodeWithHyperV: {Error, "Follow the message of condition WindowsHyperVCapable of the Nodes, or use a RuntimeClass without Hyper-V isolation.",
			"workloads#hyper-v-isolation"},
		api.EventPodTooLarge:           {Warning, "See what the scheduler says: kubectl describe pod <pod>; give the pod fewer selectors, tolerations and terms of affinity.", start},
		api.EventCredentialSpecMissing: {Error, "Install the webhook of windows-gmsa with its CustomResourceDefinition, and create the pod again.", accounts},
		"ErrImagePull":                 {Warning, "See the registry's answer in the message.", page},
		"ImagePullBackOff": {Warning, "See the registry's answer in the message.",
			page},
		"InvalidImageName":           {Error, "Correct the name of the image.", page},
		"CreateContainerError":       {Warning, "See the message; on the host, see C:\\var\\log\\containerd.", page},
		"CreateContainerConfigError": {Error, "Create the ConfigMap or Secret that the message names.", page},
		"RunContainerError":          {Warning, "See the message; on the host, see C:\\var\\log\\containerd.", page},
		"CrashLoopBackOff":           {Warning, "See the container's log: kubectl logs --previous.", page},
		"ContainerCreating":          {Info, "Wait; events of the pod say what it waits for.", page},
	}
}
