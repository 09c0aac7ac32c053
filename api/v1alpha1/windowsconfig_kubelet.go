package v1alpha1

// KubeletSpec changes single values of the kubelet's configuration. Absent values keep their defaults.
//
// +kubebuilder:validation:XValidation:rule="!has(self.shutdownGracePeriodCriticalPods) || has(self.shutdownGracePeriod) && duration(self.shutdownGracePeriodCriticalPods) <= duration(self.shutdownGracePeriod)",messageExpression="'shutdownGracePeriodCriticalPods (' + self.shutdownGracePeriodCriticalPods + ') is a part of shutdownGracePeriod (' + (has(self.shutdownGracePeriod) ? self.shutdownGracePeriod : 'not set') + ') and must not be longer'",message="shutdownGracePeriodCriticalPods is a part of shutdownGracePeriod and must not be longer"
// +kubebuilder:validation:XValidation:rule="(has(self.imageGCLowThresholdPercent) ? self.imageGCLowThresholdPercent : 80) < (has(self.imageGCHighThresholdPercent) ? self.imageGCHighThresholdPercent : 85)",message="imageGCLowThresholdPercent (default 80) must be less than imageGCHighThresholdPercent (default 85)"
// +kubebuilder:validation:XValidation:rule="(has(self.evictionSoft) ? self.evictionSoft.all(k, has(self.evictionSoftGracePeriod) && k in self.evictionSoftGracePeriod) : true) && (has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(k, has(self.evictionSoft) && k in self.evictionSoft) : true)",message="evictionSoft and evictionSoftGracePeriod must have the same keys"
// +kubebuilder:validation:XValidation:rule="!has(self.reservedMemory) || has(self.memoryManagerPolicy) && self.memoryManagerPolicy == 'BestEffort'",messageExpression="'reservedMemory needs memoryManagerPolicy BestEffort, which is ' + (has(self.memoryManagerPolicy) ? self.memoryManagerPolicy : 'not set')",message="reservedMemory needs memoryManagerPolicy BestEffort"
// +kubebuilder:validation:XValidation:rule="!has(self.topologyManagerScope) || has(self.topologyManagerPolicy) && self.topologyManagerPolicy != 'none'",messageExpression="'topologyManagerScope (' + self.topologyManagerScope + ') needs a topologyManagerPolicy other than none, which is ' + (has(self.topologyManagerPolicy) ? self.topologyManagerPolicy : 'not set')",message="topologyManagerScope needs a topologyManagerPolicy other than none"
type KubeletSpec struct {
	// maxPods is the maximum number of pods on a node. The default is 250. Each pod needs an address, and a node's subnet
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
	// Windows does not separate the two: pods get what remains after both. The default is nothing.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",message="keys must be cpu, memory or ephemeral-storage"
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(self[k]))",message="values must be quantities, for example 500m or 2Gi"
	// +optional
	KubeReserved map[string]string `json:"kubeReserved,omitempty"`

	// evictionHard is the kubelet's set of hard eviction thresholds. Thresholds that are not set keep the kubelet's
	// defaults on Windows: memory.available 500Mi, nodefs.available 10%, imagefs.available 15%. 0% turns a threshold off.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])",message="keys must be memory.available, nodefs.available or imagefs.available"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('^[0-9]+([.][0-9]+)?%$') || isQuantity(self[k]))",message="values must be a quantity or a percentage, for example 500Mi or 10%"
	// +optional
	EvictionHard map[string]string `json:"evictionHard,omitempty"`

	// evictionSoft is the kubelet's set of soft eviction thresholds: pods are evicted when less than that is available for
	// the time in evictionSoftGracePeriod. A threshold must be above that of evictionHard, and like it in bytes or in
	// percent. By default, there are none.
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

	// evictionMaxPodGracePeriod is the maximum grace period, in seconds, of pods that are evicted because a soft threshold
	// was crossed. It caps the grace period of each pod. By default, pods are terminated immediately.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +optional
	EvictionMaxPodGracePeriod int32 `json:"evictionMaxPodGracePeriod,omitempty"`

	// evictionMinimumReclaim is the amount of each resource that the kubelet frees beyond a threshold that was crossed. By
	// default, it stops at the threshold.
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])",message="keys must be memory.available, nodefs.available or imagefs.available"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('^[0-9]+([.][0-9]+)?%$') ? !self[k].matches('^[0.]+%$') : isQuantity(self[k]))",message="values must be a quantity or a percentage above 0, for example 500Mi or 10%"
	// +optional
	EvictionMinimumReclaim map[string]string `json:"evictionMinimumReclaim,omitempty"`

	// imageGCHighThresholdPercent is the disk usage, in percent, at which the kubelet begins to remove images that no
	// container uses. The default is 85; 100 turns it off.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCHighThresholdPercent int32 `json:"imageGCHighThresholdPercent,omitempty"`

	// imageGCLowThresholdPercent is the disk usage, in percent, at which the kubelet stops removing images. The default is
	// 80.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	// +optional
	ImageGCLowThresholdPercent int32 `json:"imageGCLowThresholdPercent,omitempty"`

	// maxParallelImagePulls is the maximum number of images that a node pulls at the same time. By default, there is no
	// limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxParallelImagePulls int32 `json:"maxParallelImagePulls,omitempty"`

	// cpuManagerPolicy specifies whether containers get exclusive processors. static assigns them to containers of
	// Guaranteed pods that request whole processors, and needs a reservation of cpu above 0. The default is none: all
	// containers share all processors. The kubelet uses feature gate WindowsCPUAndMemoryAffinity for this, alpha in
	// Kubernetes 1.33 to 1.37, which is enabled if this field, memoryManagerPolicy or topologyManagerPolicy is in use. Nodes
	// apply these three fields, and while they are in use also changes of reservations, at the next restart of Windows, or
	// at an upgrade that drains them: condition WindowsRebootRequired reports it, and rollout.reboots allows the operator to
	// drain and restart them. Turning all three off takes effect immediately: the kubelet restarts, and containers keep
	// their processors until they end.
	// +optional
	CPUManagerPolicy CPUManagerPolicy `json:"cpuManagerPolicy,omitempty"`

	// memoryManagerPolicy specifies whether containers run near their memory. With BestEffort, containers of Guaranteed pods
	// get the processors of the NUMA nodes that have room for their memory. It needs Windows Server 2022 or later, and a hard
	// eviction threshold for memory in bytes. The default is None. See cpuManagerPolicy for its feature gate and for when it
	// takes effect.
	// +optional
	MemoryManagerPolicy MemoryManagerPolicy `json:"memoryManagerPolicy,omitempty"`

	// reservedMemory is the amount of memory reserved on each NUMA node, for memoryManagerPolicy BestEffort. The total must
	// equal what systemReserved, kubeReserved and the hard eviction threshold reserve of memory. By default, all of it is
	// reserved on NUMA node 0, which every host has.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=numaNode
	// +optional
	ReservedMemory []MemoryReservation `json:"reservedMemory,omitempty"`

	// topologyManagerPolicy specifies how the processors, memory and devices of a pod are aligned on NUMA nodes:
	// best-effort aligns them if possible, restricted rejects pods that cannot be aligned, and single-numa-node rejects
	// pods that do not fit on one NUMA node. Hosts with more than 8 NUMA nodes do not support it. The default is none. See
	// cpuManagerPolicy for its feature gate and for when it takes effect.
	// +optional
	TopologyManagerPolicy TopologyManagerPolicy `json:"topologyManagerPolicy,omitempty"`

	// topologyManagerScope specifies whether topologyManagerPolicy applies to each container, or to all containers of a
	// pod together. The default is container.
	// +optional
	TopologyManagerScope TopologyManagerScope `json:"topologyManagerScope,omitempty"`

	// containerLogMaxSize is the size at which the kubelet rotates the log of a container: a quantity of bytes from 1Mi to
	// 10Gi. The default is 50Mi.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('10Gi')) <= 0",message="containerLogMaxSize must be a quantity of bytes from 1Mi to 10Gi, for example 50Mi"
	// +optional
	ContainerLogMaxSize string `json:"containerLogMaxSize,omitempty"`

	// containerLogMaxFiles is the maximum number of log files of a container, including the current one. The default is 5.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	// +optional
	ContainerLogMaxFiles int32 `json:"containerLogMaxFiles,omitempty"`

	// priorityClass is the priority class of the kubelet's process in Windows. A class above that of pods keeps the node
	// responsive when pods use all processors. The default is ABOVE_NORMAL_PRIORITY_CLASS.
	// +kubebuilder:validation:Enum=IDLE_PRIORITY_CLASS;BELOW_NORMAL_PRIORITY_CLASS;NORMAL_PRIORITY_CLASS;ABOVE_NORMAL_PRIORITY_CLASS;HIGH_PRIORITY_CLASS;REALTIME_PRIORITY_CLASS
	// +optional
	PriorityClass string `json:"priorityClass,omitempty"`

	// shutdownGracePeriod is how long the kubelet may delay a shutdown or restart of Windows, to terminate pods within
	// their grace periods: hours, minutes and seconds, from 1s to 1h. Kubelets before 1.34 ignore it. By default, pods end
	// with Windows. Restarts by the operator do not need it, because the operator drains the node first.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="shutdownGracePeriod must be hours, minutes and seconds, from 1s to 1h, for example 90s"
	// +optional
	ShutdownGracePeriod string `json:"shutdownGracePeriod,omitempty"`

	// shutdownGracePeriodCriticalPods is the part of shutdownGracePeriod, at its end, that is reserved for critical pods:
	// those of priority class system-cluster-critical or system-node-critical.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="shutdownGracePeriodCriticalPods must be hours, minutes and seconds, from 1s to 1h, for example 30s"
	// +optional
	ShutdownGracePeriodCriticalPods string `json:"shutdownGracePeriodCriticalPods,omitempty"`
}

