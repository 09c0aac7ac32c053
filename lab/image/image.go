// Package image creates container images with a few files. They can be pulled, unpacked and started in the lab. Images for Windows
// do not contain files of Windows.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// Image is an OCI image with one manifest.
type Image struct {
	// Manifest is the manifest, whose hash is the digest.
	Manifest []byte
	// ID is the digest of the configuration, which container runtimes use as ID.
	ID digest.Digest
	// Blobs are the configuration and the layers, by digest.
	Blobs map[digest.Digest][]byte
}

// Digest returns the digest of the image.
func (i Image) Digest() digest.Digest { return digest.FromBytes(i.Manifest) }

// NewProgram creates an image with one layer that runs a program. stopSignal is a signal such as SIGHUP, or "" for the
// runtime's default, SIGTERM.
func NewProgram(osVersion, entrypoint, stopSignal string, files map[string]string) (Image, error) {
	return NewWindows(osVersion, v1.ImageConfig{Entrypoint: []string{entrypoint}, StopSignal: stopSignal, WorkingDir: `C:\`}, files)
}

// New creates an image for a version of Windows, such as 10.0.20348.1. It has a layer for each map of files, from the path on
// drive C:, with slashes, to the content. The first layer is the base layer. It also has empty registry hives, and the empty
// folder from which utility VMs start.
func New(osVersion string, layers ...map[string]string) (Image, error) {
	return NewWindows(osVersion, v1.ImageConfig{}, layers...)
}

// NewLinux creates an image for Linux that only contains a program, /program.
func NewLinux(architecture string, program []byte) (Image, error) {
	return NewLinuxPrograms(architecture, v1.ImageConfig{Entrypoint: []string{"/program"}}, map[string][]byte{"program": program})
}

// NewLinuxPrograms creates an image for Linux that only contains programs, by path, with configuration run.
func NewLinuxPrograms(architecture string, run v1.ImageConfig, programs map[string][]byte) (Image, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(programs[name])), Mode: 0o755, Format: tar.FormatPAX}
		err := w.WriteHeader(header)
		if err == nil {
			_, err = w.Write(programs[name])
		}
		if err != nil {
			return Image{}, fmt.Errorf("creating the layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return Image{}, fmt.Errorf("creating the layer: %w", err)
	}
	return newImage(v1.Platform{Architecture: architecture, OS: "linux"}, run, b.Bytes())
}

// NewWindows is like New, with configuration run.
func NewWindows(osVersion string, run v1.ImageConfig, layers ...map[string]string) (Image, error) {
	var all [][]byte
	for n, files := range layers {
		plain, err := layer(files, n == 0)
		if err != nil {
			return Image{}, fmt.Errorf("creating layer %d: %w", n, err)
		}
		all = append(all, plain)
	}
	return newImage(v1.Platform{Architecture: "amd64", OS: "windows", OSVersion: osVersion}, run, all...)
}

func newImage(platform v1.Platform, run v1.ImageConfig, layers ...[]byte) (Image, error) {
	i := Image{Blobs: map[digest.Digest][]byte{}}
	config := v1.Image{Platform: platform, Config: run, RootFS: v1.RootFS{Type: "layers"}}
	manifest := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest}
	for n, plain := range layers {
		packed, err := compress(plain)
		if err != nil {
			return Image{}, fmt.Errorf("creating layer %d: %w", n, err)
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(plain))
		config.History = append(config.History, v1.History{CreatedBy: "lab"})
		manifest.Layers = append(manifest.Layers, i.add(v1.MediaTypeImageLayerGzip, packed))
	}
	text, err := json.Marshal(config)
	if err != nil {
		return Image{}, fmt.Errorf("encoding the configuration: %w", err)
	}
	manifest.Config = i.add(v1.MediaTypeImageConfig, text)
	i.ID = manifest.Config.Digest
	if i.Manifest, err = json.Marshal(manifest); err != nil {
		return Image{}, fmt.Errorf("encoding the manifest: %w", err)
	}
	return i, nil
}

func (i Image) add(mediaType string, content []byte) v1.Descriptor {
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	i.Blobs[d.Digest] = content
	return d
}

// layer returns files as a Windows layer: in folder Files, and with folders before their content. In the base layer, a file
// with the same content as another is a hard link, because some images have a program under many names.
func layer(files map[string]string, base bool) ([]byte, error) {
	content := map[string]string{}
	for name, text := range files {
		content[path.Join("Files", name)] = text
	}
	folders := map[string]bool{"Files": true, "Hives": true}
	if base {
		folders["UtilityVM"], folders["UtilityVM/Files"] = true, true
		for _, hive := range []string{"DEFAULT", "SAM", "SECURITY", "SOFTWARE", "SYSTEM"} {
			content[path.Join("Files/Windows/System32/config", hive)] = ""
		}
	}
	for name := range content {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, Format: tar.FormatPAX}); err != nil {
			return nil, err
		}
	}
	written := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		text := content[name]
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644, Format: tar.FormatPAX}
		if target, found := written[text]; found && base && text != "" {
			header.Typeflag, header.Linkname, header.Size, text = tar.TypeLink, target, 0, ""
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return nil, err
		}
		written[content[name]] = name
	}
	err := w.Close()
	return b.Bytes(), err
}

func compress(plain []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}
