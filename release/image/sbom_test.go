package image_test

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/windows-machine-config/wmco/payload"
	payloadbuild "github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/release/image"
	"github.com/windows-machine-config/wmco/release/image/imagetest"
)

// withModules returns a source with real programs: the operator and two programs of the payload are the command of this folder, one is
// the program for Windows that unpacks WICD, and one was not built with Go.
func withModules(t *testing.T) image.Source {
	t.Helper()
	s := imagetest.NewSource(t)
	path := build(t, ".", "./cmd", "linux")
	s.Operators = map[string]string{"amd64": path}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	setup, err := os.ReadFile(build(t, "../..", "./cmd/wicd-setup", "windows"))
	if err != nil {
		t.Fatal(err)
	}
	s.Payload = t.TempDir()
	file := func(path, dictionary string, content []byte) payloadbuild.Content {
		component := strings.TrimSuffix(filepath.Base(path), ".exe")
		return payloadbuild.Content{
			Path: path, Component: component, Version: "v1.0.0", License: "MIT", Group: payload.Base, Dictionary: dictionary, Open: payloadbuild.Bytes(content),
		}
	}
	_, err = payloadbuild.Write(t.Context(), s.Payload, payloadbuild.Set{Fast: true, Stub: payloadbuild.Bytes(setup), Files: []payloadbuild.Content{
		file("kubelet.exe", "containerd/containerd.exe", append(program, 0)), file("containerd/containerd.exe", "", program),
		file("other.exe", "", []byte("MZ, by another compiler")), file(payload.WICD, "", setup),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func build(t *testing.T, dir, what, system string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", path, what)
	command.Dir, command.Env = dir, append(os.Environ(), "GOOS="+system)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func mustSBOM(t *testing.T, s image.Source, index v1.ImageIndex) v1.Image {
	t.Helper()
	text, err := s.SBOM()
	if err != nil {
		t.Fatal(err)
	}
	sbom, err := image.SBOMReferrer(index, text)
	if err != nil {
		t.Fatal(err)
	}
	return sbom
}

func TestSBOMListsModulesAndPrograms(t *testing.T) {
	s := withModules(t)
	index := mustBuild(t, imagetest.NewSource(t)) // any index will do
	sbom := mustSBOM(t, s, index)
	if err := validate.Image(sbom); err != nil {
		t.Error(err)
	}
	manifest, err := sbom.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Subject == nil || manifest.Subject.Digest != digest(t, index) || manifest.Config.MediaType != "application/vnd.cyclonedx+json" {
		t.Errorf("the manifest is %+v", manifest)
	}
	bom := decode(t, sbom)
	if bom.BOMFormat != "CycloneDX" {
		t.Errorf("the format is %q", bom.BOMFormat)
	}
	const own, ofWMCO = "pkg:golang/github.com/windows-machine-config/wmco/release@v1.0.0", "pkg:golang/github.com/windows-machine-config/wmco@v1.0.0"
	for name, want := range map[string]struct{ url, module string }{
		"wmco":                           {"pkg:golang/github.com/windows-machine-config/wmco/release@v1.2.0", "pkg:golang/github.com/google/go-containerregistry@v"},
		"kubelet":                        {own, "pkg:golang/github.com/google/go-containerregistry@v"},
		"containerd":                     {own, "pkg:golang/github.com/docker/cli@v29"}, // the version has +incompatible
		"wicd-setup":                     {ofWMCO, "pkg:golang/github.com/klauspost/compress@v"},
		"windows-instance-config-daemon": {ofWMCO, "pkg:golang/stdlib@1."},
		"other":                          {"", ""},
	} {
		i := slices.IndexFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == name })
		if i < 0 {
			t.Errorf("component %s is missing", name)
			continue
		}
		checkProgram(t, (*bom.Components)[i], want.url, want.module)
	}
	if all := bom.Compositions; all == nil || len(*all) != 1 || (*all)[0].Aggregate != "unknown" || !slices.Equal(*(*all)[0].Assemblies, []cyclonedx.BOMReference{"base/other.exe"}) {
		t.Errorf("the programs with unknown modules are %+v", all)
	}
	checkReferences(t, bom)
	a, errA := sbom.Digest()
	b, errB := mustSBOM(t, s, index).Digest()
	if errA != nil || errB != nil || a != b {
		t.Errorf("two builds of the same source have digests %s and %s (%v, %v)", a, b, errA, errB)
	}
}

// checkProgram checks the URL of a program, and that it has a module whose URL ends with the escaped version.
func checkProgram(t *testing.T, c cyclonedx.Component, url, module string) {
	t.Helper()
	if c.PackageURL != url || c.Version == "" {
		t.Errorf("%s is %s in version %q, want %s", c.Name, c.PackageURL, c.Version, url)
	}
	if module == "" {
		if c.Components != nil {
			t.Errorf("%s has modules: %+v", c.Name, c.Components)
		}
		return
	}
	if c.Components == nil || !slices.ContainsFunc(*c.Components, func(m cyclonedx.Component) bool {
		return strings.HasPrefix(m.PackageURL, module) && strings.HasSuffix(m.PackageURL, strings.ReplaceAll(strings.TrimPrefix(m.Version, "go"), "+", "%2B"))
	}) {
		t.Errorf("%s has no module %s with its version: %+v", c.Name, module, c.Components)
	}
}

// checkReferences checks that no two components have the same reference.
func checkReferences(t *testing.T, bom cyclonedx.BOM) {
	t.Helper()
	seen := map[string]bool{bom.Metadata.Component.BOMRef: true}
	var check func(all []cyclonedx.Component)
	check = func(all []cyclonedx.Component) {
		for _, c := range all {
			if c.BOMRef == "" || seen[c.BOMRef] {
				t.Errorf("two components are %q", c.BOMRef)
			}
			seen[c.BOMRef] = true
			if c.Components != nil {
				check(*c.Components)
			}
		}
	}
	check(*bom.Components)
}

// decode reads the content of an artifact.
func decode(t *testing.T, sbom v1.Image) (bom cyclonedx.BOM) {
	t.Helper()
	layers, err := sbom.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if err := cyclonedx.NewBOMDecoder(content, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	return bom
}

func TestSBOMRejectsAlteredProgram(t *testing.T) {
	s := withModules(t)
	p, err := payload.Open(s.Payload)
	if err != nil {
		t.Fatal(err)
	}
	f := p.Manifest.Files[0]
	overwrite(t, filepath.Join(s.Payload, payload.BlobName(f.SHA256)), strings.Repeat("x", int(f.Compressed.Size)))
	if _, err := s.SBOM(); err == nil || !strings.Contains(err.Error(), "content of "+f.Path) {
		t.Errorf("the error is %v", err)
	}
}

// TestRegistryListsSBOM pushes to a registry with the referrers API.
func TestRegistryListsSBOM(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	index := mustBuild(t, imagetest.NewSource(t))
	sbom := mustSBOM(t, withModules(t), index)
	repository := strings.TrimPrefix(server.URL, "http://") + "/team/wmco"
	pushed, err := image.Push(t.Context(), repository+":1.2.0", true, index, sbom)
	if err != nil || pushed != repository+"@"+digest(t, index).String() {
		t.Fatalf("pushed to %s (%v)", pushed, err)
	}
	reference, err := name.NewDigest(pushed, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Error(err)
	}
	referrers, err := remote.Referrers(reference)
	if err != nil {
		t.Fatal(err)
	}
	list, err := referrers.IndexManifest()
	want, errWant := sbom.Digest()
	if err != nil || errWant != nil || len(list.Manifests) != 1 || list.Manifests[0].Digest != want {
		t.Errorf("referrers are %+v, want %s (%v, %v)", list, want, err, errWant)
	}
}
