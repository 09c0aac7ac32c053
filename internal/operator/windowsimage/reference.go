package windowsimage

import (
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

type reference struct {
	name mirrors.Name
	kind mirrors.Kind
	// at is the digest, or the tag if there is none.
	at string
}

// parse parses an image reference as containerd does (distribution/reference).
func parse(image string) (reference, error) {
	rest, digest, byDigest := strings.Cut(image, "@")
	tag := "latest"
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		rest, tag = rest[:i], rest[i+1:]
	}
	registry, repository, ok := strings.Cut(rest, "/")
	if !ok || registry != "localhost" && !strings.ContainsAny(registry, ".:") {
		registry, repository = "docker.io", rest
	}
	if registry == "docker.io" && !strings.Contains(repository, "/") {
		repository = "library/" + repository
	}
	name, err := mirrors.ParseName(registry, repository)
	switch {
	case err != nil:
		return reference{}, err
	case !registryclient.IsTag(tag) || byDigest && !registryclient.IsDigest(digest):
		return reference{}, fmt.Errorf("the tag or digest of %s is invalid", name)
	case byDigest:
		return reference{name, mirrors.Digests, digest}, nil
	}
	return reference{name, mirrors.Tags, tag}, nil
}

// RegistryOf returns the registry in an image reference, regardless of mirrors; empty if the reference is invalid.
func RegistryOf(image string) string {
	r, err := parse(image)
	if err != nil {
		return ""
	}
	return r.name.Registry
}
