package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WindowsConfig holds the settings for all Windows nodes of a cluster. There is at most one, named cluster;
// without it the defaults hold.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=windowsconfigs,singular=windowsconfig
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="there is one WindowsConfig, and its name must be cluster"
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network.provider`
// +kubebuilder:printcolumn:name="Joins",type=integer,JSONPath=`.spec.rollout.maxConcurrentJoins`
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.rollout.paused`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedNodes`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WindowsConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the settings.
	// +optional
	Spec WindowsConfigSpec `json:"spec,omitempty"`

	// status says what became of them. Written by the operator.
	// +optional
	Status WindowsConfigStatus `json:"status,omitempty"`
}

// WindowsConfigList is a list of WindowsConfig.
//
// +kubebuilder:object:root=true
type WindowsConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WindowsConfig `json:"items"`
}

// WindowsConfigSpec groups the settings by what they concern.
type WindowsConfigSpec struct {
	// rollout bounds what happens to how many hosts at once.
	// +optional
	Rollout RolloutSpec `json:"rollout,omitempty"`

	// kubelet changes the kubelet's configuration on all nodes; their kubelets start anew, their pods go on.
	// +optional
	Kubelet KubeletSpec `json:"kubelet,omitempty"`

	// trust says what it takes to believe that a host is the one that was announced: FirstUse takes it at its word at first contact, keeps
	// the SSH host key that it shows and asks for that from then on. Pinned connects to a host only where its key is known in advance: from
	// ConfigMap windows-known-hosts, or from spec.hostKey of its WindowsInstance. FirstUse by default.
	// +kubebuilder:validation:Enum=FirstUse;Pinned
	// +kubebuilder:default=FirstUse
	// +optional
	Trust Trust `json:"trust,omitempty"`

	// network says how pods on Windows nodes are connected.
	// +optional
	Network NetworkSpec `json:"network,omitempty"`

	// proxy is the way out of the cluster's network. OpenShift's own Proxy cluster wins where there is one.
	// +optional
	Proxy ProxySpec `json:"proxy,omitempty"`

	// registries says where images come from. OpenShift's own ImageDigestMirrorSets and ImageTagMirrorSets win where
	// there is one of them.
	// +optional
	Registries RegistriesSpec `json:"registries,omitempty"`

	// logs bounds what the logs of services on Windows nodes take of the disk; services whose size or age is on their command
	// line, as the kubelet's, start anew when it changes, their pods go on. The logs of pods are the kubelet's own matter.
	// +optional
	Logs LogsSpec `json:"logs,omitempty"`
}

// Trust says what it takes to believe that a host is the one that was announced.
type Trust string

// The ways to come to trust a host.
const (
	TrustFirstUse Trust = "FirstUse"
	TrustPinned   Trust = "Pinned"
)

// LogsSpec bounds the logs of each service. A log that is full is put aside beside the one that is written, with the time
// in its name.
type LogsSpec struct {
	// size is how much is written to a log before it is put aside: a quantity of bytes from 1Mi to 10Gi,
	// 100Mi by default.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('10Gi')) <= 0",message="size must be a quantity of bytes from 1Mi to 10Gi, for example 100Mi"
	// +kubebuilder:default="100Mi"
	// +optional
	Size string `json:"size,omitempty"`

	// age is how long a log that was put aside is kept: hours, minutes and seconds, at least 1h; 168h by
	// default.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1h')",message="age must be at least 1h, in hours, minutes and seconds, for example 168h or 36h30m"
	// +kubebuilder:default="168h"
	// +optional
	Age string `json:"age,omitempty"`

	// count is how many logs of a service that were put aside are kept, besides the one that is written; 5 by
	// default.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=5
	// +optional
	Count int32 `json:"count,omitempty"`
}

// ProxySpec is the way out of the cluster's network.
type ProxySpec struct {
	// httpProxy is the URL of the proxy for HTTP: http://[user:password@]host[:port]. Services get it within seconds
	// and start anew for it; nodes are neither drained nor restarted.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	HTTPProxy string `json:"httpProxy,omitempty"`

	// httpsProxy is the URL of the proxy for HTTPS.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`

	// noProxy lists what is reached directly, with commas in between: host names, .domains, addresses, ranges. What is in
	// the cluster is added by itself.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	NoProxy string `json:"noProxy,omitempty"`
}

// RegistriesSpec says where images come from.
type RegistriesSpec struct {
	// mirrors of registries.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Mirrors []RegistryMirrors `json:"mirrors,omitempty"`
}

