package artifacts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/release/image"
)

// layoutImage is an image written by make image.
type layoutImage struct {
	digest string
	sbom   []byte
}

// readLayout reads the image of a version in a layout, and its software bill of materials next to it.
func readLayout(folder, version string) (layoutImage, error) {
	digest, found, err := image.Read(folder)
	if err != nil {
		return layoutImage{}, err
	}
	if found != version {
		return layoutImage{}, fmt.Errorf("the image in %s is of version %q, not %q; run make image", folder, found, version)
	}
	sbom, err := readSBOM(filepath.Clean(folder)+".cdx.json", version)
	return layoutImage{digest: digest, sbom: sbom}, err
}

// readSBOM reads a software bill of materials, which must be for this version.
func readSBOM(name, version string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the software bill of materials: %w; run make image", err)
	}
	var bom struct {
		Metadata struct{ Component struct{ Version string } }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		return nil, fmt.Errorf("reading the software bill of materials %s: %w", name, err)
	}
	if found := bom.Metadata.Component.Version; found != version {
		return nil, fmt.Errorf("the software bill of materials %s is of version %q, not %q; run make image", name, found, version)
	}
	return text, nil
}
