package image

import (
	"compress/gzip"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Files are the content of an image without programs, such as that of a bundle or a catalog for the Operator Lifecycle Manager.
type Files struct {
	// Title and Description say what the image is.
	Title, Description string
	// Content are the files by their paths, which begin with no slash. Everybody may read them.
	Content map[string][]byte
	// Labels are those of the image, beside what the OCI image specification calls annotations.
	Labels map[string]string
}

// BuildFiles makes an index with the same single layer for each platform of control plane nodes: OLM runs a program of its own within such
// an image, so it must match the node. Of the source, only version, revision and time count.
func BuildFiles(s Source, f Files) (v1.ImageIndex, error) {
	if len(f.Content) == 0 {
		return nil, fmt.Errorf("building image %s: there are no files", f.Title)
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