// RegistryMirrors are the mirrors of one source.
type RegistryMirrors struct {
	// source is a registry, or a repository in one, as images name it: mcr.microsoft.com, quay.io/org.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Source string `json:"source"`

	// mirrors are tried in this order.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +required
	Mirrors []RegistryMirror `json:"mirrors"`

	// mirrorSourcePolicy says whether the source is asked when no mirror has an image.
	// +kubebuilder:validation:Enum=AllowContactingSource;NeverContactSource
	// +kubebuilder:default=AllowContactingSource
	// +optional
	MirrorSourcePolicy MirrorSourcePolicy `json:"mirrorSourcePolicy,omitempty"`

	// pullBy says which images come from the mirrors: those named by digest, or those named by tag as well.
	// +kubebuilder:validation:Enum=Digest;DigestAndTag
	// +kubebuilder:default=DigestAndTag
	// +optional
	PullBy PullBy `json:"pullBy,omitempty"`
}

// RegistryMirror is one mirror.
type RegistryMirror struct {
	// location is a registry, or a repository in one. Its path must end with that of the source.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Location string `json:"location"`

	// insecure reaches the mirror by HTTP: what comes from it is only as trustworthy as the network.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// caBundle is the authority of the mirror's certificate, as PEM. Without it, what the host trusts is asked.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CABundle string `json:"caBundle,omitempty"`
}

// MirrorSourcePolicy says whether a source may be asked.
type MirrorSourcePolicy string

// The policies, as OpenShift names them.
const (
	AllowContactingSource MirrorSourcePolicy = "AllowContactingSource"
	NeverContactSource    MirrorSourcePolicy = "NeverContactSource"
)

// PullBy says which images come from mirrors.
type PullBy string

// The ways to name an image.
const (
	PullByDigest       PullBy = "Digest"
	PullByDigestAndTag PullBy = "DigestAndTag"
)

// WindowsConfigStatus says what became of the settings.
type WindowsConfigStatus struct {
	// observedGeneration is the generation of spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// settings identifies what is published for nodes now; each node that has come to it says so in its annotation
	// windowsmachineconfig.openshift.io/settings.
	// +optional
	Settings string `json:"settings,omitempty"`

	// nodes is how many nodes follow these settings, and updatedNodes how many of them have come to them.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// updatedNodes is how many nodes have come to the settings.
	// +optional
	UpdatedNodes int32 `json:"updatedNodes,omitempty"`

	// rollout is how far all nodes are with what they shall become.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// conditions are Published (the settings make sense as a whole and nodes can read them) and Degraded (parts of them
	// cannot be had; the message names each; bad when True).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// KubeletSpec changes single values of the kubelet's configuration. Absent values keep their defaults.
type KubeletSpec struct {
	// maxPods a node takes; 250 by default.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxPods int32 `json:"maxPods,omitempty"`

	// systemReserved is kept away from pods; by default cpu 500m, memory 2Gi, ephemeral-storage 1Gi.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",message="keys must be cpu, memory or ephemeral-storage"
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(self[k]))",message="values must be quantities, for example 500m or 2Gi"
	// +optional
	SystemReserved map[string]string `json:"systemReserved,omitempty"`

	// evictionHard are the kubelet's hard eviction thresholds; by default nodefs.available 10%, imagefs.available 15%.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])",message="keys must be memory.available, nodefs.available or imagefs.available"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('^[0-9]+(.[0-9]+)?%$') || isQuantity(self[k]))",message="values must be a quantity or a percentage, for example 500Mi or 10%"
	// +optional
	EvictionHard map[string]string `json:"evictionHard,omitempty"`
}

// NetworkProvider names a way to connect pods.
type NetworkProvider string

// The providers.
const (
	// NetworkOVNHybridOverlay joins Windows nodes to OVN-Kubernetes by its hybrid overlay.
	NetworkOVNHybridOverlay NetworkProvider = "OVNHybridOverlay"
	// NetworkFlannel joins Windows nodes to a cluster whose network is Flannel with VXLAN.
	NetworkFlannel NetworkProvider = "Flannel"
	// NetworkCustom takes the CNI configuration that the user writes in network.custom.
	NetworkCustom NetworkProvider = "Custom"
)

