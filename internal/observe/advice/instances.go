package advice

import "github.com/windows-machine-config/wmco/api"

const windowsUpdates = "prerequisites#windows-updates"

const notReady = "troubleshooting#a-host-does-not-become-ready"

// connections are the reasons of Reachable, and of a private key that cannot be used.
func connections() Table {
	return Table{
		api.ReasonConnected: good(),
		api.ReasonPrivateKeyMissing: {Error, "Create a key with ssh-keygen -t ed25519 -N '' -f windows-key, and store it in Secret cloud-private-key under private-key.pem.",
			notReady},
		api.ReasonPrivateKeyInvalid: {Error, "Store an unencrypted private key in PEM or OpenSSH format in Secret cloud-private-key under private-key.pem.", notReady},
		api.ReasonConnectionRefused: {Error, "Start the service sshd on the host, or correct spec.port.", notReady},
		api.ReasonConnectionTimeout: {Error, "Check the address, whether the host is on, and the firewalls between the operator and the host's SSH port.", notReady},
		api.ReasonNoRoute:           {Error, "Check the address, and the routes from the operator's node to it.", notReady},
		api.ReasonNotSSH:            {Error, "Check spec.port: another service answers there.", notReady},
		api.ReasonAddressUnresolvable: {Error, "Correct the DNS record, or add the host with its IPv4 address.",
			notReady},
		api.ReasonAddressInvalid: {Error, "Add the host with the address that it has in its own network, or with its fully qualified name; or correct the Service or the Node that the message names.",
			notReady},
		api.ReasonAuthenticationFailed: {Error, "On the host, add the line in the message to C:\\ProgramData\\ssh\\administrators_authorized_keys, writable by SYSTEM " +
			"and Administrators only; or correct the user name or Secret cloud-private-key.", notReady},
		api.ReasonHostKeyChanged: {Error, "If the host was reinstalled, compare the fingerprint on its console and set spec.hostKey to the new key; if not, find out which " +
			"machine answers at the address.", notReady},
		api.ReasonHostKeyUnknown: {Error, "Compare the fingerprint in the message with the one on the host's console, and set spec.hostKey, or add the key to ConfigMap " +
			"windows-known-hosts.", "machines#host-keys"},
		api.ReasonHostKeyUnsuitable: {Error, "On the host, run ssh-keygen -A and restart the service sshd.", notReady},
		api.ReasonConnectionLost:    {Warning, "Wait: the operator resumes where it stopped; if this repeats, check the network to the host.", notReady},
	}
}

// hostNames are the reasons of Supported that are about names and addresses.
func hostNames() Table {
	return Table{
		api.ReasonHostnameInvalid:  {Error, "Rename the host, or set spec.hostname of the WindowsInstance.", notReady},
		api.ReasonHostnameConflict: {Error, "Rename the host, or remove the other WindowsInstance or Node of this name.", notReady},
		api.ReasonHostnameChanged: {Error, "Restore the host's name; or, if you renamed it, drain the node and annotate the WindowsInstance with " +
			api.AnnotationAcceptHostname + "=<new name>.", notReady},
		api.ReasonAddressNotProven: {Error, "Make the host's SSH server reachable for the operator at the address in the message, or select another interface with spec.network.", notReady},
		api.ReasonAddressMissing: {Error, "Give the host an IPv4 address and a default route, or select an interface with spec.network.",
			"network#selecting-the-interface"},
		api.ReasonAPIServerUnreachable: {Error, "Let the host resolve and reach the address in the message without a proxy, or set spec.cluster.apiServer of WindowsConfig to one that hosts reach.",
			"network#what-hosts-must-reach"},
		api.ReasonTrunkPortUnsupported: {Error, "Connect the host to an access port of the switch, or select another interface with spec.network.", "network#selecting-the-interface"},
		api.ReasonAdapterUnsupported:   {Error, "Remove the virtual switch or the team from the adapter, or select another interface with spec.network.", "network#selecting-the-interface"},
	}
}

