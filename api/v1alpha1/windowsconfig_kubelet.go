package v1alpha1

// KubeletSpec changes single values of the kubelet's configuration. Absent values keep their defaults.
//
// +kubebuilder:validation:XValidation:rule="!has(self.shutdownGracePeriodCriticalPods) || has(self.shutdownGracePeriod) && duration(self.shutdownGracePeriodCriticalPods) <= duration(self.shutdownGracePeriod)",message="shutdownGracePeriodCriticalPods is a part of shutdownGracePeriod and must not be longer"
// +kubebuilder:validation:XValidation:rule="(has(self.imageGCLowThresholdPercent) ? self.imageGCLowThresholdPercent : 80) < (has(self.imageGCHighThresholdPercent) ? self.imageGCHighThresholdPercent : 85)",message="imageGCLowThresholdPercent (default 80) must be less than imageGCHighThresholdPercent (default 85)"
// +kubebuilder:validation:XValidation:rule="(has(self.evictionSoft) ? self.evictionSoft.all(k, has(self.evictionSoftGracePeriod) && k in self.evictionSoftGracePeriod) : true) && (has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(k, has(self.evictionSoft) && k in self.evictionSoft) : true)",message="evictionSoft and evictionSoftGracePeriod must have the same keys"
// +kubebuilder:validation:XValidation:rule="!has(self.reservedMemory) || has(self.memoryManagerPolicy) && self.memoryManagerPolicy == 'BestEffort'",message="reservedMemory needs memoryManagerPolicy BestEffort"
// +kubebuilder:validation:XValidation:rule="!has(self.topologyManagerScope) || has(self.topologyManagerPolicy) && self.topologyManagerPolicy != 'none'",message="topologyManagerScope needs a topologyManagerPolicy other than none"
type KubeletSpec struct {
	// maxPods is the maximum number of pods on a node. The default is 250. Pods need an address each, and a node's subnet
	// may have fewer: 252 where OVN-Kubernetes gives nodes a /24, as on OpenShift.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxPods int32 `json:"maxPods,omitempty"`

	// systemReserved is the amount of each resource reserved for the system. The default is cpu 500m, memory 2Gi,
	// ephemeral-storage 1Gi.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",message="keys must be cpu, memory or ephemeral-storage"
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(self[k]))",message="values must be quantities, for example 500m or 2Gi"
	// +optional
	SystemReserved map[string]string `json:"systemReserved,omitempty"`

	// kubeReserved is the amount of each resource reserved for the kubelet and containerd, in addition to systemReserved.
	// Windows does not separate the two: pods get what both leave. The default is nothing.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",message="keys must be cpu, memory or ephemeral-storage"
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(self[k]))",message="values must be quantities, for example 500m or 2Gi"
	// +optional
	KubeReserved map[string]string `json:"kubeReserved,omitempty"`

	// evictionHard is the kubelet's set of hard eviction thresholds. A threshold that it does not name keeps the
	// kubelet's default on Windows: memory.available 500Mi, nodefs.available 10%, imagefs.available 15%. 0% turns one off.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])",message="keys must be memory.available, nodefs.available or imagefs.available"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('^[0-9]+([.][0-9]+)?%$') || isQuantity(self[k]))",message="values must be a quantity or a percentage, for example 500Mi or 10%"
	// +optional
	EvictionHard map[string]string `json:"evictionHard,omitempty"`

	// evictionSoft is the kubelet's set of soft eviction thresholds: pods are evicted when less than that is free for the
	// time in evictionSoftGracePeriod. A threshold must be above that of evictionHard. By default, there are none.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])",message="keys must be memory.available, nodefs.available or imagefs.available"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('^[0-9]+([.][0-9]+)?%$') || isQuantity(self[k]))",message="values must be a quantity or a percentage, for example 500Mi or 10%"
	// +optional
	EvictionSoft map[string]string `json:"evictionSoft,omitempty"`

	// evictionSoftGracePeriod is how long each threshold of evictionSoft must be crossed before pods are evicted: hours,
	// minutes and seconds, from 1s to 24h.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])",message="keys must be memory.available, nodefs.available or imagefs.available"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) <= 18 && self[k].matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self[k]) >= duration('1s') && duration(self[k]) <= duration('24h'))",message="values must be hours, minutes and seconds, from 1s to 24h, for example 90s"
	// +optional
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod,omitempty"`

	// evictionMaxPodGracePeriod is how many seconds pods get to end after a soft threshold was crossed, where that is less
	// than their own grace period. The default is 0: they are ended at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +optional
	EvictionMaxPodGracePeriod int32 `json:"evictionMaxPodGracePeriod,omitempty"`

	// evictionMinimumReclaim is how much more than a threshold the kubelet frees once it was crossed. By default, it stops
	// at the threshold.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])",message="keys must be memory.available, nodefs.available or imagefs.available"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('^[0-9]+([.][0-9]+)?%$') ? !self[k].matches('^[0.]+%$') : isQuantity(self[k]))",message="values must be a quantity or a percentage above 0, for example 500Mi or 10%"
	// +optional
	EvictionMinimumReclaim map[string]string `json:"evictionMinimumReclaim,omitempty"`

	// imageGCHighThresholdPercent is how full the disk of images is when the kubelet begins to remove images that no
	// container uses. The default is 85; 100 turns it off.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCHighThresholdPercent int32 `json:"imageGCHighThresholdPercent,omitempty"`

	// imageGCLowThresholdPercent is how full the disk is when it stops removing images. The default is 80.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	// +optional
	ImageGCLowThresholdPercent int32 `json:"imageGCLowThresholdPercent,omitempty"`

	// maxParallelImagePulls is how many images a node pulls at the same time. By default, there is no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxParallelImagePulls int32 `json:"maxParallelImagePulls,omitempty"`

	// cpuManagerPolicy says whether containers get processors of their own. static gives them to containers of Guaranteed
	// pods that ask for whole processors, and needs a reservation of cpu above 0. The default is none: all containers share
	// all processors. The kubelet does so by feature gate WindowsCPUAndMemoryAffinity, alpha in Kubernetes 1.33 to 1.37,
	// which is on where this, memoryManagerPolicy or topologyManagerPolicy is in use. Nodes take these three, and while they
	// are in use also other reservations, with the next restart of Windows, or an upgrade that drains them: condition
	// WindowsRebootRequired says so, and rollout.reboots allows the operator to drain and restart them. What turns all three
	// off takes effect at once: the kubelet restarts, and containers keep their processors until they end.
	// +optional
	CPUManagerPolicy CPUManagerPolicy `json:"cpuManagerPolicy,omitempty"`

	// memoryManagerPolicy says whether containers are kept near their memory. With BestEffort, containers of Guaranteed pods
	// get the processors of the NUMA nodes that have room for their memory. It needs Windows Server 2022 or later, and a hard
	// eviction threshold of memory in bytes. The default is None. For its feature gate, and when it takes effect, see
	// cpuManagerPolicy.
	// +optional
	MemoryManagerPolicy MemoryManagerPolicy `json:"memoryManagerPolicy,omitempty"`

	// reservedMemory is how much of each NUMA node is reserved, for memoryManagerPolicy BestEffort. Together, it must be
	// what systemReserved, kubeReserved and the hard eviction threshold reserve of memory. The default is all of it on NUMA
	// node 0, which every host has.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=numaNode
	// +optional
	ReservedMemory []MemoryReservation `json:"reservedMemory,omitempty"`

	// topologyManagerPolicy says how processors, memory and devices of a pod are brought together on NUMA nodes: where that
	// is possible (best-effort), or the node refuses the pod (restricted, or single-numa-node for one NUMA node). Hosts with
	// more than 8 NUMA nodes cannot have it. The default is none. For its feature gate, and when it takes effect, see
	// cpuManagerPolicy.
	// +optional
	TopologyManagerPolicy TopologyManagerPolicy `json:"topologyManagerPolicy,omitempty"`

	// topologyManagerScope says whether topologyManagerPolicy is for each container, or for all containers of a pod
	// together. The default is container.
	// +optional
	TopologyManagerScope TopologyManagerScope `json:"topologyManagerScope,omitempty"`

	// containerLogMaxSize is the size at which the kubelet rotates the log of a container: a quantity of bytes from 1Mi to
	// 10Gi. The default is 50Mi.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('10Gi')) <= 0",message="containerLogMaxSize must be a quantity of bytes from 1Mi to 10Gi, for example 50Mi"
	// +optional
	ContainerLogMaxSize string `json:"containerLogMaxSize,omitempty"`

	// containerLogMaxFiles is how many logs of a container are kept, the current one included. The default is 5.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	// +optional
	ContainerLogMaxFiles int32 `json:"containerLogMaxFiles,omitempty"`

	// priorityClass is the priority class of the kubelet's process in Windows. A higher one than that of pods keeps the
	// node responsive when pods use all processors. The default is ABOVE_NORMAL_PRIORITY_CLASS.
	// +kubebuilder:validation:Enum=IDLE_PRIORITY_CLASS;BELOW_NORMAL_PRIORITY_CLASS;NORMAL_PRIORITY_CLASS;ABOVE_NORMAL_PRIORITY_CLASS;HIGH_PRIORITY_CLASS;REALTIME_PRIORITY_CLASS
	// +optional
	PriorityClass string `json:"priorityClass,omitempty"`

	// shutdownGracePeriod is how long the kubelet may delay a shutdown or restart of Windows, to end pods within their
	// grace periods: hours, minutes and seconds, from 1s to 1h. Kubelets before 1.34 ignore it. By default, pods end
	// with Windows. Restarts by the operator do not need it: it drains the node first.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="shutdownGracePeriod must be hours, minutes and seconds, from 1s to 1h, for example 90s"
	// +optional
	ShutdownGracePeriod string `json:"shutdownGracePeriod,omitempty"`

	// shutdownGracePeriodCriticalPods is the part of shutdownGracePeriod, at its end, that is for critical pods: those
	// of priority class system-cluster-critical or system-node-critical.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="shutdownGracePeriodCriticalPods must be hours, minutes and seconds, from 1s to 1h, for example 30s"
	// +optional
	ShutdownGracePeriodCriticalPods string `json:"shutdownGracePeriodCriticalPods,omitempty"`
}

