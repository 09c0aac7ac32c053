package podcause_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/observe/podcause"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// pull is a kubelet's message about a container whose image could not be pulled, with changed names.
type pull struct {
	link, input     string // where it was reported, and what the administrator had
	reason, message string
	want            string
}

// TestReportedPullsAreClassified also expects advice for each cause.
func TestReportedPullsAreClassified(t *testing.T) {
	for _, p := range slices.Concat(platformPulls(), credentialPulls(), certificatePulls(), proxyPulls(), networkPulls(), imagePulls(), diskPulls(), kubeletPulls(), wicdPulls(), unknownPulls()) {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Image: "x", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: p.reason, Message: p.message}},
		}}}}
		got := podcause.Waiting(pod).Reason
		if got != p.want {
			t.Errorf("%s (%s): the cause is %s, want %s", p.input, p.link, got, p.want)
		}
		if a, known := advice.All()[got]; !known || a.Remedy == "" || a.Page == "" {
			t.Errorf("%s (%s): no advice for %s", p.input, p.link, got)
		}
	}
}

// Prefixes of containerd's messages about pulls.
const (
	resolve = `failed to pull and unpack image "r.test/shop/web:1": failed to resolve reference "r.test/shop/web:1": `
	head    = resolve + `failed to do request: Head "https://r.test/v2/shop/web/manifests/1": `
	copying = `failed to pull and unpack image "r.test/shop/web:1": failed to copy: `
	layer   = copying + `httpReadSeeker: failed open: `
	extract = `failed to pull and unpack image "r.test/shop/web:1": failed to extract layer sha256:4612: `
	digest  = `sha256:1860da6d8902305631883be7a65a6a60d5f24be9048bf82c8c454ac2748d3950`
)

func platformPulls() []pull {
	return []pull{
		{"https://github.com/containerd/containerd/issues/6989", "an image that has nothing for the build of the node", "ErrImagePull",
			`rpc error: code = NotFound desc = failed to pull and unpack image "r.test/servercore:ltsc2022": no match for platform in manifest: not found`, api.EventImageForAnotherBuild},
		{"https://github.com/kubernetes-sigs/sig-windows-tools/issues/72", "a container of another build, in words", "CreateContainerError",
			`hcsshim::CreateComputeSystem e20e: The container operating system does not match the host operating system.`, api.EventImageForAnotherBuild},
		{"https://github.com/moby/moby/issues/35462", "a container of another build, with a number", "RunContainerError",
			`failure in a Windows system call: The operating system of the container does not match the operating system of the host. (0xc0370101)`, api.EventImageForAnotherBuild},
	}
}

func credentialPulls() []pull {
	const harbor = `manifests 1: 412 Precondition Failed: current image with 86 vulnerabilities cannot be pulled due to configured policy in 'Prevent images with vulnerability severity of "Medium" or higher from running.'`
	return []pull{
		{"https://github.com/eksctl-io/eksctl/issues/6669", "a registry of AWS without credentials", "ErrImagePull",
			resolve + `pulling from host 1.dkr.ecr.eu-west-1.amazonaws.com failed with status code [manifests v2]: 401 Unauthorized`, api.EventRegistryDenied},
		{"https://github.com/kubernetes-sigs/kro/issues/153", "a registry that forbids", "ErrImagePull", resolve + `unexpected status from HEAD request to https://r.test/v2/shop/web/manifests/1: 403 Forbidden`, api.EventRegistryDenied},
		{"https://github.com/rossoctl/rossoctl/issues/116", "a token that is refused", "ErrImagePull",
			resolve + `failed to authorize: failed to fetch oauth token: unexpected status from GET request to https://r.test/token?scope=x&service=r.test: 403 Forbidden`, api.EventRegistryDenied},
		{"https://github.com/Azure/acs-engine/issues/2735", "a registry of Azure without credentials", "ErrImagePull", resolve + `failed to authorize: no basic auth credentials`, api.EventRegistryDenied},
		{"https://github.com/kubernetes/kops/issues/16762", "no credentials, in the words of containerd 2", "ErrImagePull",
			resolve + `pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`, api.EventRegistryDenied},
		{"https://github.com/aliyun/kvc-3fs-operator/issues/4", "credentials for another repository", "ErrImagePull",
			resolve + `pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`, api.EventRegistryDenied},
		{"https://github.com/kubernetes/minikube/issues/20613", "a repository that is not there, or hidden", "ImagePullBackOff",
			`Back-off pulling image "web": ErrImagePull: denied: requested access to the resource is denied`, api.EventRegistryDenied},
		{"https://github.com/goharbor/harbor/issues/13825", "a registry that forbids vulnerable images", "ErrImagePull", resolve + harbor, api.EventImageForbidden},
		{"https://github.com/namespacelabs/foundation/issues/846", "the limit of Docker Hub", "ErrImagePull",
			layer + `unexpected status code https://r.test/v2/shop/web/manifests/` + digest + `: 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit.`, api.EventRegistryRateLimited},
		{"https://github.com/kubernetes/kubernetes/issues/126366", "the limit of another registry", "ErrImagePull", resolve + `unexpected status from HEAD request to https://r.test/v2/shop/web/manifests/1: 429 Too Many Requests`, api.EventRegistryRateLimited},
	}
}

