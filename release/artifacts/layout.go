package artifacts

import (
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// sbomType is the media type of the software bill of materials in a layout (release/image).
const sbomType = "application/vnd.cyclonedx+json"

// maxSBOM is more than any of ours has, in bytes.
const maxSBOM = 64 << 20

// layoutImage is what is read of an image layout.
type layoutImage struct {
	digest string
	sbom   []byte
}

// readLayout reads the image that a layout has under the name of a version, and its software bill of materials.
func readLayout(folder, version string) (layoutImage, error) {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return layoutImage{}, fmt.Errorf("reading the image in %s: %w; run make image", folder, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return layoutImage{}, fmt.Errorf("reading the image in %s: %w", folder, err)
	}
	var found layoutImage
	for _, m := range manifest.Manifests {
		if m.MediaType.IsIndex() {
			if is := m.Annotations["org.opencontainers.image.ref.name"]; is != version {
				return found, fmt.Errorf("the image in %s is of version %q, not %q; run make image", folder, is, version)
			}
			found.digest = m.Digest.String()
			continue
		}
		artifact, err := index.Image(m.Digest)
		if err == nil {
			found.sbom, err = sbomOf(artifact)
		}
		if err != nil {
			return found, fmt.Errorf("reading %s of the image in %s: %w", m.Digest, folder, err)
		}
	}
	if found.digest == "" || found.sbom == nil {
		return found, fmt.Errorf("the folder %s has no image with a software bill of materials; run make image", folder)
	}
	return found, nil
}

func sbomOf(artifact v1.Image) ([]byte, error) {
	layers, err := artifact.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != 1 {
		return nil, fmt.Errorf("it has %d layers, want the software bill of materials", len(layers))
	}
	if is, err := layers[0].MediaType(); err != nil || is != sbomType {
		return nil, errors.Join(err, fmt.Errorf("its layer is %s, want %s", is, sbomType))
	}
	text, err := layers[0].Compressed() // as it is stored, which is not compressed
	if err != nil {
		return nil, err
	}
	defer text.Close()
	return io.ReadAll(io.LimitReader(text, maxSBOM))
}
