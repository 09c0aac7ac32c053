package v1alpha1

// CustomNetwork is a network that the user supplies: by a CNI configuration, or by an installer that writes one.
//
// +kubebuilder:validation:XValidation:rule="has(self.cniConfig) != has(self.configDir)",message="exactly one of network.custom.cniConfig and network.custom.configDir must be set"
// +kubebuilder:validation:XValidation:rule="(has(self.kubeProxy) && self.kubeProxy == 'Managed') == has(self.networkName)",message="network.custom.networkName must be set when network.custom.kubeProxy is Managed, and only then"
type CustomNetwork struct {
	// cniConfig is a CNI configuration (JSON) as a Go template with .PodCIDR, .ServiceCIDR, .ClusterDNS and .NodeIP;
	// .ServiceCIDRs is the list of all ranges of Services. Each node inserts its own .PodCIDR and .NodeIP, so the template
	// cannot compare, cut or format these two. WICD writes the result to its own folder. If an installer writes the
	// configuration, leave this field empty and set configDir.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CNIConfig string `json:"cniConfig,omitempty"`

	// configDir is the folder on each node from which containerd reads the CNI configuration, for example
	// C:\etc\cni\net.d. The installer of your network writes the configuration there; the node does not become Ready
	// before that. WICD creates the folder if it does not exist, and does not remove it when the host leaves. When this
	// field changes, containerd restarts.
	// +optional
	ConfigDir HostFolder `json:"configDir,omitempty"`

	// binDir is the folder on each node with the programs of your network plugins, for example C:\opt\cni\bin. containerd
	// searches WICD's own folder for a plugin first, which has win-bridge, win-overlay and host-local, and then this one.
	// containerd runs these programs as SYSTEM. WICD creates the folder if it does not exist, and does not remove it when
	// the host leaves. When this field changes, containerd restarts.
	// +optional
	BinDir HostFolder `json:"binDir,omitempty"`

	// kubeProxy specifies what turns Services into load balancers on Windows nodes. None: your network, or a kube-proxy
	// that you deploy. Managed: WICD installs and runs kube-proxy, for a network of type L2Bridge.
	// +kubebuilder:validation:Enum=Managed;None
	// +kubebuilder:default=None
	// +optional
	KubeProxy KubeProxyMode `json:"kubeProxy,omitempty"`

	// networkName is the name of the pods' network in the Host Network Service of Windows, which kube-proxy needs when
	// kubeProxy is Managed. For win-bridge it is the name in the CNI configuration.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9 ._-]*[A-Za-z0-9_-])?$`
	// +optional
	NetworkName string `json:"networkName,omitempty"`
}

// KubeProxyMode specifies what turns Services into load balancers if the user supplies the network.
type KubeProxyMode string

// The modes of kube-proxy.
const (
	// KubeProxyNone leaves Services to the user's network.
	KubeProxyNone KubeProxyMode = "None"
	// KubeProxyManaged makes WICD run kube-proxy.
	KubeProxyManaged KubeProxyMode = "Managed"
)

// HostFolder is a folder of the user on drive C: of each node.
//
// +kubebuilder:validation:MinLength=4
// +kubebuilder:validation:MaxLength=200
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[Cc]:(\\[A-Za-z0-9_-]([A-Za-z0-9 ._-]*[A-Za-z0-9_-])?)+$')`,message="must be a folder on drive C: such as C:\\opt\\cni\\bin, of letters, digits, spaces and . _ -"
// +kubebuilder:validation:XValidation:rule=`!(self + '\\').lowerAscii().matches(r'^c:\\((k|windows|users|var\\log|var\\lib\\cni|var\\lib\\kubelet|programdata\\containerd)\\|programdata\\$)')`,message="must not be C:\\ProgramData, and not be or be below C:\\k, C:\\Windows, C:\\Users, C:\\var\\log, C:\\var\\lib\\cni, C:\\var\\lib\\kubelet or C:\\ProgramData\\containerd"
type HostFolder string
