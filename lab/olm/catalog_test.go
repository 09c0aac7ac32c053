//go:build linux

package olm_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/lab"
)

// A catalogBundle is what a catalog says of a version.
type catalogBundle struct {
	Schema     string `json:"schema"`
	Name       string `json:"name"`
	Package    string `json:"package"`
	Image      string `json:"image"`
	Properties []struct {
		Type  string `json:"type"`
		Value any    `json:"value"`
	} `json:"properties"`
	RelatedImages []struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	} `json:"relatedImages"`
}

// checkCatalog has opm validate the catalog, and compares what opm makes of the bundle's image with what is in it.
func (p *place) checkCatalog() {
	ctx := p.t.Context()
	opm, err := lab.OPM(ctx, os.Stderr)
	if err != nil {
		p.t.Fatal(err)
	}
	folder := filepath.Join(p.out, "0.1.0", "catalog")
	if out, err := exec.CommandContext(ctx, opm, "validate", folder).CombinedOutput(); err != nil {
		p.t.Errorf("opm validate: %v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "catalog.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	var want catalogBundle
	for document := range bytes.SplitSeq(text, []byte("---\n")) {
		var b catalogBundle
		if err := yaml.Unmarshal(document, &b); err != nil {
			p.t.Fatal(err)
		}
		if b.Schema == "olm.bundle" {
			want = b
		}
	}
	var failure bytes.Buffer
	render := exec.CommandContext(ctx, opm, "render", want.Image, "--use-http", "--output", "json", "--migrate-level", "bundle-object-to-csv-metadata")
	render.Stderr = &failure
	rendered, err := render.Output()
	if err != nil {
		p.t.Fatalf("opm render: %v: %s", err, failure.Bytes())
	}
	var got catalogBundle
	if err := json.Unmarshal(rendered, &got); err != nil {
		p.t.Fatal(err)
	}
	if got.Name != want.Name || got.Package != want.Package || got.Image != want.Image {
		p.t.Errorf("opm makes %s of %s, package %s, want %s of %s, package %s", got.Name, got.Image, got.Package, want.Name, want.Image, want.Package)
	}
	p.expectSame("properties", got.Properties, want.Properties)
	p.expectSame("relatedImages", got.RelatedImages, want.RelatedImages)
}

// expectSame compares lists without regard to their order.
func (p *place) expectSame(what string, got, want any) {
	p.t.Helper()
	count := func(list any) map[string]int {
		all := map[string]int{}
		for v := reflect.ValueOf(list); v.Len() > 0; v = v.Slice(1, v.Len()) {
			text, err := json.Marshal(v.Index(0).Interface())
			if err != nil {
				p.t.Fatal(err)
			}
			all[string(text)]++
		}
		return all
	}
	if g, w := count(got), count(want); !reflect.DeepEqual(g, w) {
		p.t.Errorf("%s that opm makes of the bundle are\n%v\nand those of the catalog\n%v", what, g, w)
	}
}
