package api

// AnnotationDoesNotStart on a pod for Windows says why it does not start, as "Reason: what is wrong, and what to do".
// Written by the operator when the reason changes, and removed when the pod starts or nothing is known to be wrong any
// more. Read by users.
const AnnotationDoesNotStart = GroupName + "/does-not-start"

// Reasons of events on pods for Windows that do not start. Annotation does-not-start begins with the same.
const (
	// EventImageForAnotherBuild is reported on a pod with an image that has no part for the Windows build of its node.
	// The note says for which builds the image is, if its registry tells.
	EventImageForAnotherBuild = "ImageForAnotherBuild"
	// EventNoNodeForBuild is reported on a pod that asks for a build of Windows that no Windows node has or runs.
	EventNoNodeForBuild = "NoNodeForBuild"
	// EventNoNodeFits is reported on a pod whose node selector or required node affinity no Windows node has.
	EventNoNodeFits = "NoNodeFits"
	// EventNodesUnavailable is reported on a pod for which there are Windows nodes, which are cordoned or not Ready.
	EventNodesUnavailable = "NodesUnavailable"
	// EventTaintNotTolerated is reported on a pod that does not tolerate a taint of each Windows node that it could run
	// on.
	EventTaintNotTolerated = "TaintNotTolerated"
	// EventMemoryLimitMissing is reported on a pod without requests and limits while the nodes that it could run on are
	// short of memory: they take only pods that have some.
	EventMemoryLimitMissing = "MemoryLimitMissing"
	// EventRuntimeClassMissing is reported on a pod whose RuntimeClass does not exist any more.
	EventRuntimeClassMissing = "RuntimeClassMissing"
	// EventCredentialSpecMissing is reported on a pod that names a credential spec of a group Managed Service Account,
	// whose content nothing has put into the pod.
	EventCredentialSpecMissing = "CredentialSpecMissing"
	// EventPodTooLarge is reported on a pod whose selectors, affinity, tolerations and containers are too large for the
	// operator to find out why no node takes it.
	EventPodTooLarge = "PodTooLarge"
	// EventNodeNotInDomain is reported on a pod with a group Managed Service Account whose node, or each node that it
	// could run on, is neither joined to a domain nor has a plugin of Container Credential Guard.
	EventNodeNotInDomain = "NodeNotInDomain"
	// EventNoNodeWithHyperV is reported on a pod that needs Hyper-V isolation when no Windows node has it.
	EventNoNodeWithHyperV = "NoNodeWithHyperV"
	// EventMirrorUnavailable is reported on a pod with an image that no mirror or registry has which may be asked.
	EventMirrorUnavailable = "MirrorUnavailable"
	// EventRegistryDenied is reported on a pod whose registry does not accept the credentials, or wants some.
	EventRegistryDenied = "RegistryDenied"
	// EventRegistryUnreachable is reported on a pod whose node does not reach the registry.
	EventRegistryUnreachable = "RegistryUnreachable"
	// EventProxyUnreachable is reported on a pod whose node does not reach the registry, because its proxy does not
	// answer.
	EventProxyUnreachable = "ProxyUnreachable"
	// EventProxyDenied is reported on a pod whose node does not reach the registry, because its proxy wants credentials
	// or forbids it.
	EventProxyDenied = "ProxyDenied"
	// EventRegistryBlocked is reported on a pod with an image of a registry that the cluster's settings block or do not
	// allow, where no mirror may be asked instead.
	EventRegistryBlocked = "RegistryBlocked"
	// EventRegistryUntrusted is reported on a pod whose registry has a certificate of an authority that its node does
	// not trust.
	EventRegistryUntrusted = "RegistryUntrusted"
	// EventRegistryCertificateInvalid is reported on a pod whose registry has a certificate that its node does not accept
	// for another cause: by the clock of the node it has expired or is not valid yet, or it is for another name.
	EventRegistryCertificateInvalid = "RegistryCertificateInvalid"
	// EventRegistryWithoutTLS is reported on a pod whose registry does not speak TLS, which nodes ask for.
	EventRegistryWithoutTLS = "RegistryWithoutTLS"
	// EventRegistryRateLimited is reported on a pod whose registry has had too many requests (status 429).
	EventRegistryRateLimited = "RegistryRateLimited"
	// EventRegistryFailed is reported on a pod whose registry answers with an error of its own (status 5xx).
	EventRegistryFailed = "RegistryFailed"
	// EventImageNotFound is reported on a pod with an image, or a tag, that its registry does not have.
	EventImageNotFound = "ImageNotFound"
	// EventImageInvalid is reported on a pod with an image in a format that containerd does not know, or whose content is
	// not what its digest says.
	EventImageInvalid = "ImageInvalid"
	// EventImageForbidden is reported on a pod with an image that a policy of the registry or the node refuses.
	EventImageForbidden = "ImageForbidden"
	// EventLayerBlocked is reported on a pod whose node cannot write a layer of the image, because another program,
	// usually a virus scanner, keeps containerd away from a file.
	EventLayerBlocked = "LayerBlocked"
	// EventNodeDiskFull is reported on a pod whose node has no space left for the image or the container.
	EventNodeDiskFull = "NodeDiskFull"
)

// PodReasons are all reasons for which pods do not start.
func PodReasons() []string {
	return []string{
		EventImageForAnotherBuild, EventNoNodeForBuild, EventNoNodeFits, EventNodesUnavailable, EventTaintNotTolerated, EventMemoryLimitMissing,
		EventRuntimeClassMissing, EventCredentialSpecMissing, EventNodeNotInDomain, EventNoNodeWithHyperV, EventMirrorUnavailable, EventRegistryDenied, EventRegistryUnreachable, EventProxyUnreachable, EventPodTooLarge,
		EventProxyDenied, EventRegistryBlocked, EventRegistryUntrusted, EventRegistryCertificateInvalid, EventRegistryWithoutTLS, EventRegistryRateLimited,
		EventRegistryFailed, EventImageNotFound, EventImageInvalid, EventImageForbidden, EventLayerBlocked, EventNodeDiskFull,
	}
}
