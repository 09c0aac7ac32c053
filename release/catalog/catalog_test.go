package catalog_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/windows-machine-config/wmco/release/bundle"
	"github.com/windows-machine-config/wmco/release/catalog"
)

func digestOf(letter string) string { return "@sha256:" + strings.Repeat(letter, 64) }

func newBundle(t *testing.T, version, replaces string) *bundle.Bundle {
	t.Helper()
	b, err := bundle.Build(bundle.Source{
		Deploy: "../../deploy", Version: version, Replaces: replaces, Image: "quay.io/team/wmco" + digestOf("a"),
		Created: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), Maintainer: mail.Address{Name: "Someone", Address: "someone@example.com"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// releases returns a catalog of versions 1.0.0, 1.1.0 and 1.2.0.
func releases(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.New(newBundle(t, "1.0.0", ""), "quay.io/team/wmco-bundle"+digestOf("0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"1.1.0", "1.2.0"} {
		former, err := c.Head()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Add(newBundle(t, v, former), "quay.io/team/wmco-bundle"+digestOf("1")); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestCatalogGrowsAtHead(t *testing.T) {
	c := releases(t)
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := catalog.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if text2, err := again.Encode(); err != nil || !bytes.Equal(text, text2) {
		t.Errorf("encoding after decoding differs (%v)", err)
	}
	if head, err := again.Head(); err != nil || head != "1.2.0" || len(again.Bundles) != 3 {
		t.Errorf("the head is %s (%v) of %d bundles", head, err, len(again.Bundles))
	}
	counts := map[string]int{}
	for _, p := range again.Bundles[2].Properties {
		counts[p.Type]++
	}
	if counts["olm.package"] != 1 || counts["olm.gvk"] != 3 || counts["olm.csv.metadata"] != 1 || counts[bundle.CompatibilityType] != 1 || len(counts) != 4 {
		t.Errorf("properties are %v", counts)
	}
	if images := again.Bundles[2].RelatedImages; len(images) != 2 || images[1].Image != "quay.io/team/wmco"+digestOf("a") {
		t.Errorf("related images are %v", images)
	}
}

func TestCatalogThatStrandsNodesIsRejected(t *testing.T) {
	const operator = bundle.Package
	entries := func(c *catalog.Catalog) []declcfg.ChannelEntry { return c.Channels[0].Entries }
	compatibility := func(of int, minors []string, from string) func(*catalog.Catalog) {
		return func(c *catalog.Catalog) {
			for i, p := range c.Bundles[of].Properties {
				if p.Type == bundle.CompatibilityType {
					c.Bundles[of].Properties[i].Value, _ = json.Marshal(bundle.Compatibility{KubernetesMinors: minors, UpgradesFrom: from})
				}
			}
		}
	}
	text, err := releases(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*catalog.Catalog)
		want   string // "" if it is allowed
	}{
		"nothing":                         {func(*catalog.Catalog) {}, ""},
		"a patch of the last minor":       {compatibility(2, []string{"1.36", "1.37"}, "1.1.0"), ""},
		"two heads":                       {func(c *catalog.Catalog) { entries(c)[2].Replaces = operator + ".v1.0.0" }, "multiple channel heads"},
		"a cycle":                         {func(c *catalog.Catalog) { entries(c)[0].Replaces = operator + ".v1.1.0" }, "cycle"},
		"replaced version does not exist": {func(c *catalog.Catalog) { entries(c)[0].Replaces = operator + ".v0.9.0" }, operator + ".v0.9.0 is replaced but does not exist"},
		"skipped over by name": {func(c *catalog.Catalog) { entries(c)[2].Skips = []string{operator + ".v1.0.0"} },
			"entry " + operator + ".v1.2.0 strands nodes of " + operator + ".v1.0.0"},
		"skipped over by range": {func(c *catalog.Catalog) { entries(c)[2].SkipRange = ">=1.0.0 <1.2.0" },
			"entry " + operator + ".v1.2.0 strands nodes of " + operator + ".v1.0.0: it upgrades nodes from version \"1.1.0\" on"},
		"a range that nodes follow": {func(c *catalog.Catalog) { entries(c)[2].SkipRange = ">=1.1.0 <1.2.0" }, ""},
		"an open range":             {func(c *catalog.Catalog) { entries(c)[2].SkipRange = "<1.2.0" }, "strands nodes of " + operator + ".v1.0.0"},
		"an invalid range":          {func(c *catalog.Catalog) { entries(c)[2].SkipRange = "x" }, "invalid skipRange"},
		"no common kubelet": {compatibility(2, []string{"1.98", "1.99"}, "1.1.0"),
			"entry " + operator + ".v1.2.0 strands nodes of " + operator + ".v1.1.0: that has kubelets for Kubernetes 1.33"},
		"downwards": {func(c *catalog.Catalog) {
			entries(c)[0].Replaces, entries(c)[1].Replaces = operator+".v1.2.0", ""
			compatibility(0, []string{"1.36"}, "1.0.0")(c)
		}, "entry " + operator + ".v1.0.0 is a downgrade: it is older than " + operator + ".v1.2.0"},
		"downgrade by range": {func(c *catalog.Catalog) {
			entries(c)[1].SkipRange = ">=1.0.0 <1.3.0"
			compatibility(1, []string{"1.36"}, "1.0.0")(c)
		}, "entry " + operator + ".v1.1.0 is a downgrade: it is older than " + operator + ".v1.2.0"},
		"no compatibility": {func(c *catalog.Catalog) { c.Bundles[1].Properties = c.Bundles[1].Properties[:4] }, "has no property"},
		"bundle in no channel": {func(c *catalog.Catalog) {
			c.Channels[0].Entries = entries(c)[:2]
		}, "not found in any channel entries"},
		"another channel": {func(c *catalog.Catalog) {
			c.Packages[0].DefaultChannel, c.Channels[0].Name = "fast", "fast"
		}, "with channel stable"},
		"image with a tag": {func(c *catalog.Catalog) { c.Bundles[0].Image = "quay.io/team/wmco-bundle:1" }, "must have its registry and its digest"},
		"name of another version": {func(c *catalog.Catalog) {
			c.Bundles[0].Properties[0] = property.MustBuildPackage(operator, "1.0.1")
		}, "must be named " + operator + ".v1.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := catalog.Decode(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			tc.change(c)
			err = c.Check()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestDuplicateVersionIsRejected(t *testing.T) {
	c := releases(t)
	if err := c.Add(newBundle(t, "1.2.0", "1.1.0"), "quay.io/team/wmco-bundle"+digestOf("1")); err == nil || !strings.Contains(err.Error(), "duplicate entry") {
		t.Errorf("the error is %v", err)
	}
}

// foldersOf returns the folders in the files of an image.
func foldersOf(t *testing.T, content io.ReadCloser) map[string]bool {
	t.Helper()
	defer content.Close()
	folders := map[string]bool{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return folders
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			folders[strings.Trim(header.Name, "/")] = true
		}
	}
}

func TestInvalidCatalogIsRejected(t *testing.T) {
	for text, want := range map[string]string{"": "it must have only package", "{": "reading the catalog"} {
		if _, err := catalog.Decode(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %s", text, err, want)
		}
	}
}
