package v1alpha1

// RuntimeSpec changes how containerd runs pods.
type RuntimeSpec struct {
	// sandboxImage is the image that containerd starts every pod from (the pause image): registry/repository:tag or
	// registry/repository@sha256:digest. It must have an entry for the Windows build of each node. Nodes pull it before
	// they become Ready. When it changes, each node pulls the new image first, and keeps the one it has until it has the
	// new one; then containerd and the kubelet restart. Pods keep running, with the image they started from. The default
	// is mcr.microsoft.com/oss/kubernetes/pause:3.9.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^((localhost|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+)(:[0-9]{1,5})?|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?:[0-9]{1,5})(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)+(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}|@sha256:[a-f0-9]{64})$')",message="sandboxImage must name an image with its registry and a tag or a digest, for example registry.example.com/oss/kubernetes/pause:3.9"
	// +optional
	SandboxImage string `json:"sandboxImage,omitempty"`
}
