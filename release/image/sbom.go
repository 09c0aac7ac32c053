package image

import (
	"bytes"
	"fmt"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/windows-machine-config/wmco/payload"
)

// sbomType is the media type of a software bill of materials in CycloneDX as JSON (https://www.iana.org/assignments/media-types).
const sbomType types.MediaType = "application/vnd.cyclonedx+json"

// SBOMReferrer returns the artifact that a registry lists as the software bill of materials of an index.
func SBOMReferrer(index v1.ImageIndex, sbom []byte) (v1.Image, error) {
	subject, err := partial.Descriptor(index)
	if err != nil {
		return nil, err
	}
	return artifact(*subject, sbom, sbomType, nil)
}

// artifact returns a referrer of a manifest: content with a media type, which is also the artifact's type.
func artifact(of v1.Descriptor, content []byte, mediaType types.MediaType, annotations map[string]string) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mediaType)
	withContent, err := mutate.Append(base, mutate.Addendum{Layer: static.NewLayer(content, mediaType)})
	if err != nil {
		return nil, err
	}
	subject := mutate.Subject(mutate.Annotations(withContent, annotations), v1.Descriptor{MediaType: of.MediaType, Digest: of.Digest, Size: of.Size})
	referrer, isImage := subject.(v1.Image)
	if !isImage {
		return nil, fmt.Errorf("%s cannot refer to %s", mediaType, of.Digest)
	}
	return referrer, nil
}

// SBOM returns the software bill of materials of the image: the operator and the programs of the payload, each with its Go modules, from its
// build information. Scanners cannot find those in the image, where the payload is compressed. The same source gives the same result: it has
// neither a serial number nor a build time.
func (s Source) SBOM() ([]byte, error) {
	text, err := s.sbom()
	if err != nil {
		return nil, fmt.Errorf("writing the software bill of materials: %w", err)
	}
	return text, nil
}

func (s Source) sbom() ([]byte, error) {
	p, err := payload.Open(s.Payload)
	if err != nil {
		return nil, err
	}
	operator, err := s.operator()
	if err != nil {
		return nil, err
	}
	components, unknown, err := programs(p)
	if err != nil {
		return nil, err
	}
	components = append([]cyclonedx.Component{operator}, components...)
	b := cyclonedx.NewBOM()
	b.Metadata = &cyclonedx.Metadata{
		Timestamp: s.Created.UTC().Format("2006-01-02T15:04:05Z"),
		Component: &cyclonedx.Component{
			BOMRef: "image", Type: cyclonedx.ComponentTypeContainer, Name: "windows-machine-config-operator", Version: s.Version,
		},
	}
	b.Components = &components
	if len(unknown) > 0 {
		b.Compositions = &[]cyclonedx.Composition{{Aggregate: cyclonedx.CompositionAggregateUnknown, Assemblies: &unknown}}
	}
	var text bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(b)
	return text.Bytes(), err
}
