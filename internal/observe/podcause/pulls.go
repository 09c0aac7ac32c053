package podcause

import (
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// signature is a cause, and how messages of the kubelet and containerd indicate it: they contain one of texts and, if alsoOneOf is not empty, one of
// alsoOneOf. Each text contains a character that image names, which messages quote, cannot contain.
type signature struct {
	reason           string
	texts, alsoOneOf []string
}

func (s signature) matches(message string) bool {
	contains := func(text string) bool { return strings.Contains(message, text) }
	return slices.ContainsFunc(s.texts, contains) && (len(s.alsoOneOf) == 0 || slices.ContainsFunc(s.alsoOneOf, contains))
}

// classify finds the cause in a message of the kubelet or containerd. For an unknown message, it returns the kubelet's reason.
func classify(reason, message string) string {
	signatures := startSignatures()
	if slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", kubeletNoRegistry, kubeletNoSignature}, reason) {
		signatures = append(signatures, pullSignatures()...)
	}
	if i := slices.IndexFunc(signatures, func(s signature) bool { return s.matches(message) }); i >= 0 && signatures[i].reason != "" {
		return signatures[i].reason
	}
	switch reason {
	case kubeletNoRegistry: // the operator uses the same name for something else
		return api.EventRegistryUnreachable
	case kubeletNoSignature:
		return api.EventImageForbidden
	}
	return reason
}

// Reasons that container runtimes give kubelets (k8s.io/cri-api, pkg/errors).
const (
	kubeletNoRegistry  = "RegistryUnavailable"
	kubeletNoSignature = "SignatureValidationFailed"
)

func isImageReason(reason string) bool {
	return reason != "" && slices.ContainsFunc(append(startSignatures(), pullSignatures()...), func(s signature) bool { return s.reason == reason })
}

// startSignatures returns signatures in any message about a container. Windows localizes its messages, so error numbers are matched if present: hcsshim
// appends them (internal/hcserror).
func startSignatures() []signature {
	return []signature{
		{reason: api.EventImageForAnotherBuild, texts: []string{
			"no match for platform", // images.Manifest of containerd
			"operating system does not match the host operating system", "does not match the operating system of the host", "(0xc0370101)",
		}},
		{reason: api.EventNodeDiskFull, texts: []string{"(0x70)", "not enough space on the disk", "no space left on device"}},
	}
}

// pullSignatures returns signatures in messages about pulls, most reliable first. A response of WICD's registry may have signatures of several registries.
func pullSignatures() []signature {
	return slices.Concat([]signature{
		{reason: api.EventLayerBlocked, texts: []string{"(0x5)", "(0x20)", "(0xe1)", "Access is denied.", "being used by another process", "contains a virus"},
			alsoOneOf: []string{"failed to extract layer", "hcsshim::"}},
		{reason: api.EventMirrorUnavailable, texts: []string{` "https://127.0.0.1:10280/`, "dial tcp 127.0.0.1:10280"}}, // WICD does not respond
		{reason: api.EventProxyUnreachable, texts: []string{"proxyconnect tcp"}},                                        // net/http
		{reason: api.EventProxyDenied, texts: []string{"Proxy Authentication Required", `": Forbidden`}},                // net/http: a proxy's response to CONNECT
		{reason: api.EventRegistryDenied, texts: []string{mirrors.RefusesCredentials}},
		{reason: api.EventRegistryBlocked, texts: []string{mirrors.NoRegistryAllowed}},
		{reason: api.EventRegistryWithoutTLS, texts: []string{"server gave HTTP response to HTTPS client", "first record does not look like a TLS handshake"}},
		{reason: api.EventRegistryUntrusted, texts: []string{"x509: certificate signed by unknown authority"}},
		{reason: api.EventRegistryCertificateInvalid, texts: []string{"x509: "}},
		{reason: api.EventRegistryRateLimited, texts: []string{"429 Too Many Requests", "toomanyrequests: "}},
		{reason: api.EventImageForbidden, texts: []string{"Source image rejected", "due to configured policy", "PROJECTPOLICYVIOLATION: ", "blocked by policy"}},
		{reason: api.EventImageInvalid, texts: []string{
			"unexpected commit digest", "wrong diff id", "unexpected media type", "reference for unknown type", "is no longer supported since containerd",
			"Schema 1 images", "schema 1 not supported", "byte manifest for", mirrors.Damaged,
		}},
		{reason: api.EventMirrorUnavailable, texts: []string{mirrors.NotFound, "https://127.0.0.1:10280/"}},
	}, registrySignatures())
}

// registrySignatures returns signatures in responses of registries, and in messages about missing responses.
func registrySignatures() []signature {
	return []signature{
		{reason: api.EventRegistryDenied, texts: []string{
			"401 Unauthorized", "403 Forbidden", "pull access denied", "no basic auth credentials", "authorization failed", "authentication required",
			"access to the resource is denied", "missing username or secret",
		}},
		{texts: []string{"no pull hosts: ", "no resolve hosts: "}}, // the hosts are not found, not the image
		{reason: api.EventImageNotFound, texts: []string{": not found", "404 Not Found", "manifest unknown", "name unknown"}},
		{reason: api.EventRegistryFailed, texts: []string{"500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Time"}},
		{reason: api.EventRegistryUnreachable, texts: []string{
			"no such host", "server misbehaving", "getaddrinfow: ", "connection refused", "connection reset by peer", "connection timed out", "no route to host",
			"network is unreachable", "i/o timeout", "connectex: ", "wsarecv: ", "wsasend: ", "TLS handshake timeout", "Client.Timeout exceeded",
			"context deadline exceeded", "context canceled", `": EOF`, "unexpected EOF", `": Bad Gateway`, `": Service Unavailable`, `": Gateway Time`,
		}},
	}
}
