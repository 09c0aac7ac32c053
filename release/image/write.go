package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Write writes an index as an OCI image layout. It replaces a layout in the folder, and refuses a folder with other content. The version is
// the name of the index, which is the only one, so that tools can select it without a name.
func Write(folder string, s Source, index v1.ImageIndex) error {
	present, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(folder, "oci-layout")); err != nil && len(present) > 0 {
		return fmt.Errorf("folder %s contains files, but no image layout; name another folder, or empty it", folder)
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	to, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	return to.AppendIndex(index, layout.WithAnnotations(map[string]string{versionAnnotation: s.Version}))
}

// Read returns the digest and the version of the index that Write wrote into a folder.
func Read(folder string) (digest, version string, err error) {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return "", "", fmt.Errorf("reading the image in %s: %w; run make image", folder, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", "", fmt.Errorf("reading the image in %s: %w", folder, err)
	}
	if n := len(manifest.Manifests); n != 1 || !manifest.Manifests[0].MediaType.IsIndex() {
		return "", "", fmt.Errorf("folder %s has %d images, want one index, as skopeo requires; run make image", folder, n)
	}
	descriptor := manifest.Manifests[0]
	return descriptor.Digest.String(), descriptor.Annotations[versionAnnotation], nil
}

// versionAnnotation is the annotation with the name of an index in a layout.
const versionAnnotation = "org.opencontainers.image.ref.name"

// Push pushes an index to a repository with a tag, and its referrers without one. It uses the credentials of docker login and podman
// login. The returned reference names the index by its digest.
func Push(ctx context.Context, to string, plainHTTP bool, index v1.ImageIndex, referrers ...v1.Image) (reference string, err error) {
	tag, err := parseReference(to, plainHTTP)
	if err != nil {
		return "", err
	}
	options := registryOptions(ctx)
	if err := remote.WriteIndex(tag, index, options...); err != nil {
		return "", fmt.Errorf("pushing %s: %w", tag, err)
	}
	for _, r := range referrers {
		digest, err := r.Digest()
		if err != nil {
			return "", err
		}
		if err := remote.Write(tag.Context().Digest(digest.String()), r, options...); err != nil {
			return "", fmt.Errorf("pushing the referrers of %s: %w", tag, err)
		}
	}
	digest, err := index.Digest()
	return tag.Context().Digest(digest.String()).String(), err
}

// Pull returns the index of a name in a registry; nil if there is none.
func Pull(ctx context.Context, from string, plainHTTP bool) (v1.ImageIndex, error) {
	reference, err := parseReference(from, plainHTTP)
	if err != nil {
		return nil, err
	}
	index, err := remote.Index(reference, registryOptions(ctx)...)
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pulling %s: %w", reference, err)
	}
	return index, nil
}

// parseReference parses the name of an image, in a registry without TLS if plainHTTP is set.
func parseReference(to string, plainHTTP bool) (name.Reference, error) {
	if plainHTTP {
		return name.ParseReference(to, name.Insecure)
	}
	return name.ParseReference(to)
}

// registryOptions returns the options of requests to registries.
func registryOptions(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}

// WriteKustomization writes a folder, which must be next to deploy/, from which kubectl apply -k installs an image. reference is the
// result of Push.
func WriteKustomization(folder, reference string) error {
	repository, digest, found := strings.Cut(reference, "@")
	if !found {
		return fmt.Errorf("installing %s: the image is not named by its digest", reference)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, kustomization, repository, digest), 0o644)
}

const kustomization = `# Written by make image: deploy/ with the image that was pushed.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../deploy]
images:
- name: ghcr.io/windows-machine-config/wmco
  newName: %s
  digest: %s
`
