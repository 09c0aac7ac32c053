package image

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/windows-machine-config/wmco/payload"
)

// sbomType is the media type of a software bill of materials in CycloneDX as JSON (https://www.iana.org/assignments/media-types).
const sbomType types.MediaType = "application/vnd.cyclonedx+json"

// SBOM is the software bill of materials of an image: the Go modules that the operator is made of, and the programs of the payload. It
// refers to the index (its subject), so that registries list it with that.
func SBOM(s Source, index v1.ImageIndex) (v1.Image, error) {
	text, err := s.bom()
	if err != nil {
		return nil, fmt.Errorf("writing the software bill of materials: %w", err)
	}
	digest, err := index.Digest()
	if err != nil {
		return nil, err
	}
	size, err := index.Size()
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomType) // which is its artifact type
	one, err := mutate.Append(base, mutate.Addendum{Layer: static.NewLayer(text, sbomType)})
	if err != nil {
		return nil, err
	}
	artifact, isImage := mutate.Subject(one, v1.Descriptor{MediaType: types.OCIImageIndex, Digest: digest, Size: size}).(v1.Image)
	if !isImage {
		return nil, errors.New("the software bill of materials cannot refer to the image")
	}
	return artifact, nil
}

// bom is the same for the same source: it has neither a serial number nor the time of the build.
func (s Source) bom() ([]byte, error) {
	p, err := payload.Open(s.Payload)
	if err != nil {
		return nil, err
	}
	components, err := s.modules()
	if err != nil {
		return nil, err
	}
	for _, f := range p.Manifest.Files {
		components = append(components, program(f))
	}
	b := cyclonedx.NewBOM()
	b.Metadata = &cyclonedx.Metadata{
		Timestamp: s.Created.UTC().Format("2006-01-02T15:04:05Z"),
		Component: &cyclonedx.Component{
			BOMRef: "wmco", Type: cyclonedx.ComponentTypeContainer, Name: "windows-machine-config-operator", Version: s.Version,
		},
	}
	b.Components = &components
	var text bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(b)
	return text.Bytes(), err
}

// modules are those of which the operators are made, each once.
func (s Source) modules() ([]cyclonedx.Component, error) {
	all := map[string]cyclonedx.Component{}
	for _, name := range s.Operators {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the operator %s: %w", name, err)
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			url := "pkg:golang/" + m.Path + "@" + m.Version
			all[url] = cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url}
		}
		url := "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")
		all[url] = cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: url}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b cyclonedx.Component) int { return cmp.Compare(a.PackageURL, b.PackageURL) }), nil
}

// program is a program of the payload.
func program(f payload.File) cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: f.Group + "/" + f.Path, Type: cyclonedx.ComponentTypeApplication, Name: f.Component, Version: f.Version, Description: f.Path,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: f.SHA256}},
	}
	if f.License != "" {
		c.Licenses = &cyclonedx.Licenses{{Expression: f.License}}
	}
	return c
}
