package bundle

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/windows-machine-config/wmco/release/image"
)

// Image makes the bundle's image, which OLM unpacks: manifests/ and metadata/, and the annotations of the bundle as labels. Of the source,
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

// WriteFiles writes files into a folder, in place of what it has.
func WriteFiles(folder string, files map[string][]byte) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for _, name := range Names(files) {
		to := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, files[name], 0o644); err != nil {
			return fmt.Errorf("writing the bundle: %w", err)
		}
	}
	return nil
}
