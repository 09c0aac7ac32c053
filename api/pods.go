package api

// AnnotationDoesNotStart on a pod for Windows explains why the pod does not start, as "Reason: what is wrong, and what
// to do". Written by the operator when the reason changes, and removed when the pod starts or no cause is known any
// more. Read by users.
const AnnotationDoesNotStart = GroupName + "/does-not-start"

// Reasons of events on pods for Windows that do not start. Annotation does-not-start begins with the same reason.
const (
	// EventImageForAnotherBuild is reported on a pod with an image that has no entry for the Windows build of its node.
	// The note names the builds that the image supports, if its registry reports them.
	EventImageForAnotherBuild = "ImageForAnotherBuild"
	// EventNoNodeForBuild is reported on a pod that requires a build of Windows that no Windows node has or runs.
	EventNoNodeForBuild = "NoNodeForBuild"
	// EventNoNodeFits is reported on a pod whose node selector or required node affinity matches no Windows node.
	EventNoNodeFits = "NoNodeFits"
	// EventNodesUnavailable is reported on a pod when the Windows nodes that it could run on are cordoned, not Ready or
	// under pressure.
	EventNodesUnavailable = "NodesUnavailable"
	// EventTaintNotTolerated is reported on a pod when each Windows node that it could run on has a taint that it does not
	// tolerate.
	EventTaintNotTolerated = "TaintNotTolerated"
	// EventMemoryLimitMissing is reported on a pod without memory requests and limits while the nodes that it could run on
	// are short of memory and accept only pods that have them.
	EventMemoryLimitMissing = "MemoryLimitMissing"
	// EventRuntimeClassMissing is reported on a pod whose RuntimeClass no longer exists.
	EventRuntimeClassMissing = "RuntimeClassMissing"
	// EventCredentialSpecMissing is reported on a pod that names a credential spec of a group Managed Service Account
	// whose content was not added to the pod.
	EventCredentialSpecMissing = "CredentialSpecMissing"
	// EventPodTooLarge is reported on a pod whose selectors, affinity, tolerations and containers are too large for the
	// operator to determine why no node accepts it.
	EventPodTooLarge = "PodTooLarge"
	// EventNodeNotInDomain is reported on a pod with a group Managed Service Account whose node, or each node that it
	// could run on, is neither joined to a domain nor has a plugin of Container Credential Guard.
	EventNodeNotInDomain = "NodeNotInDomain"
	// EventNoNodeWithHyperV is reported on a pod that needs Hyper-V isolation when no Windows node supports it.
	EventNoNodeWithHyperV = "NoNodeWithHyperV"
	// EventMirrorUnavailable is reported on a pod whose image is not available from any mirror or registry that may be
	// contacted.
	EventMirrorUnavailable = "MirrorUnavailable"
	// EventRegistryDenied is reported on a pod whose registry rejects the credentials, or requires some.
	EventRegistryDenied = "RegistryDenied"
	// EventRegistryUnreachable is reported on a pod whose node cannot reach the registry.
	EventRegistryUnreachable = "RegistryUnreachable"
	// EventProxyUnreachable is reported on a pod whose node cannot reach the registry, because its proxy does not answer.
	EventProxyUnreachable = "ProxyUnreachable"
	// EventProxyDenied is reported on a pod whose node cannot reach the registry, because its proxy requires credentials
	// or forbids the request.
	EventProxyDenied = "ProxyDenied"
	// EventRegistryBlocked is reported on a pod with an image of a registry that the cluster's settings block or do not
	// allow, and that no mirror may provide instead.
	EventRegistryBlocked = "RegistryBlocked"
	// EventRegistryUntrusted is reported on a pod whose registry has a certificate of an authority that its node does
	// not trust.
	EventRegistryUntrusted = "RegistryUntrusted"
	// EventRegistryCertificateInvalid is reported on a pod whose registry has a certificate that its node rejects for
	// another reason: it has expired or is not valid yet by the node's clock, or it is for another name.
	EventRegistryCertificateInvalid = "RegistryCertificateInvalid"
	// EventRegistryWithoutTLS is reported on a pod whose registry does not use TLS, which nodes require.
	EventRegistryWithoutTLS = "RegistryWithoutTLS"
	// EventRegistryRateLimited is reported on a pod whose registry has received too many requests (status 429).
	EventRegistryRateLimited = "RegistryRateLimited"
	// EventRegistryFailed is reported on a pod whose registry responds with a server error (status 5xx).
	EventRegistryFailed = "RegistryFailed"
	// EventImageNotFound is reported on a pod with an image, or a tag, that its registry does not have.
	EventImageNotFound = "ImageNotFound"
	// EventImageInvalid is reported on a pod with an image in a format that containerd does not support, or whose content
	// does not match its digest.
	EventImageInvalid = "ImageInvalid"
	// EventImageForbidden is reported on a pod with an image that a policy of the registry or the node rejects.
	EventImageForbidden = "ImageForbidden"
	// EventLayerBlocked is reported on a pod whose node cannot write a layer of the image, because another program,
	// usually a virus scanner, blocks containerd's access to a file.
	EventLayerBlocked = "LayerBlocked"
	// EventNodeDiskFull is reported on a pod whose node has no space left for the image or the container.
	EventNodeDiskFull = "NodeDiskFull"
)

// PodReasons returns all reasons for which pods do not start.
func PodReasons() []string {
	return []string{
		EventImageForAnotherBuild, EventNoNodeForBuild, EventNoNodeFits, EventNodesUnavailable, EventTaintNotTolerated, EventMemoryLimitMissing,
		EventRuntimeClassMissing, EventCredentialSpecMissing, EventNodeNotInDomain, EventNoNodeWithHyperV, EventMirrorUnavailable, EventRegistryDenied, EventRegistryUnreachable, EventProxyUnreachable, EventPodTooLarge,
		EventProxyDenied, EventRegistryBlocked, EventRegistryUntrusted, EventRegistryCertificateInvalid, EventRegistryWithoutTLS, EventRegistryRateLimited,
		EventRegistryFailed, EventImageNotFound, EventImageInvalid, EventImageForbidden, EventLayerBlocked, EventNodeDiskFull,
	}
}
