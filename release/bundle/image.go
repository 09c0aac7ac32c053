package bundle

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/windows-machine-config/wmco/release/image"
)

// Image builds the bundle's image, which OLM unpacks: manifests/, metadata/ and tests/, with the bundle's annotations as labels. It uses only
// version, revision and time of the source.
func (b *Bundle) Image(s image.Source) (v1.ImageIndex, error) {
	files, err := b.Files()
	if err != nil {
		return nil, err
	}
	return image.BuildFiles(s, image.Files{
		Title: Package + "-bundle", Description: "Installs the Windows Machine Config Operator with the Operator Lifecycle Manager.",
		Content: files, Labels: b.Annotations,
	})
}
