package v1alpha1

// RuntimeClassesSpec specifies which RuntimeClasses the operator manages. A pod that names one in spec.runtimeClassName
// is scheduled to a node that runs its images, and needs neither a node selector nor tolerations.
//
// +kubebuilder:validation:XValidation:rule="!has(self.additional) || self.additional.all(c, !c.name.matches('^windows(2019|2022|2025)(-hyperv)?$'))",message="names of additional classes must not be windows2019, windows2022, windows2025, or one of these with -hyperv"
// +kubebuilder:validation:XValidation:rule="!has(self.additional) || has(self.hyperV) || self.additional.all(c, !has(c.hyperV) || !c.hyperV)",message="additional classes with hyperV need runtimeClasses.hyperV, which offers Hyper-V isolation; {} takes its defaults"
type RuntimeClassesSpec struct {
	// versions are the versions of Windows Server that have a RuntimeClass: 2019, 2022 and 2025, whose classes are named
	// windows2019, windows2022 and windows2025. The operator creates a class when the first node of the version joins, and
	// keeps it when the last one leaves. It deletes a class that is no longer listed once no pod uses it. By default, all
	// are listed; an empty list keeps none. The operator does not change classes that it did not create, even if they have
	// these names.
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	// +optional
	Versions []WindowsVersion `json:"versions,omitzero"`

	// newerHosts lets pods also run on nodes with a later version of Windows that runs their images: pods of class
	// windows2022 on Windows Server 2025. Windows Server 2019 runs only images for 2019, which run on no other version. By
	// default, pods run on nodes with the version of their class.
	// +optional
	NewerHosts bool `json:"newerHosts,omitempty"`

	// hyperV offers Hyper-V isolation: a pod with RuntimeClass windows2022-hyperv runs in its own virtual machine, with its
	// own Windows kernel. {} uses the defaults. Nodes enable the Windows feature Microsoft-Hyper-V, which takes effect at a
	// restart: new hosts restart while they join, and existing nodes wait for a restart that rollout.reboots allows or that
	// you request. A host whose processor or firmware does not allow virtual machines becomes a node without Hyper-V
	// isolation, and its condition WindowsHyperVCapable explains why; in a cloud, the machine needs nested virtualization.
	// Each version in versions gets a class with -hyperv in its name when the first node can run it. By default, there is no
	// Hyper-V isolation. When hyperV is removed, its classes are deleted once no pod uses them, and nodes keep the feature.
	// It has never been tested on Windows.
	// +optional
	HyperV *HyperVSpec `json:"hyperV,omitempty"`

	// additional are further RuntimeClasses, for example with the names that manifests already use.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Additional []AdditionalRuntimeClass `json:"additional,omitempty"`
}

// AdditionalRuntimeClass is a RuntimeClass with a name of the administrator's choice.
type AdditionalRuntimeClass struct {
	// name is the name of the RuntimeClass: lower case letters, digits and hyphens.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`

	// version is the version of Windows Server that the images are for: 2019, 2022 or 2025.
	// +required
	Version WindowsVersion `json:"version"`

	// newerHosts has the meaning of runtimeClasses.newerHosts, for this class.
	// +optional
	NewerHosts bool `json:"newerHosts,omitempty"`

	// hyperV gives pods of this class Hyper-V isolation. It needs runtimeClasses.hyperV.
	// +optional
	HyperV bool `json:"hyperV,omitempty"`
}

// HyperVSpec configures the virtual machine of each pod with Hyper-V isolation. A change applies to pods that start
// after it; containerd and the kubelet restart, and pods keep running.
type HyperVSpec struct {
	// memory is the memory of the virtual machine, from 512Mi to 1Ti. Its Windows and all containers of the pod share it.
	// A pod cannot change it. The node provides only what is in use.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('512Mi')) >= 0 && quantity(self).compareTo(quantity('1Ti')) <= 0",message="memory must be a quantity of bytes from 512Mi to 1Ti, for example 2Gi"
	// +kubebuilder:default="1Gi"
	// +optional
	Memory string `json:"memory,omitempty"`

	// processors is the number of virtual processors of the virtual machine. A node with fewer processors provides as many
	// as it has.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=2
	// +optional
	Processors int32 `json:"processors,omitempty"`
}

// WindowsVersion is a version of Windows Server.
//
// +kubebuilder:validation:Enum="2019";"2022";"2025"
type WindowsVersion string

// The versions of Windows Server.
const (
	// WindowsServer2019 is build 17763.
	WindowsServer2019 WindowsVersion = "2019"
	// WindowsServer2022 is build 20348.
	WindowsServer2022 WindowsVersion = "2022"
	// WindowsServer2025 is build 26100.
	WindowsServer2025 WindowsVersion = "2025"
)

// PodsSpec specifies defaults for pods on Windows nodes.
type PodsSpec struct {
	// defaultRuntimeClass is one of the operator's RuntimeClasses, for pods for Windows that name no class and whose image
	// tags do not identify a version of Windows. It takes effect if deploy/workloads is installed. By default, these pods
	// get no class.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	DefaultRuntimeClass string `json:"defaultRuntimeClass,omitempty"`
}
