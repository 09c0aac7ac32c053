package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/windows-machine-config/wmco/payload"
)

// Names in the image.
const (
	operatorName    = "wmco"
	payloadFolder   = "payload"
	certificatesPEM = "etc/ssl/certs/ca-certificates.crt" // where Go looks on Linux (crypto/x509/root_linux.go)
	passwd          = "etc/passwd"
)

// file is a file of a layer.
type file struct {
	// path is the file with the content; if empty, content has it.
	path    string
	content []byte
	// mode has the permissions; no file is writable.
	mode int64
}

// commonLayers returns the layers that the images of all platforms share.
func commonLayers(s Source, p *payload.Payload) ([]v1.Layer, error) {
	programs := map[string]file{payloadFolder + "/" + payload.ManifestName: {path: filepath.Join(s.Payload, payload.ManifestName), mode: 0o444}}
	for _, f := range p.Manifest.Files {
		name := payload.BlobName(f.SHA256)
		programs[path.Join(payloadFolder, filepath.ToSlash(name))] = file{path: filepath.Join(s.Payload, name), mode: 0o444}
	}
	if setup := p.Manifest.Setup.Path; setup != "" {
		programs[path.Join(payloadFolder, setup)] = file{path: filepath.Join(s.Payload, setup), mode: 0o444}
	}
	base := map[string]file{
		certificatesPEM: {content: authorities(), mode: 0o444},
		// The kubelet passes only the user; the group comes from this file.
		passwd: {content: []byte("wmco:x:" + userID + ":" + userID + ":Windows Machine Config Operator:/:/sbin/nologin\n"), mode: 0o444},
	}
	first, err := layer(programs, gzip.NoCompression) // the content is compressed already
	if err != nil {
		return nil, err
	}
	second, err := layer(base, gzip.BestCompression)
	return []v1.Layer{first, second}, err
}

// operatorLayer returns the layer with the executable. It rejects an executable for another platform.
func (s Source) operatorLayer(platform v1.Platform) (v1.Layer, error) {
	name := s.Operators[platform.Architecture]
	program, err := elf.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the operator %s: %w", name, err)
	}
	defer program.Close()
	if want := machines()[platform.Architecture]; program.Machine != want {
		return nil, fmt.Errorf("the operator %s is for %s, want %s", name, program.Machine, want)
	}
	if _, err := program.DynamicSymbols(); err == nil {
		return nil, fmt.Errorf("the operator %s needs shared libraries, which the image does not have; build it with CGO_ENABLED=0", name)
	}
	return layer(map[string]file{operatorName: {path: name, mode: 0o555}}, gzip.DefaultCompression)
}

// machines returns the supported architectures of control plane nodes.
func machines() map[string]elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
}

// authorities returns the certificates of public authorities in PEM format.
func authorities() []byte {
	var all []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a file cannot express constraints
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return all
}

// layer returns a layer with files, which are read again whenever the layer is read.
func layer(files map[string]file, level int) (v1.Layer, error) {
	open := func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(writeTar(w, files)) }()
		return r, nil
	}
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(level), tarball.WithMediaType(types.OCILayer))
}

// writeTar writes files and their parent folders in the order of their names. They belong to root and have no time.
func writeTar(w io.Writer, files map[string]file) error {
	archive := tar.NewWriter(w)
	folders := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeFolders(archive, path.Dir(name), folders); err != nil {
			return err
		}
		if err := files[name].write(archive, name); err != nil {
			return fmt.Errorf("adding %s: %w", name, err)
		}
	}
	return archive.Close()
}

// folderMode lets the owner write: a user other than root that unpacks a layer owns the folders and can delete their content. OLM does this
// with a catalog that it unpacked before.
const folderMode = 0o755

func writeFolders(archive *tar.Writer, name string, written map[string]bool) error {
	if written[name] {
		return nil
	}
	if err := writeFolders(archive, path.Dir(name), written); err != nil {
		return err
	}
	written[name] = true
	return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: folderMode, Format: tar.FormatUSTAR})
}

func (f file) write(archive *tar.Writer, name string) error {
	content, size := io.Reader(bytes.NewReader(f.content)), int64(len(f.content))
	if f.path != "" {
		source, err := os.Open(f.path)
		if err != nil {
			return err
		}
		defer source.Close()
		info, err := source.Stat()
		if err != nil {
			return err
		}
		content, size = source, info.Size()
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: f.mode, Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}
