package v1alpha1

// ImagesSpec specifies which images nodes have before pods need them.
type ImagesSpec struct {
	// prepull are images that nodes pull, one after the other and in this order, before pods need them; typically the base
	// images of Windows, several GB in size. A host that joins gets a taint until it has tried to pull each of them, for
	// an hour at most; nodes in service pull them within minutes of a change, and their pods keep running. Credentials,
	// mirrors and the proxy are those of the sandbox image. An image that is removed from the list stays on nodes until the
	// kubelet needs its space.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=image
	// +optional
	Prepull []PrepulledImage `json:"prepull,omitempty"`
}

// PrepulledImage is an image that nodes pull before pods need it.
type PrepulledImage struct {
	// image is the full name of the image: registry/repository:tag or registry/repository@sha256:digest.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^((localhost|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+)(:[0-9]{1,5})?|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?:[0-9]{1,5})(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)+(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}|@sha256:[a-f0-9]{64})$')",message="image must name an image with its registry and a tag or a digest, for example mcr.microsoft.com/windows/servercore:ltsc2022"
	// +required
	Image string `json:"image"`

	// versions are the versions of Windows Server whose nodes pull the image; if there are none, all nodes pull it.
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	// +optional
	Versions []WindowsVersion `json:"versions,omitempty"`
}
