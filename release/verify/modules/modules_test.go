// Package modules_test compares the software bill of materials with the modules that syft finds in the programs. It is a separate package
// because syft takes minutes to compile.
package modules_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/anchore/syft/syft/format/cyclonedxjson"
	"github.com/anchore/syft/syft/pkg/cataloger/golang"
	"github.com/anchore/syft/syft/source"
	"github.com/anchore/syft/syft/source/directorysource"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/payload/compress"
	"github.com/windows-machine-config/wmco/release/image"
)

const root = "../../.."

// TestSyftFindsTheSameModules checks each program of the whole payload.
func TestSyftFindsTheSameModules(t *testing.T) {
	dir := t.TempDir()
	if _, err := build.Build(t.Context(), build.Options{Components: build.Components(), Root: root, Out: dir, Version: "v1.2.0", Log: os.Stdout}); err != nil {
		t.Fatal(err)
	}
	p, err := payload.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := bom(t, dir)
	var listed cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&listed); err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	unpack(t, p, programs)
	found := catalog(t, programs)
	compared := 0
	for _, c := range *listed.Components {
		if c.BOMRef == "wmco" {
			continue
		}
		compared++
		var urls []string
		for _, m := range *c.Components {
			urls = append(urls, m.PackageURL)
		}
		compare(t, c.BOMRef, append(urls, c.PackageURL), found["/"+c.BOMRef])
	}
	if compared != len(found) || compared != len(p.Manifest.Files)+1 {
		t.Errorf("there are %d programs, syft knows %d, the payload has %d", compared, len(found), len(p.Manifest.Files)+1)
	}
	checkDecoded(t, text, listed)
}

// compare compares package URLs. Programs of this repository have the version of the release, which syft cannot know.
func compare(t *testing.T, program string, listed, found []string) {
	t.Helper()
	normalize := func(url string) string {
		if strings.HasPrefix(url, "pkg:golang/github.com/windows-machine-config/wmco") {
			url, _, _ = strings.Cut(url, "@")
		}
		return url
	}
	var sets [2][]string
	for i, urls := range [][]string{listed, found} {
		for _, url := range urls {
			sets[i] = append(sets[i], normalize(url))
		}
		slices.Sort(sets[i])
		sets[i] = slices.Compact(sets[i])
	}
	for _, url := range sets[1] {
		if !slices.Contains(sets[0], url) {
			t.Errorf("%s: syft finds %s, which is not listed", program, url)
		}
	}
	for _, url := range sets[0] {
		if !slices.Contains(sets[1], url) {
			t.Errorf("%s: %s is listed, but syft does not find it", program, url)
		}
	}
	t.Logf("%s: %d modules", program, len(sets[0]))
}

// bom returns the software bill of materials of an image with this payload.
func bom(t *testing.T, dir string) []byte {
	t.Helper()
	operator := filepath.Join(t.TempDir(), "wmco")
	command := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", operator, "./cmd/wmco")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := image.Source{Payload: dir, Operators: map[string]string{"amd64": operator}, Version: "1.2.0", Created: time.Unix(0, 0)}
	text, err := s.SBOM()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unpack writes the programs as they are on hosts.
func unpack(t *testing.T, p *payload.Payload, to string) {
	t.Helper()
	write := func(f payload.File, content []byte) {
		name := filepath.Join(to, f.Group, f.Path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dictionaries := map[string]compress.Dictionary{"": {}}
	for _, f := range p.Manifest.Order() {
		blob, err := p.Blob(f)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := io.ReadAll(blob)
		if err != nil {
			t.Fatal(err)
		}
		if err := blob.Close(); err != nil {
			t.Fatal(err)
		}
		content, err := compress.Decompress(frame, f.Size, dictionaries[f.Dictionary])
		if err != nil {
			t.Fatal(err)
		}
		write(f, content)
		dictionaries[f.SHA256] = compress.NewDictionary(content)
	}
	setup, err := p.Setup()
	if err != nil {
		t.Fatal(err)
	}
	defer setup.Close()
	content, err := io.ReadAll(setup)
	if err != nil {
		t.Fatal(err)
	}
	write(p.Manifest.Setup, content)
}

// catalog returns the package URLs that syft finds, by the path of the program.
func catalog(t *testing.T, dir string) map[string][]string {
	t.Helper()
	from, err := directorysource.NewFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	resolver, err := from.FileResolver(source.SquashedScope)
	if err != nil {
		t.Fatal(err)
	}
	// The error reports for each program that its cryptographic settings cannot be read, because it has no symbols. The test itself
	// reports programs without packages.
	packages, _, err := golang.NewGoModuleBinaryCataloger(golang.CatalogerConfig{}).Catalog(t.Context(), resolver)
	t.Logf("syft: %v", err)
	found := map[string][]string{}
	for _, p := range packages {
		for _, location := range p.Locations.ToSlice() {
			path := "/" + strings.TrimPrefix(location.RealPath, "/")
			found[path] = append(found[path], p.PURL)
		}
	}
	return found
}

// checkDecoded decodes the list with syft, as vulnerability scanners do. Modules within programs must not be lost.
func checkDecoded(t *testing.T, text []byte, listed cyclonedx.BOM) {
	t.Helper()
	decoded, _, _, err := cyclonedxjson.NewFormatDecoder().Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for p := range decoded.Artifacts.Packages.Enumerate() {
		known[p.PURL] = true
	}
	for _, c := range *listed.Components {
		for _, m := range *c.Components {
			if !known[m.PackageURL] {
				t.Errorf("%s: syft does not read %s", c.BOMRef, m.PackageURL)
			}
		}
	}
}