// NetworkSpec says how pods on Windows nodes are connected.
//
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider != 'Custom' || has(self.custom)",message="network.custom must be set when network.provider is Custom"
// +kubebuilder:validation:XValidation:rule="!has(self.custom) || has(self.provider) && self.provider == 'Custom'",message="network.custom may be set only when network.provider is Custom"
// +kubebuilder:validation:XValidation:rule="!has(self.ovn) || has(self.provider) && self.provider == 'OVNHybridOverlay'",message="network.ovn may be set only when network.provider is OVNHybridOverlay"
// +kubebuilder:validation:XValidation:rule="!has(self.flannel) || has(self.provider) && self.provider == 'Flannel'",message="network.flannel may be set only when network.provider is Flannel"
type NetworkSpec struct {
	// provider of the pod network: OVNHybridOverlay for a cluster with OVN-Kubernetes, Flannel for one with Flannel, Custom for a CNI
	// configuration of your own. Empty means OVNHybridOverlay on OpenShift. Elsewhere, hosts are not joined without one: a node
	// without network would never be ready.
	// +kubebuilder:validation:Enum=OVNHybridOverlay;Flannel;Custom
	// +optional
	Provider NetworkProvider `json:"provider,omitempty"`

	// allowFrom are the ranges of addresses, as 10.0.0.0/16, from which Windows' firewall lets in SSH, the kubelet's port and that of
	// metrics (TCP 22, 10250 and 9182). The addresses of all control plane nodes must be in it, and those of your Prometheus, or else logs,
	// exec, metrics and visits of the operator fail. It limits the operator's own rules: others that let in more still do. By default,
	// everybody is let in. A joined node follows a change in seconds also when nobody can log in to it.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self) && cidr(self).prefixLength() > 0",message="must be a range of addresses such as 10.0.0.0/16"
	// +listType=set
	// +optional
	AllowFrom []string `json:"allowFrom,omitempty"`

	// ovn holds the settings of provider OVNHybridOverlay.
	// +optional
	OVN *OVNNetwork `json:"ovn,omitempty"`

	// flannel holds the settings of provider Flannel.
	// +optional
	Flannel *FlannelNetwork `json:"flannel,omitempty"`

	// custom holds the settings of provider Custom.
	// +optional
	Custom *CustomNetwork `json:"custom,omitempty"`
}

// OVNNetwork is what OVN-Kubernetes does not tell of its hybrid overlay outside OpenShift.
type OVNNetwork struct {
	// vxlanPort is the UDP port of the hybrid overlay, as OVN-Kubernetes has it (its flag --hybrid-overlay-vxlan-port); 4789 by default.
	// On OpenShift it is Network.operator's hybridOverlayVXLANPort, and must not be set here. Windows Server 2019 can have no other
	// than 4789.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	VXLANPort int32 `json:"vxlanPort,omitempty"`

	// clusterSubnets are the ranges of which OVN-Kubernetes gives Linux nodes the subnets of their pods, as its flag --cluster-subnets has
	// them: 10.128.0.0/14/23, with commas between several. Windows nodes send nothing to a Linux node that claims another subnet. By default
	// the range that kubeadm knows; where there is none either, each subnet is believed that no other node has. OpenShift tells its ranges:
	// there, it must not be set.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F:.]+/[0-9]{1,3}(/[0-9]{1,3})?(,[0-9a-fA-F:.]+/[0-9]{1,3}(/[0-9]{1,3})?)*$`
	// +optional
	ClusterSubnets string `json:"clusterSubnets,omitempty"`

	// hybridClusterSubnets are the same of Windows nodes, and of Linux nodes with another network, as OVN-Kubernetes' flag
	// --hybrid-overlay-cluster-subnets has them.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F:.]+/[0-9]{1,3}(/[0-9]{1,3})?(,[0-9a-fA-F:.]+/[0-9]{1,3}(/[0-9]{1,3})?)*$`
	// +optional
	HybridClusterSubnets string `json:"hybridClusterSubnets,omitempty"`
}

// FlannelNetwork says where Flannel's configuration is.
type FlannelNetwork struct {
	// namespace of Flannel.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:default=kube-flannel
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// configMap with Flannel's configuration in key net-conf.json. The operator may read only the default one: for another, give its
	// service account the right to get it.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:default=kube-flannel-cfg
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
}

// Where Flannel's own manifests put its configuration.
const (
	FlannelNamespace = "kube-flannel"
	FlannelConfigMap = "kube-flannel-cfg"
)

// CustomNetwork is a CNI configuration of the user's own.
type CustomNetwork struct {
	// cniConfig is the text of a CNI configuration (JSON), a Go template in which each node fills
	// .PodCIDR, .ServiceCIDR, .ClusterDNS and .NodeIP with its own values.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=65536
	// +required
	CNIConfig string `json:"cniConfig"`
}