func certificatePulls() []pull {
	const verify = head + `tls: failed to verify certificate: `
	return []pull{
		{"https://github.com/rancher/rke2/issues/7103", "a registry with a CA of the company", "ErrImagePull", verify + `x509: certificate signed by unknown authority`, api.EventRegistryUntrusted},
		{"https://github.com/containerd/containerd/issues/3804", "the same, in the words of older versions", "ErrImagePull",
			`failed to do request: Head https://r.test/v2/shop/web/manifests/1: x509: certificate signed by unknown authority`, api.EventRegistryUntrusted},
		{"https://github.com/kubernetes-sigs/nfs-subdir-external-provisioner/issues/81", "a node whose clock is wrong", "ErrImagePull", head + `x509: certificate has expired or is not yet valid`, api.EventRegistryCertificateInvalid},
		{"https://github.com/GoogleCloudPlatform/horizon-sdv/issues/8", "a certificate that has expired", "ErrImagePull",
			verify + `x509: certificate has expired or is not yet valid: current time 2025-06-12T03:05:25Z is after 2025-06-07T05:48:45Z`, api.EventRegistryCertificateInvalid},
		{"https://github.com/henrygd/beszel/issues/2123", "a certificate that is not valid yet", "ErrImagePull",
			verify + `x509: certificate has expired or is not yet valid: current time 2026-05-17T10:34:05+02:00 is before 2026-07-08T01:10:17Z`, api.EventRegistryCertificateInvalid},
		{"https://github.com/goharbor/harbor/issues/17502", "a certificate without the address of the registry", "ErrImagePull",
			verify + `x509: cannot validate certificate for 10.0.0.5 because it doesn't contain any IP SANs`, api.EventRegistryCertificateInvalid},
		{"https://github.com/docker/for-linux/issues/994", "a certificate for another name", "ErrImagePull", verify + `x509: certificate is valid for *.other.test, not r.test`, api.EventRegistryCertificateInvalid},
		{"https://github.com/rancher/rke2/issues/775", "a certificate with a common name only", "ErrImagePull", verify + `x509: certificate relies on legacy Common Name field, use SANs instead`, api.EventRegistryCertificateInvalid},
		{"https://github.com/containerd/containerd/issues/4938", "a registry without TLS", "ErrImagePull", head + `http: server gave HTTP response to HTTPS client`, api.EventRegistryWithoutTLS},
		{"https://github.com/tilt-dev/tilt/issues/6498", "a registry without TLS, between two attempts", "ImagePullBackOff",
			`Back-off pulling image "r.test/shop/web:1": ErrImagePull: ` + head + `http: server gave HTTP response to HTTPS client`, api.EventRegistryWithoutTLS},
		{"https://github.com/docker/for-mac/issues/5863", "a port that does not speak TLS", "ErrImagePull", head + `tls: first record does not look like a TLS handshake`, api.EventRegistryWithoutTLS},
	}
}

func proxyPulls() []pull {
	const transport = "https://github.com/golang/go/blob/go1.26.0/src/net/http/transport.go" // dialConn: a proxy's response to CONNECT
	return []pull{
		{"https://github.com/ray-project/ray/issues/46813", "a proxy where nothing listens", "ErrImagePull", head + `proxyconnect tcp: dial tcp 127.0.0.1:1082: connect: connection refused`, api.EventProxyUnreachable},
		{"https://github.com/docker/for-linux/issues/620", "https:// for a proxy without TLS", "ErrImagePull", head + `proxyconnect tcp: tls: first record does not look like a TLS handshake`, api.EventProxyUnreachable},
		{transport + "#L1937", "a proxy that wants a login", "ErrImagePull", head + `Proxy Authentication Required`, api.EventProxyDenied},
		{transport, "a proxy that forbids the registry", "ErrImagePull", head + `Forbidden`, api.EventProxyDenied},
		{transport + "#L1931", "a proxy that does not reach the registry", "ErrImagePull", head + `Bad Gateway`, api.EventRegistryUnreachable},
	}
}

