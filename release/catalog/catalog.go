// Package catalog builds the file-based catalog from which the Operator Lifecycle Manager (OLM) installs and upgrades the operator: a
// package, its channel, and a bundle for each version. It rejects a catalog in which a version cannot be upgraded, or an upgrade would
// strand nodes.
package catalog

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/windows-machine-config/wmco/release/bundle"
	"github.com/windows-machine-config/wmco/release/image"
)

// Catalog is a file-based catalog of the operator's package.
type Catalog struct{ declcfg.DeclarativeConfig }

// New builds the catalog of the first release.
func New(b *bundle.Bundle, ref string) (*Catalog, error) {
	icon, err := base64.StdEncoding.DecodeString(b.CSV.Spec.Icon[0].Data)
	if err != nil {
		return nil, fmt.Errorf("catalog: reading the icon: %w", err)
	}
	c := &Catalog{declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{
			Schema: declcfg.SchemaPackage, Name: bundle.Package, DefaultChannel: bundle.Channel, Description: b.CSV.Spec.Description,
			Icon: &declcfg.Icon{Data: icon, MediaType: b.CSV.Spec.Icon[0].MediaType},
		}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Name: bundle.Channel, Package: bundle.Package}},
	}}
	return c, c.Add(b, ref)
}

// Add adds a version at the head of the channel, and checks the catalog. ref is the image of the bundle with its digest.
func (c *Catalog) Add(b *bundle.Bundle, ref string) error {
	name := b.CSV.Name
	images := []declcfg.RelatedImage{{Image: ref}}
	for _, i := range b.CSV.Spec.RelatedImages {
		images = append(images, declcfg.RelatedImage{Name: i.Name, Image: i.Image})
	}
	c.Bundles = append(c.Bundles, declcfg.Bundle{
		Schema: declcfg.SchemaBundle, Name: name, Package: bundle.Package, Image: ref, Properties: properties(b), RelatedImages: images,
	})
	at := slices.IndexFunc(c.Channels, func(ch declcfg.Channel) bool { return ch.Name == bundle.Channel })
	if at < 0 {
		return fmt.Errorf("catalog: channel %s does not exist", bundle.Channel)
	}
	entry := declcfg.ChannelEntry{Name: name, Replaces: b.CSV.Spec.Replaces, SkipRange: b.CSV.Annotations["olm.skipRange"]}
	c.Channels[at].Entries = append(c.Channels[at].Entries, entry)
	return c.Check()
}

// properties returns the properties that OLM's resolver and consoles read instead of the bundle.
func properties(b *bundle.Bundle) []property.Property {
	all := []property.Property{property.MustBuildPackage(bundle.Package, b.CSV.Spec.Version.String())}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		all = append(all, property.MustBuildGVK(group, owned.Version, owned.Kind))
	}
	return append(append(all, property.MustBuildCSVMetadata(b.CSV)), b.Properties...)
}

// Head returns the version that the next one replaces.
func (c *Catalog) Head() (version string, err error) {
	channel, err := c.channel()
	if err != nil {
		return "", err
	}
	head, err := channel.Head()
	if err != nil {
		return "", fmt.Errorf("catalog: %w", err)
	}
	return head.Version.String(), nil
}

// Encode writes a catalog as YAML.
func (c *Catalog) Encode() ([]byte, error) {
	var text bytes.Buffer
	err := declcfg.WriteYAML(c.DeclarativeConfig, &text)
	return text.Bytes(), err
}

// maxCatalog limits the size of a catalog that is read, in bytes: a thousand versions.
const maxCatalog = 64 << 20

// Decode reads and checks a catalog.
func Decode(r io.Reader) (*Catalog, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxCatalog+1))
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	if len(text) > maxCatalog {
		return nil, fmt.Errorf("reading the catalog: it has more than %d bytes", maxCatalog)
	}
	config, err := declcfg.LoadReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	c := &Catalog{*config}
	return c, c.Check()
}

// pathInImage is the path of the catalog in its image.
const pathInImage = "configs/" + bundle.Package + "/catalog.yaml"

// Image builds the catalog's image. OLM v0 serves it with its own program (spec.grpcPodConfig.extractContent of CatalogSource); OLM v1
// reads the files directly. It uses only version, revision and time of the source.
func (c *Catalog) Image(s image.Source) (v1.ImageIndex, error) {
	text, err := c.Encode()
	if err != nil {
		return nil, err
	}
	return image.BuildFiles(s, image.Files{
		Title: bundle.Package + "-catalog", Description: "The versions of the Windows Machine Config Operator, for the Operator Lifecycle Manager.",
		Content: map[string][]byte{pathInImage: text},
		Labels:  map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"},
	})
}
