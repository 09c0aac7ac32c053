package bundle

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/windows-machine-config/wmco/release/image"
)

// Image makes the bundle's image, which OLM unpacks: manifests/, metadata/ and tests/, and the annotations of the bundle as labels. Of the source,
// version, revision and time count.
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