// CPUManagerPolicy says whether containers get processors of their own.
//
// +kubebuilder:validation:Enum=none;static
type CPUManagerPolicy string

// The policies for processors.
const (
	// CPUManagerNone gives all containers all processors.
	CPUManagerNone CPUManagerPolicy = "none"
	// CPUManagerStatic gives whole processors to containers of Guaranteed pods that ask for them.
	CPUManagerStatic CPUManagerPolicy = "static"
)

// MemoryManagerPolicy says whether containers are kept near their memory.
//
// +kubebuilder:validation:Enum=None;BestEffort
type MemoryManagerPolicy string

// The policies for memory.
const (
	// MemoryManagerNone keeps no container near its memory.
	MemoryManagerNone MemoryManagerPolicy = "None"
	// MemoryManagerBestEffort gives containers of Guaranteed pods the processors of the NUMA nodes of their memory.
	MemoryManagerBestEffort MemoryManagerPolicy = "BestEffort"
)

// MemoryReservation is how much of a NUMA node is reserved.
type MemoryReservation struct {
	// numaNode is the number of the NUMA node; the first is 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=63
	NUMANode int32 `json:"numaNode"`

	// memory is the reserved amount: a quantity of bytes such as 1Gi.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="memory must be a quantity of bytes above 0, for example 1Gi"
	Memory string `json:"memory"`
}

// TopologyManagerPolicy says how strictly resources of a pod are brought together.
//
// +kubebuilder:validation:Enum=none;best-effort;restricted;single-numa-node
type TopologyManagerPolicy string

// The policies for topology.
const (
	// TopologyManagerNone brings nothing together.
	TopologyManagerNone TopologyManagerPolicy = "none"
	// TopologyManagerBestEffort prefers NUMA nodes that have all of it.
	TopologyManagerBestEffort TopologyManagerPolicy = "best-effort"
	// TopologyManagerRestricted refuses pods that do not fit on the fewest NUMA nodes.
	TopologyManagerRestricted TopologyManagerPolicy = "restricted"
	// TopologyManagerSingleNUMANode refuses pods that do not fit on one NUMA node.
	TopologyManagerSingleNUMANode TopologyManagerPolicy = "single-numa-node"
)

// TopologyManagerScope says what is brought together.
//
// +kubebuilder:validation:Enum=container;pod
type TopologyManagerScope string

// The scopes of topology.
const (
	// TopologyManagerContainer looks at each container.
	TopologyManagerContainer TopologyManagerScope = "container"
	// TopologyManagerPod looks at all containers of a pod together.
	TopologyManagerPod TopologyManagerScope = "pod"
)
