package advice

import "github.com/windows-machine-config/wmco/api"

// overlays are the reasons of condition WindowsNetworkUnavailable that hybrid-overlay-node reports.
func overlays() Table {
	const (
		overlay = "network#problems-of-the-hybrid-overlay"
		kept    = "network#the-hosts-own-network"
	)
	return Table{
		api.ReasonOverlayCertificatePending: {Error, "Run ovnkube-identity of OVN-Kubernetes with --enable-hybrid-overlay (chart value enableOvnKubeIdentity), and check the request with kubectl describe csr.",
			overlay},
		api.ReasonOverlaySubnetMissing: {Error, "Check that the cluster manager of OVN-Kubernetes runs with its hybrid overlay enabled, and that the range of the hybrid overlay is not exhausted: its log says so.",
			overlay},
		api.ReasonOverlayNodeTreatedAsLinux: {Error, `Start OVN-Kubernetes with --no-hostsubnet-nodes="kubernetes.io/os=windows" (on OpenShift, set hybridOverlayConfig).`, overlay},
		api.ReasonOverlayLinuxNodesMissing:  {Error, "Start OVN-Kubernetes on Linux nodes with its hybrid overlay enabled, and with the same settings as in its cluster manager.", overlay},
		api.ReasonOverlayAnnotationDenied:   {Error, "Run ovnkube-identity of OVN-Kubernetes with --enable-hybrid-overlay, and with the permissions of OVN-Kubernetes for group system:ovn-nodes.", overlay},
		api.ReasonOverlaySubnetRefused:      {Error, "Correct what the message names on this Node or on the other one, or the ranges in WindowsConfig spec.network.ovn.", overlay},
		api.ReasonOverlayHostRouteRefused:   {Error, "Install the latest cumulative update of Windows on the host, and restart it; until then, use no HTTP and TCP probes for pods on it.", overlay},
		api.ReasonOverlayAdapterUnexpected: {Error, "Select the interface with spec.network of the WindowsInstance, or disconnect the adapter that Windows took; then restart the host.",
			overlay},
		api.ReasonOverlayNetworkUnexpected: {Warning, "If pods on the node reach no other nodes, drain it and delete the network that the message names on the host: Get-HnsNetwork | Where-Object Name -eq <name> | Remove-HnsNetwork.",
			overlay},
		api.ReasonOverlayNeighborRefused: {Warning, "Correct what the message names on those Nodes; each of them that is a Windows node reports the same about itself.", overlay},
		api.ReasonHostAddressLost:        {Error, "Give the host its address with a DHCP reservation, or as the message says; then delete the file that the message names on the host.", kept},
		api.ReasonHostNetworkChanged:     {Warning, "Set what the message names on the virtual adapter that now has the host's address (Set-DnsClientServerAddress, Set-NetIPInterface, New-NetIPAddress).", kept},
	}
}