// hosts are the other reasons of Supported.
func hosts() Table {
	return Table{
		api.ReasonSupported:               good(),
		api.ReasonBuildUnsupported:        {Error, "Use Windows Server 2019 (build 17763), 2022 (20348) or 2025 (26100).", notReady},
		api.ReasonWindowsUpdateNeeded:     {Error, "Install the cumulative update that the message names, or a later one, and restart the host.", windowsUpdates},
		api.ReasonArchitectureUnsupported: {Error, "Use a host with an x64 processor.", notReady},
		api.ReasonDriveUnsupported:        {Error, "Install Windows on drive C: of the host.", notReady},
		api.ReasonEditionUnsupported:      {Error, "Use Windows Server, with or without desktop.", notReady},
		api.ReasonServiceConflict:         {Error, "Remove the service in the message from the host: it does not belong to the operator.", notReady},
		api.ReasonPortInUse:               {Error, "Stop the program in the message, or configure it to listen on another port; the operator retries automatically.", "prerequisites#programs-of-others"},
		api.ReasonContainerRuntimeConflict: {Error, "Remove the other container runtime, or configure its containerd to listen on another pipe; the operator retries automatically.",
			"prerequisites#programs-of-others"},
		api.ReasonDiskTooSmall:         {Error, "Free disk space on drive C: of the host; at least 5 GB are required.", notReady},
		api.ReasonClockSkewed:          {Error, "Synchronize the host's clock: w32tm /resync.", notReady},
		api.ReasonVXLANPortUnsupported: {Error, "Use a host with Windows Server 2022 or later; or, except on vSphere, VXLAN port 4789.", "network#checks"},
	}
}

// joins are the reasons of Configured, Stalled and Ready.
func joins() Table {
	return Table{
		api.ReasonReady:           good(),
		api.ReasonConfigured:      good(),
		api.ReasonJoining:         {Info, "Wait: the host is being configured.", notReady},
		api.ReasonRebooting:       {Info, "Wait: the host restarts to continue the join.", notReady},
		api.ReasonWaitingForSlot:  {Info, "Wait for other hosts to join, or raise spec.rollout.maxConcurrentJoins of WindowsConfig.", notReady},
		api.ReasonPaused:          {Info, "To continue, run kubectl windows resume <host>, or kubectl windows resume --all.", "fleet#budget"},
		api.ReasonAdoptionPending: {Info, "Wait: the node of the other operator is drained when the budget allows it, and then joins.", "fleet#nodes-of-the-original-operator"},
		api.ReasonJoinFailed: {Warning, "Fix what the message says; the operator retries automatically. On the host, see C:\\k\\state\\journal.jsonl and C:\\var\\log.",
			notReady},
		api.ReasonContentAltered:  {Warning, "Wait: the file is sent again; if this repeats, check the host for antivirus software or a broken disk.", notReady},
		api.ReasonTransferTooSlow: {Warning, "Check the link to the host, its disk and its antivirus software; the transfer resumes where it stopped.", notReady},
		api.ReasonBlockedBySecuritySoftware: {Error, "Allow the program that the message names, by its SHA-256 or its folder, in the host's antivirus software and application policies.",
			notReady},
		api.ReasonClusterUnknown: {Warning, "If the message says forbidden, apply the manifests of the operator's version again; otherwise check the API server.", notReady},
		api.ReasonRepairFailed:   {Error, "Check the host; then run kubectl windows retry <host>.", "fleet#repair"},

		api.ReasonWaitingForWindowsSetup: {Info, "Wait: Windows setup is in progress; if this persists, check the host's console, or the cloud's agent on the host.", notReady},
		api.ReasonWindowsServicing:       {Info, "Wait: Windows installs features or updates; the join continues afterwards.", notReady},
		api.ReasonDISMNotAnswering:       {Warning, "Wait until Windows Update has finished on the host; if this persists, see C:\\Windows\\Logs\\DISM\\dism.log there, and restart the host.", notReady},
	}
}