// CPUManagerPolicy specifies whether containers get exclusive processors.
//
// +kubebuilder:validation:Enum=none;static
type CPUManagerPolicy string

// The policies for processors.
const (
	// CPUManagerNone lets all containers share all processors.
	CPUManagerNone CPUManagerPolicy = "none"
	// CPUManagerStatic assigns whole processors to containers of Guaranteed pods that request them.
	CPUManagerStatic CPUManagerPolicy = "static"
)

// MemoryManagerPolicy specifies whether containers run near their memory.
//
// +kubebuilder:validation:Enum=None;BestEffort
type MemoryManagerPolicy string

// The policies for memory.
const (
	// MemoryManagerNone ignores where the memory of containers is.
	MemoryManagerNone MemoryManagerPolicy = "None"
	// MemoryManagerBestEffort gives containers of Guaranteed pods the processors of the NUMA nodes of their memory.
	MemoryManagerBestEffort MemoryManagerPolicy = "BestEffort"
)

// MemoryReservation is the amount of memory reserved on a NUMA node.
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

// TopologyManagerPolicy specifies how strictly the resources of a pod are aligned.
//
// +kubebuilder:validation:Enum=none;best-effort;restricted;single-numa-node
type TopologyManagerPolicy string

// The policies for topology.
const (
	// TopologyManagerNone does not align resources.
	TopologyManagerNone TopologyManagerPolicy = "none"
	// TopologyManagerBestEffort prefers NUMA nodes that have all of the resources.
	TopologyManagerBestEffort TopologyManagerPolicy = "best-effort"
	// TopologyManagerRestricted rejects pods that do not fit on the fewest NUMA nodes.
	TopologyManagerRestricted TopologyManagerPolicy = "restricted"
	// TopologyManagerSingleNUMANode rejects pods that do not fit on one NUMA node.
	TopologyManagerSingleNUMANode TopologyManagerPolicy = "single-numa-node"
)

// TopologyManagerScope specifies which resources are aligned together.
//
// +kubebuilder:validation:Enum=container;pod
type TopologyManagerScope string

// The scopes of topology.
const (
	// TopologyManagerContainer aligns each container.
	TopologyManagerContainer TopologyManagerScope = "container"
	// TopologyManagerPod aligns all containers of a pod together.
	TopologyManagerPod TopologyManagerScope = "pod"
)
