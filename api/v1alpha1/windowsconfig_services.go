package v1alpha1

// RuntimeSpec changes how containerd runs pods.
type RuntimeSpec struct {
	// sandboxImage is the image that containerd starts every pod from (the pause image): registry/repository:tag or
	// registry/repository@sha256:digest. It must have an entry for the Windows build of each node. Nodes pull it before
	// they become Ready. When it changes, each node pulls the new image first, and keeps the current one until the pull
	// has succeeded; then containerd and the kubelet restart. Pods keep running, with the image they started from. The
	// default is mcr.microsoft.com/oss/kubernetes/pause:3.9.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^((localhost|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+)(:[0-9]{1,5})?|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?:[0-9]{1,5})(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)+(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}|@sha256:[a-f0-9]{64})$')",message="sandboxImage must name an image with its registry and a tag or a digest, for example registry.example.com/oss/kubernetes/pause:3.9"
	// +optional
	SandboxImage string `json:"sandboxImage,omitempty"`

	// defenderExclusions specifies whether nodes exclude containerd from the scans of Microsoft Defender Antivirus.
	// Managed excludes the program of containerd and its folders below C:\ProgramData\containerd, restores these
	// exclusions when they are removed, and removes them when the host leaves. None adds none, and removes those that
	// Managed added, for example because a group policy has the exclusions of your choice. Exclusions that others added
	// always stay.
	// +kubebuilder:validation:Enum=Managed;None
	// +kubebuilder:default=Managed
	// +optional
	DefenderExclusions DefenderExclusions `json:"defenderExclusions,omitempty"`

	// compressedLayers specifies what containerd does with the compressed layers of an image that it has unpacked. Keep
	// leaves them on the disk beside the unpacked ones: images can be exported, converted, pushed, and shared with other
	// nodes. Discard deletes them, which frees about as much of the disk as a pull loads; images that a node already has
	// keep theirs. Discard has never been tested on Windows. Containerd and the kubelet restart after a change; pods keep
	// running.
	// +kubebuilder:validation:Enum=Keep;Discard
	// +kubebuilder:default=Keep
	// +optional
	CompressedLayers CompressedLayers `json:"compressedLayers,omitempty"`
}

// CompressedLayers specifies what happens to the compressed layers of images.
type CompressedLayers string

// The policies for compressed layers.
const (
	// CompressedLayersKeep leaves them on the disk.
	CompressedLayersKeep CompressedLayers = "Keep"
	// CompressedLayersDiscard deletes them once they are unpacked.
	CompressedLayersDiscard CompressedLayers = "Discard"
)

// DefenderExclusions specifies whether WICD manages the exclusions of containerd in Microsoft Defender Antivirus.
type DefenderExclusions string

// The policies for the exclusions of containerd.
const (
	// DefenderExclusionsManaged manages the exclusions on nodes.
	DefenderExclusionsManaged DefenderExclusions = "Managed"
	// DefenderExclusionsNone leaves them to the administrator.
	DefenderExclusionsNone DefenderExclusions = "None"
)

// CSIProxy specifies whether nodes run csi-proxy.
type CSIProxy string

// The modes of csi-proxy.
const (
	// CSIProxyAuto runs it on OpenShift only.
	CSIProxyAuto CSIProxy = "Auto"
	// CSIProxyRun runs it on every node.
	CSIProxyRun CSIProxy = "Run"
	// CSIProxyOff runs it on no node.
	CSIProxyOff CSIProxy = "Off"
)

// LogsSpec limits the logs of each service. A full log is rotated: it stays beside the current one, with the time in
// its name.
type LogsSpec struct {
	// size is the size at which a log is rotated: a quantity of bytes from 1Mi to 10Gi.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0 && quantity(self).compareTo(quantity('10Gi')) <= 0",message="size must be a quantity of bytes from 1Mi to 10Gi, for example 100Mi"
	// +kubebuilder:default="100Mi"
	// +optional
	Size string `json:"size,omitempty"`

	// age is how long a rotated log is kept: hours, minutes and seconds, at least 1h.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[hms]){1,3}$') && duration(self) >= duration('1h')",message="age must be at least 1h, in hours, minutes and seconds, for example 168h or 36h30m"
	// +kubebuilder:default="168h"
	// +optional
	Age string `json:"age,omitempty"`

	// count is the number of rotated logs of a service that are kept, in addition to the current one.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=5
	// +optional
	Count int32 `json:"count,omitempty"`

	// verbosity is the level of detail that each service, identified by its name, logs: Normal, Debug or Trace. The names
	// are containerd, kubelet, kube-proxy, hybrid-overlay-node, flanneld, windows_exporter, csi-proxy and
	// cloud-node-manager. The default is Normal. A service restarts when its value changes, and the kubelet when that of
	// containerd does; pods keep running. Trace logs a large amount: size limits how far back the logs reach. With Debug
	// and Trace, containerd logs the environment variables of containers, including those from Secrets.
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['containerd', 'kubelet', 'kube-proxy', 'hybrid-overlay-node', 'flanneld', 'windows_exporter', 'csi-proxy', 'cloud-node-manager'])",message="keys must be containerd, kubelet, kube-proxy, hybrid-overlay-node, flanneld, windows_exporter, csi-proxy or cloud-node-manager"
	// +optional
	Verbosity map[string]LogVerbosity `json:"verbosity,omitempty"`
}

// LogVerbosity is the level of detail that a service logs.
//
// +kubebuilder:validation:Enum=Normal;Debug;Trace
type LogVerbosity string

// The verbosities of logs.
const (
	// LogNormal logs what is needed to see that a service works: klog level 2.
	LogNormal LogVerbosity = "Normal"
	// LogDebug logs what is needed to find out why it does not: klog level 4.
	LogDebug LogVerbosity = "Debug"
	// LogTrace also logs each request: klog level 6. Services without such a level log as with Debug.
	LogTrace LogVerbosity = "Trace"
)