// clusterNetworks are the reasons of Configured that are about the cluster's pod network.
func clusterNetworks() Table {
	const page = "network#checks"
	return Table{
		api.ReasonNetworkNotConfigured:       {Error, "Set spec.network of WindowsConfig as the message says.", page},
		api.ReasonNetworkTypeUnsupported:     {Error, "Migrate the cluster's network to OVN-Kubernetes, or set spec.network.provider of WindowsConfig to Custom.", page},
		api.ReasonNetworkProviderMismatch:    {Error, "Set spec.network.provider of WindowsConfig as the message says.", page},
		api.ReasonHybridOverlayNotConfigured: {Error, "Follow the message: it has the commands, or the settings for OVN-Kubernetes.", page},
		api.ReasonHybridOverlayDualStack:     {Error, "Use a cluster with IPv4 only, or set spec.network.provider of WindowsConfig to Custom.", page},
		api.ReasonNetworksOverlap:            {Error, "Give the hybrid overlay an address range of its own.", page},
		api.ReasonClusterNetworkReserved:     {Error, "Use a cluster network outside of 240.0.0.0/4.", page},
		api.ReasonClusterNetworkIPv6Only:     {Error, "Use a cluster with IPv4 or dual stack.", page},
		api.ReasonVXLANPortRequired:          {Error, "Run the commands in the message: they give the overlay another VXLAN port.", page},
		api.ReasonFlannelNotFound:            {Error, "Install Flannel, or set spec.network.flannel of WindowsConfig.", page},
		api.ReasonFlannelUnsuitable:          {Error, "Run the command in the message, and restart Flannel.", page},
		api.ReasonClusterDNSUnknown:          {Error, "Set spec.network.dns.servers of WindowsConfig to the address of the cluster's DNS Service.", page},
	}
}

// plans are the reasons why an action waits.
func plans() Table {
	const page, updates, replacement = "fleet#budget", "windows-updates#install-updates", "windows-generations#name-the-new-host"
	return Table{
		api.ReasonBudget: {Info, "Find out which nodes are out of service and why (kubectl windows status), or raise spec.rollout.maxUnavailable of WindowsConfig.",
			page},
		api.ReasonFleetSilent: {Error, "Find out why the nodes do not reach the API server (its load balancer, the network, the clock); remove those that are gone for good.",
			page},
		api.ReasonMaintenanceWindow: {Info, "Wait: the message says when the next window opens.", page},
		api.ReasonCanary:            {Info, "Wait: the message says when the soak time of the first nodes ends.", page},
		api.ReasonRolloutStopped: {Error, "Fix the cause on the host that failed and run kubectl windows retry <host>; if only that host is at fault, pause it.",
			page},
		api.ReasonUpdateRing:     {Info, "Wait for the earlier ring, or give each node the labels of exactly one ring; the message says which.", updates},
		api.ReasonUpdateDeferred: {Info, "Wait: the message says until when.", updates},
		api.ReasonUpdateNotKept: {Warning, "See C:\\Windows\\Logs\\CBS\\CBS.log on the host; block the update with spec.windowsUpdates.blocked of WindowsConfig, or run " +
			"kubectl windows retry <host>.", updates},
		api.ReasonReplacementNotReady:    {Info, "Wait, or correct what the message says about the other host; or remove spec.replaceWith.", replacement},
		api.ReasonReplaced:               {Warning, "Delete the WindowsInstance, or remove spec.replaceWith.", replacement},
		api.ReasonUpgradeCooldown:        {Info, "Wait: the message says until when.", page},
		api.ReasonVersionSkewUnsupported: {Error, "Upgrade the cluster, or install an operator whose kubelet the cluster supports; the message names both versions.", page},
		api.ReasonUnpublished:            {Info, "Wait; if this persists, see condition Published of WindowsConfig.", page},
		api.ReasonFailed:                 {Error, "Fix the cause in the message; then run kubectl windows retry <host>.", "fleet#retrying-a-failed-action"},
	}
}

// drains are the reasons of Draining.
func drains() Table {
	const page = "fleet#drain"
	return Table{
		api.ReasonDraining: {Info, "Wait: pods are leaving the node.", page},
		api.ReasonDrainBlocked: {Warning, "Add a replica to the workload whose PodDisruptionBudget the message names, or fix its replicas that are not ready; or set " +
			"spec.rollout.drain.onTimeout of WindowsConfig to Force or Abort.", page},
		api.ReasonDrainTimeout: {Warning, "See which pods remain; spec.rollout.drain.onTimeout of WindowsConfig determines what happens to them.", page},
		api.ReasonPodStuck:     {Warning, "Remove the finalizer that the message names; without one, check containerd and the kubelet on the host.", page},
	}
}
