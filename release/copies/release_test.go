package copies_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/mail"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/release/archive"
	"github.com/windows-machine-config/wmco/release/artifacts"
	"github.com/windows-machine-config/wmco/release/bundle"
	"github.com/windows-machine-config/wmco/release/catalog"
	"github.com/windows-machine-config/wmco/release/image"
)

const (
	deploy     = "../../deploy"
	version    = "1.2.0"
	repository = "team/wmco"
)

// built is a release with a small payload.
type built struct {
	source image.Source
	// images are the operator's, the bundle's and the catalog's, by the end of the name of their repositories.
	images  map[string]v1.ImageIndex
	bundle  *bundle.Bundle
	catalog *catalog.Catalog
}

func newRelease(t *testing.T) built {
	t.Helper()
	b := built{images: map[string]v1.ImageIndex{}, source: image.Source{
		Payload: newPayload(t), Operators: map[string]string{"amd64": program(t, elf.EM_X86_64), "arm64": program(t, elf.EM_AARCH64)},
		Version: version, Revision: "0123abc", Created: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC),
	}}
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

// reference is the name by which others of the release know an image.
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

// newPayload has one file.
func newPayload(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	const content, compressed = "kubelet", "compressed kubelet"
	sum := sumOf(content)
	text, err := payload.New([]payload.File{{
		Path: "kubelet.exe", Component: "kubelet", Version: "v1.0.0", Group: payload.Base, SHA256: sum, Size: int64(len(content)),
		Compressed: payload.Blob{SHA256: sumOf(compressed), Size: int64(len(compressed))},
	}}, nil, payload.File{}).Encode()
	blob := filepath.Join(dir, payload.BlobName(sum))
	err = errors.Join(err, os.MkdirAll(filepath.Dir(blob), 0o755), os.WriteFile(blob, []byte(compressed), 0o600),
		os.WriteFile(filepath.Join(dir, payload.ManifestName), text, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// program is the header of an executable, which is all that a build looks into.
func program(t *testing.T, machine elf.Machine) string {
	t.Helper()
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56, Shentsize: 64,
	}
	var b bytes.Buffer
	name := filepath.Join(t.TempDir(), "wmco")
	if err := errors.Join(binary.Write(&b, binary.LittleEndian, header), os.WriteFile(name, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return name
}
