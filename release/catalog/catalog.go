// Package catalog builds the file-based catalog from which the Operator Lifecycle Manager (OLM) installs and upgrades the operator: a
// package, its channel, and a bundle for each version. It rejects a catalog in which a version cannot be upgraded, or an upgrade would
// strand nodes.
package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/util/yaml"
	yamlwriter "sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/release/bundle"
	"github.com/windows-machine-config/wmco/release/image"
)

// The schemas in a catalog (alpha/declcfg of github.com/operator-framework/operator-registry).
const (
	packageSchema = "olm.package"
	channelSchema = "olm.channel"
	bundleSchema  = "olm.bundle"
)

// Catalog is a file-based catalog of the operator's package.
type Catalog struct {
	Package  Package
	Channels []Channel
	Bundles  []Bundle
}

// Package has the information that consoles show before a version is chosen.
type Package struct {
	Schema         string        `json:"schema"`
	Name           string        `json:"name"`
	DefaultChannel string        `json:"defaultChannel"`
	Icon           v1alpha1.Icon `json:"icon"`
	Description    string        `json:"description"`
}

// Channel is the order of versions.
type Channel struct {
	Schema  string  `json:"schema"`
	Name    string  `json:"name"`
	Package string  `json:"package"`
	Entries []Entry `json:"entries"`
}

// Entry is a version in a channel, and the versions that OLM upgrades to it directly.
type Entry struct {
	Name      string   `json:"name"`
	Replaces  string   `json:"replaces,omitempty"`
	Skips     []string `json:"skips,omitempty"`
	SkipRange string   `json:"skipRange,omitempty"`
}

// Bundle is a version.
type Bundle struct {
	Schema        string                  `json:"schema"`
	Name          string                  `json:"name"`
	Package       string                  `json:"package"`
	Image         string                  `json:"image"`
	Properties    []bundle.Property       `json:"properties"`
	RelatedImages []v1alpha1.RelatedImage `json:"relatedImages"`
}

// New builds the catalog of the first release.
func New(b *bundle.Bundle, ref string) (*Catalog, error) {
	c := &Catalog{
		Package: Package{
			Schema: packageSchema, Name: bundle.Package, DefaultChannel: bundle.Channel, Description: b.CSV.Spec.Description,
			Icon: b.CSV.Spec.Icon[0],
		},
		Channels: []Channel{{Schema: channelSchema, Name: bundle.Channel, Package: bundle.Package}},
	}
	return c, c.Add(b, ref)
}

// Add adds a version at the head of the channel, and checks the catalog. ref is the image of the bundle with its digest.
func (c *Catalog) Add(b *bundle.Bundle, ref string) error {
	properties, err := properties(b)
	if err != nil {
		return err
	}
	name := b.CSV.Name
	c.Bundles = append(c.Bundles, Bundle{
		Schema: bundleSchema, Name: name, Package: bundle.Package, Image: ref, Properties: properties,
		RelatedImages: append([]v1alpha1.RelatedImage{{Image: ref}}, b.CSV.Spec.RelatedImages...),
	})
	at := slices.IndexFunc(c.Channels, func(ch Channel) bool { return ch.Name == bundle.Channel })
	if at < 0 {
		return fmt.Errorf("catalog: there is no channel %s", bundle.Channel)
	}
	c.Channels[at].Entries = append(c.Channels[at].Entries, Entry{Name: name, Replaces: b.CSV.Spec.Replaces, SkipRange: b.CSV.Annotations["olm.skipRange"]})
	return c.Check()
}

// properties returns the properties that OLM's resolver and consoles read instead of the bundle.
func properties(b *bundle.Bundle) ([]bundle.Property, error) {
	var all []bundle.Property
	add := func(kind string, value any) error {
		raw, err := json.Marshal(value)
		all = append(all, bundle.Property{Type: kind, Value: raw})
		return err
	}
	errs := []error{add("olm.package", map[string]string{"packageName": bundle.Package, "version": b.CSV.Spec.Version.String()})}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		errs = append(errs, add("olm.gvk", map[string]string{"group": group, "kind": owned.Kind, "version": owned.Version}))
	}
	s := b.CSV.Spec
	errs = append(errs, add("olm.csv.metadata", map[string]any{
		"annotations": b.CSV.Annotations, "labels": b.CSV.Labels, "apiServiceDefinitions": map[string]any{}, "crdDescriptions": s.CustomResourceDefinitions,
		"description": s.Description, "displayName": s.DisplayName, "installModes": s.InstallModes, "keywords": s.Keywords, "links": s.Links,
		"maintainers": s.Maintainers, "maturity": s.Maturity, "minKubeVersion": s.MinKubeVersion, "provider": s.Provider,
	}))
	return append(all, b.Properties...), errors.Join(errs...)
}

// Head returns the version that the next one replaces.
func (c *Catalog) Head() (version string, err error) {
	for _, ch := range c.Channels {
		if ch.Name != bundle.Channel {
			continue
		}
		heads := ch.heads()
		if len(heads) != 1 {
			return "", fmt.Errorf("catalog: channel %s has heads %s, want one", ch.Name, strings.Join(heads, ", "))
		}
		return strings.TrimPrefix(heads[0], bundle.Package+".v"), nil
	}
	return "", fmt.Errorf("catalog: there is no channel %s", bundle.Channel)
}

// Encode writes a catalog as YAML.
func (c *Catalog) Encode() ([]byte, error) {
	documents := []any{c.Package}
	for _, ch := range c.Channels {
		documents = append(documents, ch)
	}
	for _, b := range c.Bundles {
		documents = append(documents, b)
	}
	var text bytes.Buffer
	for _, d := range documents {
		one, err := yamlwriter.Marshal(d)
		if err != nil {
			return nil, err
		}
		text.WriteString("---\n")
		text.Write(one)
	}
	return text.Bytes(), nil
}

// maxCatalog limits the size of a catalog that is read, in bytes: a thousand versions.
const maxCatalog = 64 << 20

// Decode reads and checks a catalog that Encode wrote. Schemas and fields that Encode does not write are errors.
func Decode(r io.Reader) (*Catalog, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxCatalog+1))
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	if len(text) > maxCatalog {
		return nil, fmt.Errorf("reading the catalog: it has more than %d bytes", maxCatalog)
	}
	c := &Catalog{}
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var raw json.RawMessage
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			return c, c.Check()
		} else if err != nil {
			return nil, fmt.Errorf("reading the catalog: %w", err)
		}
		if err := c.read(raw); err != nil {
			return nil, fmt.Errorf("reading the catalog: %w", err)
		}
	}
}

func (c *Catalog) read(raw json.RawMessage) error {
	var kind struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	switch kind.Schema {
	case packageSchema:
		if c.Package.Schema != "" {
			return errors.New("there are two packages")
		}
		return strict.Decode(&c.Package)
	case channelSchema:
		c.Channels = append(c.Channels, Channel{})
		return strict.Decode(&c.Channels[len(c.Channels)-1])
	case bundleSchema:
		c.Bundles = append(c.Bundles, Bundle{})
		return strict.Decode(&c.Bundles[len(c.Bundles)-1])
	}
	return fmt.Errorf("schema %q must be one of %s, %s, %s", kind.Schema, packageSchema, channelSchema, bundleSchema)
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
