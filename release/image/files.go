package image

import (
	"compress/gzip"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Files is the content of an image without programs, such as a bundle or a catalog for the Operator Lifecycle Manager.
type Files struct {
	// Title and Description describe the image.
	Title, Description string
	// Content has the files by their paths, which do not begin with a slash. They are world-readable.
	Content map[string][]byte
	// Labels are the image's labels, in addition to the annotations of the OCI image specification.
	Labels map[string]string
}

// BuildFiles builds an index with the same single layer for each platform of control plane nodes: OLM runs its own program in the image,
// so it must match the node. It uses only version, revision and time of the source.
func BuildFiles(s Source, f Files) (v1.ImageIndex, error) {
	if len(f.Content) == 0 {
		return nil, fmt.Errorf("building image %s: it has no files", f.Title)
	}
	files := map[string]file{}
	for name, content := range f.Content {
		files[name] = file{content: content, mode: 0o444}
	}
	only, err := layer(files, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("building image %s: %w", f.Title, err)
	}
	annotations := s.annotations()
	annotations["org.opencontainers.image.title"], annotations["org.opencontainers.image.description"] = f.Title, f.Description
	labels := maps.Clone(annotations)
	maps.Copy(labels, f.Labels)
	index, err := indexOf(slices.Sorted(maps.Keys(machines())), annotations, func(platform v1.Platform) (v1.Image, error) {
		return s.platformImage(platform, v1.Config{Labels: labels}, only)
	})
	if err != nil {
		return nil, fmt.Errorf("building image %s: %w", f.Title, err)
	}
	return index, nil
}
