package windowsimage

import (
	"fmt"

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
	parts := mirrors.SplitImage(image)
	name, err := mirrors.ParseName(parts.Registry, parts.Repository)
	switch {
	case err != nil:
		return reference{}, err
	case !registryclient.IsTag(parts.Tag) || parts.ByDigest && !registryclient.IsDigest(parts.Digest):
		return reference{}, fmt.Errorf("the tag or digest of %s is invalid", name)
	case parts.ByDigest:
		return reference{name, mirrors.Digests, parts.Digest}, nil
	}
	return reference{name, mirrors.Tags, parts.Tag}, nil
}

// RegistryOf returns the registry in an image reference, regardless of mirrors; empty if the reference is invalid.
func RegistryOf(image string) string {
	r, err := parse(image)
	if err != nil {
		return ""
	}
	return r.name.Registry
}
