// Package registry is the read-only registry on loopback that WICD offers to containerd. containerd knows one list of
// mirrors for a registry; this registry asks, for each image, whom a Linux node would ask (package mirrors), with the
// credentials of each place, and hands on what comes. It keeps nothing but a few tokens, and who answered.
//
// It answers GET and HEAD of manifests, blobs and referrers (the OCI distribution specification), over TLS with a
// certificate that was made on the host, and only to a client with the certificate that was made for containerd. What
// registries send is not trusted: headers, redirects, realms, lengths and times have bounds, and manifests must be what
// their digest says.
package registry
