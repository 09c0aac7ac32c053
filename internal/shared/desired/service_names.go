package desired

import "github.com/windows-machine-config/wmco/api"

// Names of the services that a node may have, in addition to WICD's own (api.WICDService).
const (
	ContainerdService  = "containerd"
	KubeletService     = "kubelet"
	OverlayService     = "hybrid-overlay-node"
	FlannelService     = "flanneld"
	KubeProxyService   = "kube-proxy"
	CSIProxyService    = "csi-proxy"
	ExporterService    = "windows_exporter"
	NodeManagerService = "cloud-node-manager" // on Azure
)

// Services returns the names of all services that a node may have, in the order in which they start.
func Services() []string {
	return []string{
		ContainerdService, KubeletService, OverlayService, FlannelService, KubeProxyService, CSIProxyService, ExporterService, NodeManagerService,
		api.WICDService,
	}
}
