//go:build linux

package testenv

// Network is the pod network of an Env. Only one can be configured.
type Network string

// Pod networks.
const (
	// NetworkBridge is win-bridge. Nodes become Ready, but have no images for pods.
	NetworkBridge Network = ""
	// NetworkLab is win-overlay on the network that the lab creates on each Wine host. Pods run: see WinWebserver.
	NetworkLab Network = "Lab"
	// NetworkHybridOverlay is OVN-Kubernetes' hybrid overlay, with kube-proxy. Package ovn does the work of its Linux side.
	NetworkHybridOverlay Network = "HybridOverlay"
	// NetworkFlannel is Flannel, with kube-proxy.
	NetworkFlannel Network = "Flannel"
)

// Components returns the names of the components that the network adds to a node.
func (n Network) Components() []string {
	switch n {
	case NetworkLab:
		return []string{"containerd-shim-runhcs-v1", "win-overlay"}
	case NetworkHybridOverlay:
		return []string{"kube-proxy", "hybrid-overlay-node", "wicd-cni"}
	case NetworkFlannel:
		return []string{"kube-proxy", "flanneld", "wicd-cni"}
	}
	return nil
}

// networkComponents returns the components of the network and, with option Pods, those that pods need.
func (o Options) networkComponents() []string {
	names := o.Network.Components()
	if o.Pods {
		names = append(names, NetworkLab.Components()...)
	}
	return names
}

// bridgeCNIConfig is the CNI configuration of NetworkBridge: win-bridge with addresses of host-local.
const bridgeCNIConfig = `{
  "cniVersion": "0.3.1",
  "name": "lab",
  "type": "win-bridge",
  "ipam": {"type": "host-local", "subnet": "{{.PodCIDR}}"},
  "dns": {"nameservers": ["{{.ClusterDNS}}"]}
}
`