func networkPulls() []pull {
	const silent = `connectex: A connection attempt failed because the connected party did not properly respond after a period of time, or established connection failed because connected host has failed to respond.`
	return []pull{
		{"https://github.com/containerd/containerd/issues/7218", "a firewall that drops, on Windows", "ErrImagePull", layer + `failed to do request: Get "https://r.test/v2/x": dial tcp 192.0.2.9:443: ` + silent, api.EventRegistryUnreachable},
		{"https://github.com/containerd/containerd/issues/7676", "layers that come from another registry", "ErrImagePull",
			layer + `failed to do request: Get "https://mcr.microsoft.com/v2/windows/servercore/blobs/` + digest + `": dial tcp 192.0.2.19:443: ` + silent, api.EventRegistryUnreachable},
		{"https://github.com/kubernetes-sigs/sig-windows-dev-tools/issues/64", "a name that DNS does not know", "ErrImagePull", head + `dial tcp: lookup r.test: no such host`, api.EventRegistryUnreachable},
		{"https://github.com/docker/for-win/issues/437", "a name that DNS does not know, by Windows' own resolver", "ErrImagePull", head + `dial tcp: lookup r.test: getaddrinfow: No such host is known.`, api.EventRegistryUnreachable},
		{"https://github.com/ciiiii/cloudflare-docker-proxy/issues/85", "a firewall that drops", "ErrImagePull", `rpc error: code = DeadlineExceeded desc = ` + head + `dial tcp 192.0.2.8:443: i/o timeout`, api.EventRegistryUnreachable},
		{"https://github.com/ciiiii/cloudflare-docker-proxy/issues/79", "an authority for tokens that is not reached", "ErrImagePull",
			resolve + `failed to authorize: failed to fetch anonymous token: Get "https://auth.test/token?scope=x": dial tcp 192.0.2.8:443: connect: connection refused`, api.EventRegistryUnreachable},
		{"https://github.com/kubernetes/registry.k8s.io/issues/270", "a handshake that takes too long", "ErrImagePull", head + `net/http: TLS handshake timeout`, api.EventRegistryUnreachable},
		{"https://github.com/microsoft/containerregistry/issues/6", "a connection that breaks, on Windows", "ErrImagePull", copying + `read tcp 192.0.2.3:59824->192.0.2.19:443: wsarecv: An existing connection was forcibly closed by the remote host.`, api.EventRegistryUnreachable},
		{"https://github.com/containerd/containerd/issues/10035", "a connection that is reset", "ErrImagePull", copying + `read tcp 192.0.2.3:38070->192.0.2.9:443: read: connection reset by peer`, api.EventRegistryUnreachable},
		{"https://github.com/k3s-io/k3s/issues/5217", "a connection that ends", "ErrImagePull", layer + `failed to do request: Get "https://cdn.test/data?verify=16-2wX9zENAiV": EOF`, api.EventRegistryUnreachable},
		{"https://github.com/kubernetes/kubernetes/issues/131521", "a pull that makes no progress", "ErrImagePull", `rpc error: code = Canceled desc = failed to pull and unpack image "r.test/shop/web:1": context canceled`, api.EventRegistryUnreachable},
		{"https://github.com/docker-archive-public/docker.kitematic/issues/3657", "an answer that takes too long", "ErrImagePull", head + `net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)`, api.EventRegistryUnreachable},
		{"https://github.com/cri-o/cri-o/pull/189", "a pull that does not end in time", "ErrImagePull", `rpc error: code = 4 desc = context deadline exceeded`, api.EventRegistryUnreachable},
		{"https://github.com/enix/kube-image-keeper/issues/529", "a reason of kubelets that is one of this operator's for something else", "RegistryUnavailable",
			`image pull failed for r.test/web:1 because the registry is unavailable: pinging container registry r.test: Get "https://r.test/v2/": dial tcp [::1]:7439: connect: connection refused`, api.EventRegistryUnreachable},
		{"https://github.com/kubernetes/registry.k8s.io/issues/294", "a registry that fails", "ErrImagePull", layer + `unexpected status code https://r.test/v2/shop/web/manifests/` + digest + `: 503 Service Unavailable`, api.EventRegistryFailed},
		{"https://github.com/distribution/distribution/issues/3842", "a registry that fails in itself", "ErrImagePull", resolve + `unexpected status from HEAD request to https://r.test/v2/shop/web/manifests/1: 500 Internal Server Error`, api.EventRegistryFailed},
	}
}

