package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WindowsConfig holds the settings for all Windows nodes of a cluster. There is at most one, named cluster. Without it,
// the defaults apply.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=windowsconfigs,singular=windowsconfig
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="there is one WindowsConfig, and its name must be cluster"
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network.provider`,description="Provider of the pod network"
// +kubebuilder:printcolumn:name="Joins",type=integer,JSONPath=`.spec.rollout.maxConcurrentJoins`,description="Hosts that may join at a time"
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.rollout.paused`,description="Whether the rollout is paused"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="Windows nodes"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedNodes`,description="Windows nodes that have the published settings"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the object was created"
type WindowsConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec WindowsConfigSpec `json:"spec,omitempty"`

	// status is the observed state. Written by the operator.
	// +optional
	Status WindowsConfigStatus `json:"status,omitempty"`
}

// WindowsConfigList is a list of WindowsConfigs.
//
// +kubebuilder:object:root=true
type WindowsConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WindowsConfig `json:"items"`
}

// WindowsConfigSpec groups the settings by topic.
//
// +kubebuilder:validation:XValidation:rule="!has(self.pods) || !has(self.pods.defaultRuntimeClass) || self.pods.defaultRuntimeClass in ['windows2019', 'windows2022', 'windows2025'] || has(self.runtimeClasses) && (has(self.runtimeClasses.hyperV) && self.pods.defaultRuntimeClass in ['windows2019-hyperv', 'windows2022-hyperv', 'windows2025-hyperv'] || has(self.runtimeClasses.additional) && self.runtimeClasses.additional.exists(c, c.name == self.pods.defaultRuntimeClass))",message="pods.defaultRuntimeClass must be a class of the operator, such as windows2022, or a name of runtimeClasses.additional"
type WindowsConfigSpec struct {
	// rollout limits how many hosts change at the same time, and when.
	// +optional
	Rollout RolloutSpec `json:"rollout,omitempty"`

	// kubelet changes the kubelet's configuration on all nodes. Kubelets restart to apply a change; pods keep running.
	// +optional
	Kubelet KubeletSpec `json:"kubelet,omitempty"`

	// taint is the taint of Windows nodes, which repels pods without a matching toleration. New nodes register with it.
	// When it changes, the operator replaces the other value on existing nodes. It does not add the taint to nodes from
	// which it was removed.
	// +kubebuilder:validation:Enum="os=Windows:NoSchedule";"os=windows:NoSchedule"
	// +kubebuilder:default="os=Windows:NoSchedule"
	// +optional
	Taint NodeTaint `json:"taint,omitempty"`

	// trust specifies how the operator verifies that a host is the expected one. FirstUse accepts the SSH host key that
	// the host presents at first contact, stores it, and requires it from then on. Pinned connects only to hosts whose key
	// is known in advance, from ConfigMap windows-known-hosts or from spec.hostKey of the WindowsInstance.
	// +kubebuilder:validation:Enum=FirstUse;Pinned
	// +kubebuilder:default=FirstUse
	// +optional
	Trust Trust `json:"trust,omitempty"`

	// hosts limits which hosts may become nodes.
	// +optional
	Hosts HostsSpec `json:"hosts,omitempty"`

	// clusterAPI names the Machines of Cluster API whose hosts become nodes of this cluster. By default there are none,
	// because Machines in a management cluster may belong to other clusters, and the creator of a Machine decides to which
	// address the operator connects. On OpenShift, the field has no effect: the Machines are those in namespace
	// openshift-cluster-api.
	// +optional
	ClusterAPI *ClusterAPISpec `json:"clusterAPI,omitempty"`

	// network specifies how pods on Windows nodes are connected.
	// +optional
	Network NetworkSpec `json:"network,omitempty"`

	// cloudProvider specifies whether Windows nodes are initialized by an external cloud provider, that is, by the
	// cluster's cloud-controller-manager. External: kubelets run with --cloud-provider=external, and new nodes get the
	// taint node.cloudprovider.kubernetes.io/uninitialized and no pods until the cloud's controller has removed it. None:
	// nodes are not initialized by a cloud. Auto follows the cluster. On OpenShift, it is External if
	// status.platformStatus.type of Infrastructure cluster is AlibabaCloud, AWS, GCP, IBMCloud, KubeVirt, Nutanix,
	// OpenStack, PowerVS or VSphere, or is External with an external cloudControllerManager. Elsewhere, it is External if
	// Linux nodes have a spec.providerID of a cloud with such a controller (for example aws://), and all of these are of
	// one cloud. On Azure, where nodes initialize themselves, it is External if the operator's payload has the
	// cloud-node-manager for Windows. Otherwise, it is None; status.cloudProvider contains the decision and its reason.
	// Kubelets restart after a change; pods keep running.
	// +kubebuilder:validation:Enum=Auto;External;None
	// +kubebuilder:default=Auto
	// +optional
	CloudProvider CloudProvider `json:"cloudProvider,omitempty"`

	// proxy is the egress proxy. On OpenShift, the Proxy object cluster takes precedence when it exists.
	// +optional
	Proxy ProxySpec `json:"proxy,omitempty"`

	// registries configures registries and their mirrors. On OpenShift, ImageDigestMirrorSets and ImageTagMirrorSets take
	// precedence when there are any.
	// +optional
	Registries RegistriesSpec `json:"registries,omitempty"`

	// runtime changes how containerd runs pods on all nodes.
	// +optional
	Runtime RuntimeSpec `json:"runtime,omitempty"`

	// images are images that nodes have before pods need them.
	// +optional
	Images ImagesSpec `json:"images,omitempty"`

	// csiProxy specifies whether nodes run csi-proxy, through which CSI drivers in ordinary containers mount volumes.
	// Drivers in HostProcess containers do not need it, and its named pipes let a pod that mounts them change the disks
	// and shares of its node. Run runs it on every node, Off on none. Auto is Run on OpenShift. Elsewhere it is Off,
	// because csi-proxy is deployed there as a DaemonSet, and a node cannot run two. When the field changes, other
	// services and pods keep running.
	// +kubebuilder:validation:Enum=Auto;Run;Off
	// +kubebuilder:default=Auto
	// +optional
	CSIProxy CSIProxy `json:"csiProxy,omitempty"`

	// runtimeClasses specifies which RuntimeClasses the operator manages for pods on Windows nodes.
	// +optional
	RuntimeClasses RuntimeClassesSpec `json:"runtimeClasses,omitempty"`

	// pods specifies defaults for pods on Windows nodes.
	// +optional
	Pods PodsSpec `json:"pods,omitempty"`

	// windowsUpdates specifies what nodes do about Windows updates: report them, which is the default, install them
	// within the budget of rollouts, or ignore them.
	// +optional
	WindowsUpdates WindowsUpdatesSpec `json:"windowsUpdates,omitempty"`

	// logs limits the disk space for logs of services on Windows nodes, and specifies how detailed they are. Services that
	// get these settings on their command line, such as the kubelet, restart when they change; pods keep running. The
	// kubelet manages the logs of pods.
	// +optional
	Logs LogsSpec `json:"logs,omitempty"`

	// cluster specifies properties of the cluster that the operator cannot read from it.
	// +optional
	Cluster ClusterSpec `json:"cluster,omitempty"`
}

// NodeTaint is the taint of Windows nodes, in the format of kubectl taint.
type NodeTaint string

// The taints of Windows nodes.
const (
	// TaintWindows has the value that the original operator uses.
	TaintWindows NodeTaint = "os=Windows:NoSchedule"
	// TaintLowerCase has the value that the Kubernetes documentation uses.
	TaintLowerCase NodeTaint = "os=windows:NoSchedule"
)

// Trust specifies how the operator verifies that a host is the expected one.
type Trust string

// The policies for trusting a host.
const (
	// TrustFirstUse accepts and stores the host key of the first contact.
	TrustFirstUse Trust = "FirstUse"
	// TrustPinned accepts only host keys that are known in advance.
	TrustPinned Trust = "Pinned"
)

// WindowsConfigStatus is the observed state of the settings.
type WindowsConfigStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// settings identifies the settings that are published for nodes. A node that has applied them has the same value in
	// its annotation windowsmachineconfig.openshift.io/settings.
	// +optional
	Settings string `json:"settings,omitempty"`

	// nodes is the number of nodes that follow these settings.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// updatedNodes is the number of nodes that have applied the settings.
	// +optional
	UpdatedNodes int32 `json:"updatedNodes,omitempty"`

	// cloudProvider is the decision that follows from spec.cloudProvider.
	// +optional
	CloudProvider *CloudProviderStatus `json:"cloudProvider,omitempty"`

	// missingServices are services that nodes do not get from the operator, because their programs are not in its
	// payload.
	// +listType=map
	// +listMapKey=name
	// +optional
	MissingServices []MissingService `json:"missingServices,omitempty"`

	// rollout is the progress of all nodes towards the desired version.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// conditions are Published (the settings are valid as a whole and nodes can read them; good when True), Degraded (part
	// of the settings cannot be applied; the message names each; bad when True), PoliciesInForce (the admission policies
	// are installed; good when True), LimitsMissing (the policies that limit the operator itself are not installed; bad
	// when True), AnotherOperator (a second operator is installed and stands by; bad when True), ClusterAPIReady (Machines
	// of Cluster API become nodes; good when True, absent where Cluster API is not used), and KubernetesUnsupported and
	// ContainerdUnsupported (nodes run a minor version of Kubernetes, or get a release line of containerd, that no longer
	// receives fixes; bad when True).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NetworkProvider is a provider of the pod network.
type NetworkProvider string

// The network providers.
const (
	// NetworkOVNHybridOverlay connects Windows nodes to OVN-Kubernetes through its hybrid overlay.
	NetworkOVNHybridOverlay NetworkProvider = "OVNHybridOverlay"
	// NetworkFlannel connects Windows nodes to a cluster that uses Flannel with VXLAN.
	NetworkFlannel NetworkProvider = "Flannel"
	// NetworkCustom uses a network that the user supplies, as configured in network.custom.
	NetworkCustom NetworkProvider = "Custom"
)

// NetworkSpec specifies how pods on Windows nodes are connected.
//
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider != 'Custom' || has(self.custom)",message="network.custom must be set when network.provider is Custom"
// +kubebuilder:validation:XValidation:rule="!has(self.custom) || has(self.provider) && self.provider == 'Custom'",message="network.custom may be set only when network.provider is Custom"
// +kubebuilder:validation:XValidation:rule="!has(self.ovn) || has(self.provider) && self.provider == 'OVNHybridOverlay'",message="network.ovn may be set only when network.provider is OVNHybridOverlay"
// +kubebuilder:validation:XValidation:rule="!has(self.flannel) || has(self.provider) && self.provider == 'Flannel'",message="network.flannel may be set only when network.provider is Flannel"
type NetworkSpec struct {
	// provider is the provider of the pod network: OVNHybridOverlay for a cluster with OVN-Kubernetes, Flannel for a
	// cluster with Flannel, Custom for your own network. Empty means OVNHybridOverlay on OpenShift. On other clusters,
	// hosts do not join without a provider, because a node without a network would never become Ready.
	// +kubebuilder:validation:Enum=OVNHybridOverlay;Flannel;Custom
	// +optional
	Provider NetworkProvider `json:"provider,omitempty"`

	// allowFrom is the list of CIDR ranges, for example 10.0.0.0/16, from which the Windows firewall accepts
	// connections to SSH, the kubelet and the metrics port (TCP 22, 10250 and 9182), and health checks of load balancers
	// to kube-proxy (TCP 10256 and health-check node ports). It must include the addresses of all control plane nodes, of
	// your Prometheus, and of load balancers outside of the cluster, except those of Azure and GCP, which are always
	// included; otherwise logs, exec, metrics, SSH connections of the operator and health checks fail. It limits only the
	// operator's own firewall rules; other rules that accept more still apply. By default, connections are accepted from
	// all addresses. A joined node applies a change within seconds, even when the operator cannot log in to it.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self) && cidr(self).prefixLength() > 0",message="must be a range of addresses such as 10.0.0.0/16"
	// +listType=set
	// +optional
	AllowFrom []string `json:"allowFrom,omitempty"`

	// repair specifies what a node does about objects of the Host Network Service that Windows has lost, or that no Service
	// or pod owns any longer. Full, the default, repairs proven problems: kube-proxy is restarted for lost load balancers at
	// most twice an hour and four times a day, pods without a network are created again, and leftovers are removed. All other
	// problems are reported. Report changes nothing and reports everything in condition WindowsNetworkUnavailable. Off does
	// not check load balancers, endpoints of pods and leftovers at all. With provider Custom, the field has no effect.
	// +kubebuilder:validation:Enum=Full;Report;Off
	// +optional
	Repair NetworkRepair `json:"repair,omitempty"`

	// policies specifies whether Windows nodes enforce the NetworkPolicies of their pods (docs/network-policies.md).
	// Enforce, the default, enforces them. Report computes the rules and reports problems, but does not restrict pods. Off ignores
	// NetworkPolicies on Windows nodes. With provider Custom, the field has no effect: NetworkPolicies are up to your
	// network. A change interrupts no pods.
	// +kubebuilder:validation:Enum=Enforce;Report;Off
	// +optional
	Policies NetworkPolicies `json:"policies,omitempty"`

	// policyFallback specifies what pods may do in a direction whose NetworkPolicies are too large for the rules of a
	// Windows node: nothing with Closed, the default, or everything with Open. An event of the NetworkPolicies or a
	// condition of the Node reports it. What is invalid or unknown is always closed.
	// +kubebuilder:validation:Enum=Closed;Open
	// +optional
	PolicyFallback PolicyFallback `json:"policyFallback,omitempty"`

	// ovn holds the settings of provider OVNHybridOverlay.
	// +optional
	OVN *OVNNetwork `json:"ovn,omitempty"`

	// flannel holds the settings of provider Flannel.
	// +optional
	Flannel *FlannelNetwork `json:"flannel,omitempty"`

	// custom holds the settings of provider Custom.
	// +optional
	Custom *CustomNetwork `json:"custom,omitempty"`

	// dns specifies how pods on Windows nodes reach the cluster's DNS, if that cannot be read from the cluster.
	// +optional
	DNS DNSSpec `json:"dns,omitempty"`
}

// NetworkRepair specifies what a node does about lost or unowned objects of the pod network.
type NetworkRepair string

// Values of NetworkRepair.
const (
	RepairFull   NetworkRepair = "Full"
	RepairReport NetworkRepair = "Report"
	RepairOff    NetworkRepair = "Off"
)

// NetworkPolicies specifies whether Windows nodes enforce the NetworkPolicies of their pods.
type NetworkPolicies string

// Values of NetworkPolicies.
const (
	PoliciesEnforce NetworkPolicies = "Enforce"
	PoliciesReport  NetworkPolicies = "Report"
	PoliciesOff     NetworkPolicies = "Off"
)

// PolicyFallback specifies what pods may do where their NetworkPolicies are too large for a Windows node.
type PolicyFallback string

// Values of PolicyFallback.
const (
	FallbackClosed PolicyFallback = "Closed"
	FallbackOpen   PolicyFallback = "Open"
)

// OVNNetwork holds settings of the hybrid overlay that cannot be read from OVN-Kubernetes outside OpenShift.
type OVNNetwork struct {
	// vxlanPort is the UDP port of the hybrid overlay: the value of OVN-Kubernetes' flag --hybrid-overlay-vxlan-port.
	// The default is 4789. On OpenShift, the port comes from hybridOverlayVXLANPort of Network.operator, and this field
	// must not be set. Windows Server 2019 supports only 4789.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	VXLANPort int32 `json:"vxlanPort,omitempty"`

	// clusterSubnets are the ranges from which OVN-Kubernetes allocates the pod subnets of Linux nodes: the value of its
	// flag --cluster-subnets, for example 10.128.0.0/14/23, separated by commas. Windows nodes send nothing to a Linux
	// node that claims a subnet outside these ranges. The default is the range in kubeadm's configuration; without one,
	// every subnet that no other node claims is accepted. On OpenShift, the ranges come from the cluster, and this field
	// must not be set.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F:.]+/[0-9]{1,3}(/[0-9]{1,3})?(,[0-9a-fA-F:.]+/[0-9]{1,3}(/[0-9]{1,3})?)*$`
	// +optional
	ClusterSubnets string `json:"clusterSubnets,omitempty"`

	// hybridClusterSubnets are the ranges for the pods of Windows nodes, and of Linux nodes with another network: the
	// value of OVN-Kubernetes' flag --hybrid-overlay-cluster-subnets. It must have exactly one IPv4 range.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F:.]+/[0-9]{1,3}(/[0-9]{1,3})?(,[0-9a-fA-F:.]+/[0-9]{1,3}(/[0-9]{1,3})?)*$`
	// +optional
	HybridClusterSubnets string `json:"hybridClusterSubnets,omitempty"`
}

// FlannelNetwork specifies where Flannel's configuration is.
type FlannelNetwork struct {
	// namespace is the namespace of Flannel.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:default=kube-flannel
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// configMap is the ConfigMap with Flannel's configuration in key net-conf.json. The operator is permitted to read only
	// the default one; for another name, grant its service account get on it.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:default=kube-flannel-cfg
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
}

// Location of the configuration in Flannel's own manifests.
const (
	// FlannelNamespace is the default of network.flannel.namespace.
	FlannelNamespace = "kube-flannel"
	// FlannelConfigMap is the default of network.flannel.configMap.
	FlannelConfigMap = "kube-flannel-cfg"
)
