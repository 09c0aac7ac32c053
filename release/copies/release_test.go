package copies_test

import (
	"errors"
	"net/mail"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/windows-machine-config/wmco/release/archive"
	"github.com/windows-machine-config/wmco/release/artifacts"
	"github.com/windows-machine-config/wmco/release/bundle"
	"github.com/windows-machine-config/wmco/release/catalog"
	"github.com/windows-machine-config/wmco/release/image"
	"github.com/windows-machine-config/wmco/release/image/imagetest"
)

const (
	deploy     = "../../deploy"
	version    = "1.2.0"
	repository = "team/wmco"
)

// built is a release with a small payload.
type built struct {
	source image.Source
	// images are the operator's, the bundle's and the catalog's, by the suffix of their repository name.
	images  map[string]v1.ImageIndex
	bundle  *bundle.Bundle
	catalog *catalog.Catalog
}

func newRelease(t *testing.T) built {
	t.Helper()
	b := built{images: map[string]v1.ImageIndex{}, source: imagetest.NewSource(t)}
	operator, err := image.Build(b.source)
	if err != nil {
		t.Fatal(err)
	}
	b.images[""] = operator
	b.bundle, err = bundle.Build(bundle.Source{
		Deploy: deploy, Version: version, Image: b.reference(t, ""), Created: b.source.Created,
		Maintainer: mail.Address{Name: "Someone", Address: "someone@example.com"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.images["-bundle"], err = b.bundle.Image(b.source); err != nil {
		t.Fatal(err)
	}
	if b.catalog, err = catalog.New(b.bundle, b.reference(t, "-bundle")); err != nil {
		t.Fatal(err)
	}
	if b.images["-catalog"], err = b.catalog.Image(b.source); err != nil {
		t.Fatal(err)
	}
	return b
}

// reference returns the name by which other files of the release refer to an image.
func (b built) reference(t *testing.T, suffix string) string {
	t.Helper()
	digest, err := b.images[suffix].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return "registry.example.com/" + repository + suffix + "@" + digest.String()
}

// write writes the files of the release, as make release does, and unpacks those for OLM.
func (b built) write(t *testing.T) (dir string) {
	t.Helper()
	from := t.TempDir()
	s := artifacts.Source{
		Version: version, Layout: filepath.Join(from, "image"), Repository: "registry.example.com/" + repository, OLM: filepath.Join(from, "olm"),
		Plugin: filepath.Join(from, "plugin"), Deploy: deploy, Changelog: filepath.Join(from, "CHANGELOG.md"),
	}
	files, err := b.bundle.Files()
	if err != nil {
		t.Fatal(err)
	}
	text, err := b.catalog.Encode()
	err = errors.Join(err,
		image.Write(s.Layout, b.source, b.images[""]), image.Write(filepath.Join(s.OLM, "bundle-image"), b.source, b.images["-bundle"]),
		image.Write(filepath.Join(s.OLM, "catalog-image"), b.source, b.images["-catalog"]), archive.WriteFolder(filepath.Join(s.OLM, "bundle"), files),
		archive.WriteFolder(filepath.Join(s.OLM, "catalog"), map[string][]byte{"catalog.yaml": text}),
		archive.WriteFolder(s.Plugin, map[string][]byte{"windows.yaml": nil, "kubectl-windows-" + version + "-linux-amd64.tar.gz": nil}),
		os.WriteFile(s.Layout+".cdx.json", []byte(`{"metadata": {"component": {"version": "`+version+`"}}}`), 0o600),
		os.WriteFile(s.Changelog, []byte("# Changelog\n\n## Unreleased\n\n## "+version+"\n- All.\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "release")
	if _, err := artifacts.Write(dir, s); err != nil {
		t.Fatal(err)
	}
	unpack(t, filepath.Join(dir, "wmco-"+version+"-olm.tar.gz"))
	return dir
}
