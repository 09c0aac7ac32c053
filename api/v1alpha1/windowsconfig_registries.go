package v1alpha1

// RegistriesSpec configures registries and their mirrors.
type RegistriesSpec struct {
	// mirrors are the mirrors of each source.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Mirrors []RegistryMirrors `json:"mirrors,omitempty"`

	// blockedRegistries are registries and repositories that nodes never contact, as sources or as mirrors: quay.io,
	// quay.io/org, *.example.com. On OpenShift, registrySources of the Image object named cluster takes precedence.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	// +optional
	BlockedRegistries []string `json:"blockedRegistries,omitempty"`

	// insecureRegistries are registries and repositories that nodes may contact over HTTP, or over HTTPS without verifying
	// the certificate. On OpenShift, registrySources of the Image object named cluster takes precedence.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	// +optional
	InsecureRegistries []string `json:"insecureRegistries,omitempty"`
}

// RegistryMirrors are the mirrors of one source.
type RegistryMirrors struct {
	// source is a registry, or a repository in one, as in image references: mcr.microsoft.com, quay.io/org. *.example.com
	// matches all subdomains.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Source string `json:"source"`

	// mirrors are the mirrors of the source, in the order in which they are tried.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +required
	Mirrors []RegistryMirror `json:"mirrors"`

	// mirrorSourcePolicy specifies whether the source is contacted when no mirror has an image.
	// +kubebuilder:validation:Enum=AllowContactingSource;NeverContactSource
	// +kubebuilder:default=AllowContactingSource
	// +optional
	MirrorSourcePolicy MirrorSourcePolicy `json:"mirrorSourcePolicy,omitempty"`

	// pullBy specifies which images are pulled from the mirrors: those referenced by digest, or also those referenced by
	// tag.
	// +kubebuilder:validation:Enum=Digest;DigestAndTag
	// +kubebuilder:default=DigestAndTag
	// +optional
	PullBy PullBy `json:"pullBy,omitempty"`
}

// RegistryMirror is one mirror.
type RegistryMirror struct {
	// location is a registry, or a repository in one. It replaces the source in image references.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Location string `json:"location"`

	// insecure allows nodes to contact the mirror over HTTP, or over HTTPS without verifying its certificate. The content
	// of a tag is then only as trustworthy as the network.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// caBundle is the CA certificate, in PEM format, that verifies the mirror's certificate. Without it, the CA
	// certificates that the host trusts are used.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CABundle string `json:"caBundle,omitempty"`
}

// MirrorSourcePolicy specifies whether a source may be contacted.
type MirrorSourcePolicy string

// The policies, with the names OpenShift uses.
const (
	// AllowContactingSource contacts the source when no mirror has the image.
	AllowContactingSource MirrorSourcePolicy = "AllowContactingSource"
	// NeverContactSource never contacts the source.
	NeverContactSource MirrorSourcePolicy = "NeverContactSource"
)

// PullBy specifies which images are pulled from mirrors.
type PullBy string

// The kinds of image reference.
const (
	// PullByDigest pulls images that are referenced by digest from the mirrors.
	PullByDigest PullBy = "Digest"
	// PullByDigestAndTag pulls all images from the mirrors.
	PullByDigestAndTag PullBy = "DigestAndTag"
)