func imagePulls() []pull {
	return []pull{
		{"https://github.com/kagent-dev/kagent/issues/2178", "a tag that is not there", "ErrImagePull", `rpc error: code = NotFound desc = ` + resolve + `r.test/shop/web:1: not found`, api.EventImageNotFound},
		{"https://github.com/lachie83/k8s-kubectl/issues/157", "a tag that is not there, in words of the registry", "ErrImagePull", `manifest for r.test/shop/web:1 not found: manifest unknown: manifest unknown`, api.EventImageNotFound},
		{"https://github.com/crossplane/crossplane/issues/6445", "a part that is not there", "ErrImagePull",
			layer + `could not fetch content descriptor ` + digest + ` (application/vnd.docker.container.image.v1+json) from remote: not found`, api.EventImageNotFound},
		{"https://github.com/kubernetes/website/issues/52702", "an image in the format of 2015", "ErrImagePull",
			`not implemented: media type "application/vnd.docker.distribution.manifest.v1+prettyjws" is no longer supported since containerd v2.1, please rebuild the image`, api.EventImageInvalid},
		{"https://github.com/kubernetes/k8s.io/issues/8650", "the same, in words of containerd 2.0", "ImagePullBackOff",
			`Back-off pulling image "r.test/web": ErrImagePull: failed to get converter for "r.test/web:latest": Pulling Schema 1 images have been deprecated and disabled by default since containerd v2.0.`, api.EventImageInvalid},
		{"https://github.com/containerd/containerd/issues/4756", "a manifest of an unknown kind", "ErrImagePull", `reference for unknown type: application/octet-stream: unexpected media type application/octet-stream for ` + digest + `: not found`, api.EventImageInvalid},
		{"https://github.com/kubernetes-sigs/cri-tools/issues/1137", "a page of a proxy in place of the image", "ErrImagePull",
			`failed to unpack image on snapshotter windows: unexpected media type text/html for ` + digest + `: not found`, api.EventImageInvalid},
		{"https://github.com/xunholy/k8s-gitops/issues/373", "a layer that arrives damaged", "ErrImagePull",
			`rpc error: code = FailedPrecondition desc = failed commit on ref "layer-` + digest + `": unexpected commit digest sha256:e3b0, expected ` + digest + `: failed precondition`, api.EventImageInvalid},
	}
}

func diskPulls() []pull {
	return []pull{
		{"https://github.com/kubernetes/kubernetes/issues/116020", "a full disk", "ErrImagePull", extract + `hcsshim::ImportLayer failed in Win32: There is not enough space on the disk. (0x70)`, api.EventNodeDiskFull},
		{"https://github.com/microsoft/hcsshim/blob/v0.13.0/internal/hcserror/hcserror.go", "a full disk, on a Windows that speaks German", "ErrImagePull", extract + `hcsshim::ImportLayer failed in Win32: Es steht nicht genug Speicherplatz auf dem Datenträger zur Verfügung. (0x70): unknown`, api.EventNodeDiskFull},
		{"https://github.com/microsoft/mssql-docker/issues/299", "a full disk, without a number", "ErrImagePull", extract + `BackupWrite \\?\C:\ProgramData\x\UtilityVM\Files\a.mum: There is not enough space on the disk.`, api.EventNodeDiskFull},
		{"https://github.com/rancher/rke2/issues/3090", "a full disk, at the start of a container", "CreateContainerError", `failed to create snapshot: hcsshim::CreateSandboxLayer failed in Win32: There is not enough space on the disk. (0x70)`, api.EventNodeDiskFull},
		{"https://github.com/moby/moby/issues/35988", "a scanner that keeps containerd away from a file", "ErrImagePull", extract + `hcsshim::ImportLayer failed in Win32: Access is denied. (0x5)`, api.EventLayerBlocked},
		{"https://github.com/microsoft/hcsshim/issues/2380", "the same, without a number", "ErrImagePull", extract + `hcsshim::ProcessBaseLayer \\?\C:\ProgramData\containerd\root\1: Access is denied.: unknown`, api.EventLayerBlocked},
		{"https://github.com/docker/for-win/issues/2190", "a scanner that has a file open", "ErrImagePull", extract + `hcsshim::ProcessUtilityVMImage \\?\C:\x\UtilityVM: The process cannot access the file because it is being used by another process.`, api.EventLayerBlocked},
		{"https://github.com/microsoft/navcontainerhelper/issues/3793", "a scanner that takes a file for a virus", "ErrImagePull",
			extract + `hcsshim::ImportLayer failed in Win32: Operation did not complete successfully because the file contains a virus or potentially unwanted software. (0xe1)`, api.EventLayerBlocked},
	}
}

