// Package registry is the read-only registry on loopback that WICD offers to containerd. containerd knows one list of mirrors for a
// registry. For each image, this registry queries the registries that a Linux node would query (package mirrors), with the credentials of
// each, and forwards the content. It stores only a few tokens, and which registry had the content.
//
// It answers GET and HEAD of manifests, blobs and referrers (the OCI distribution specification), over TLS with a certificate that was created
// on the host, and only to a client with the certificate that was created for containerd. Registries' responses are not trusted: headers,
// redirects, realms, lengths and times are limited, and manifests must match their digest.
package registry
