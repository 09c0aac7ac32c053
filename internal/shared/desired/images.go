package desired

import (
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Image is an image that nodes pull before pods need it.
type Image struct {
	// Name is its full name.
	Name string `json:"name"`
	// Builds are the builds of Windows whose hosts pull it; all hosts if there are none.
	Builds []windowsbuild.Build `json:"builds,omitempty"`
}

// IsFor reports whether hosts with a build of Windows pull the image.
func (i Image) IsFor(b windowsbuild.Build) bool {
	return len(i.Builds) == 0 || slices.Contains(i.Builds, b)
}

func images(spec v1alpha1.ImagesSpec) (all []Image) {
	for _, p := range spec.Prepull {
		i := Image{Name: p.Image}
		for _, r := range windowsbuild.Releases() {
			if slices.Contains(p.Versions, v1alpha1.WindowsVersion(r.Version)) {
				i.Builds = append(i.Builds, r.Build)
			}
		}
		all = append(all, i)
	}
	return all
}

// maxImages limits the images that nodes pull before pods need them.
const maxImages = 16

func (n Node) checkImages() error {
	if len(n.Images) > maxImages {
		return fmt.Errorf("%d images to pull; at most %d are allowed", len(n.Images), maxImages)
	}
	for _, i := range n.Images {
		if err := CheckImage(i.Name); err != nil {
			return fmt.Errorf("image to pull: %w", err)
		}
		for _, b := range i.Builds {
			if _, known := windowsbuild.ReleaseOf(b); !known {
				return fmt.Errorf("image to pull %.128q is for build %d, which is not a Windows Server build", i.Name, b)
			}
		}
	}
	return nil
}
