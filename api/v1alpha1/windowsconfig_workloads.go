package v1alpha1

// RuntimeClassesSpec says which RuntimeClasses the operator keeps. A pod that names one in spec.runtimeClassName is
// scheduled to a node that runs its images, and needs neither a node selector nor tolerations.
//
// +kubebuilder:validation:XValidation:rule="!has(self.additional) || self.additional.all(c, !(c.name in ['windows2019', 'windows2022', 'windows2025']))",message="names of additional classes must not be windows2019, windows2022 or windows2025"
type RuntimeClassesSpec struct {
	// versions are the versions of Windows Server that have a RuntimeClass: 2019, 2022 and 2025, whose classes are named
	// windows2019, windows2022 and windows2025. The operator creates a class when the first node of the version joins,
	// and keeps it when the last one leaves. It deletes a class that is no longer listed once no pod uses it. By
	// default, all are listed; an empty list keeps none. The operator does not change classes that it did not create,
	// also not those with these names.
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	// +optional
	Versions []WindowsVersion `json:"versions,omitzero"`

	// newerHosts lets pods also run on nodes with a later version of Windows that runs their images: pods of class
	// windows2022 on Windows Server 2025. Windows Server 2019 and its images go only together. By default, pods run on
	// nodes with the version of their class.
	// +optional
	NewerHosts bool `json:"newerHosts,omitempty"`

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

	// newerHosts is as runtimeClasses.newerHosts, for this class.
	// +optional
	NewerHosts bool `json:"newerHosts,omitempty"`
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

// PodsSpec says what pods on Windows nodes get that do not say it themselves.
type PodsSpec struct {
	// defaultRuntimeClass is one of the operator's RuntimeClasses. Pods for Windows get it that name no class, and whose
	// images' tags do not tell a version of Windows. It takes effect where deploy/workloads is
	// installed. By default, such pods get no class.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	DefaultRuntimeClass string `json:"defaultRuntimeClass,omitempty"`
}