// kubeletPulls are messages of the kubelet itself, whose reasons are the cause.
func kubeletPulls() []pull {
	return []pull{
		{"https://github.com/kubernetes/kubernetes/pull/117717", "a signature that is missing", "SignatureValidationFailed",
			`image pull failed for r.test/web:1 because the signature validation failed: Source image rejected: A signature was required, but no signature exists`, api.EventImageForbidden},
		{"https://github.com/hystax/optscale/issues/701", "an image that may not be pulled", "ErrImageNeverPull", `Container image "web:local" is not present with pull policy of Never`, "ErrImageNeverPull"},
		{"https://github.com/SwissDataScienceCenter/renku/issues/281", "a name in capital letters", "InvalidImageName",
			`Failed to apply default image tag "r.test/Shop/web:1": couldn't parse image name "r.test/Shop/web:1": invalid reference format: repository name must be lowercase`, "InvalidImageName"},
		{"https://github.com/k3s-io/k3s/issues/12540", "a containerd that does not answer", "ImageInspectError", `Failed to inspect image "": rpc error: code = Unavailable desc = connection error`, "ImageInspectError"},
	}
}

// wicdPulls are responses of WICD's registry.
func wicdPulls() []pull {
	const link, mirror = "internal/shared/mirrors", `failed to do request: Head "https://127.0.0.1:10280/v2/web/manifests/1?ns=r.test": `
	return []pull{
		{link, "a mirror that does not answer", "ImagePullBackOff", mirror + "403 Forbidden: mirror.test: connection refused", api.EventMirrorUnavailable},
		{link, "an image that no mirror has", "ErrImagePull", "127.0.0.1:10280: 404: " + mirrors.NotFound, api.EventMirrorUnavailable},
		{link, "a mirror that refuses the credentials", "ErrImagePull", "127.0.0.1:10280: 403 Forbidden: " + mirrors.RefusesCredentials, api.EventRegistryDenied},
	}
}

// unknownPulls have no known cause: their message is shown unchanged.
func unknownPulls() []pull {
	return []pull{
		{"https://kubernetes.io/docs/concepts/configuration/secret/", "a Secret that is missing, which is no pull", "CreateContainerConfigError", `secret "a" not found`, "CreateContainerConfigError"},
		{"https://github.com/microsoft/hcsshim/issues/368", "a layer that Windows does not find", "ErrImagePull", extract + `hcsshim::ImportLayer failed in Win32: The system cannot find the path specified. (0x3)`, "ErrImagePull"},
		{"https://github.com/knative/docs/issues/5565", "a registry that wants another version of TLS", "ErrImagePull", head + `remote error: tls: protocol version not supported`, "ErrImagePull"},
		{"https://github.com/ciiiii/cloudflare-docker-proxy/issues/98", "a request that the registry does not understand", "ErrImagePull", layer + `unexpected status code https://r.test/v2/shop/web/blobs/` + digest + `?ns=docker.io: 400 Bad Request`, "ErrImagePull"},
		{"https://github.com/rancher-sandbox/rancher-desktop/issues/1520", "an older kubelet that does not say why", "ImagePullBackOff", `Back-off pulling image "r.test/shop/web:1"`, "ImagePullBackOff"},
		{"https://github.com/Azure/AKS/issues/2490", "a container that does not start in time, which is no pull", "RunContainerError", `failed to create containerd task: context deadline exceeded: unknown`, "RunContainerError"},
	}
}
