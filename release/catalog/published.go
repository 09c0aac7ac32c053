package catalog

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/windows-machine-config/wmco/release/bundle"
)

// OfImage reads the catalog of an image that Image built. The images of all platforms have the same catalog.
func OfImage(index v1.ImageIndex) (*Catalog, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the image of a catalog: %w", err)
	}
	if len(manifest.Manifests) == 0 {
		return nil, errors.New("reading the image of a catalog: it has no platforms")
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, fmt.Errorf("reading the image of a catalog: %w", err)
	}
	content := mutate.Extract(img)
	defer content.Close()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("reading the image of a catalog: it has no %s", pathInImage)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the image of a catalog: %w", err)
		}
		if header.Name == pathInImage {
			return Decode(files)
		}
	}
}

// Keeps returns an error if the catalog lacks a version of a published one, or has another image for it: clusters that run that version, or
// are about to, could not be upgraded. The withdrawn version may be missing.
func (c *Catalog) Keeps(published *Catalog, withdrawn string) error {
	images := map[string]string{}
	for _, b := range c.Bundles {
		images[b.Name] = b.Image
	}
	var errs []error
	for _, b := range published.Bundles {
		switch image, found := images[b.Name]; {
		case !found && b.Name == bundle.Name(withdrawn):
		case !found:
			errs = append(errs, fmt.Errorf("catalog: %s is published and would be lost; start from the catalog of the last release (PREVIOUS=...), or withdraw it (WITHDRAW=...)", b.Name))
		case image != b.Image:
			errs = append(errs, fmt.Errorf("catalog: %s is already published with image %s instead of %s; a version can be published only once", b.Name, b.Image, image))
		}
	}
	return errors.Join(errs...)
}
