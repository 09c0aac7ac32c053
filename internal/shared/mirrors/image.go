package mirrors

import "strings"

// Image is an image reference in its parts, with the registry, repository and tag that a short one leaves out. The parts are not checked.
type Image struct {
	Registry, Repository string
	// Tag is latest if the reference has none. It has no meaning with a digest.
	Tag string
	// Digest is empty unless ByDigest.
	Digest   string
	ByDigest bool
}

// SplitImage splits an image reference as containerd does (distribution/reference).
func SplitImage(image string) Image {
	parts := Image{Registry: dockerHub, Tag: "latest"}
	var rest string
	rest, parts.Digest, parts.ByDigest = strings.Cut(image, "@")
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		rest, parts.Tag = rest[:i], rest[i+1:]
	}
	parts.Repository = rest
	if first, others, hasPath := strings.Cut(rest, "/"); hasPath && (first == "localhost" || strings.ContainsAny(first, ".:")) {
		parts.Registry, parts.Repository = first, others
	}
	if parts.Registry == dockerHub && !strings.Contains(parts.Repository, "/") {
		parts.Repository = "library/" + parts.Repository
	}
	return parts
}

// String returns the name under which containerd lists the image.
func (i Image) String() string {
	name := i.Registry + "/" + i.Repository
	if i.ByDigest {
		return name + "@" + i.Digest
	}
	return name + ":" + i.Tag
}
