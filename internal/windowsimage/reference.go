package windowsimage

import (
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/mirrors"
	"github.com/windows-machine-config/wmco/internal/registryclient"
)

// reference is an image as a pod names it.
type reference struct {
	name mirrors.Name
	kind mirrors.Kind
	// at is the digest, or the tag where there is none.
	at string
}

// parse reads the name of an image as containerd does (distribution/reference).
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
		return reference{}, fmt.Errorf("the tag or the digest of %s is none", name)
	case byDigest:
		return reference{name, mirrors.Digests, digest}, nil
	}
	return reference{name, mirrors.Tags, tag}, nil
}

// RegistryOf is the host that an image is from by its name, whoever is asked in its place; empty where it is no name.
func RegistryOf(image string) string {
	r, err := parse(image)
	if err != nil {
		return ""
	}
	return r.name.Registry
}
