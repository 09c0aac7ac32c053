// Package artifacts writes the files of a release into a folder: the image, its software bill of materials, the Helm chart, the manifests,
// what the Operator Lifecycle Manager installs, kubectl windows, the notes, and the checksums of all. Each names the image by its digest.
package artifacts

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/release/archive"
	"github.com/windows-machine-config/wmco/release/chart"
)

// Source describes the input of a release.
type Source struct {
	// Version is the semantic version without v.
	Version string
	// Layout is the folder of the image, as make image wrote it. Repository is where the image is published, without tag.
	Layout, Repository string
	// OLM is the folder with bundle, catalog and their images, as make catalog wrote it.
	OLM string
	// Plugin is the folder with the archives of kubectl windows, as make plugin wrote them.
	Plugin string
	// Deploy is the folder deploy/, Changelog the path of CHANGELOG.md.
	Deploy, Changelog string
}

// Checksums is the name of the file with the SHA-256 of every other file, in the format of sha256sum.
const Checksums = "SHA256SUMS"

// release is a release that is being written.
type release struct {
	Source
	dir   string
	image layoutImage
	files []string // names in dir
}

// Write writes all files into dir, which is replaced, and returns their names in order.
func Write(dir string, s Source) (names []string, err error) {
	r := &release{Source: s, dir: dir}
	if r.image, err = readLayout(s.Layout, s.Version); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, write := range []func() error{r.writeNotes, r.writeManifests, r.writeChart, r.writeOLM, r.writePlugin, r.writeSBOM, r.writeImage} {
		if err := write(); err != nil {
			return nil, err
		}
	}
	slices.Sort(r.files)
	return append(r.files, Checksums), r.writeChecksums()
}

// reference returns the image by tag and digest.
func (r *release) reference() string {
	return fmt.Sprintf("%s:v%s@%s", r.Repository, r.Version, r.image.digest)
}

// add writes one file.
func (r *release) add(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	r.files = append(r.files, name)
	return nil
}

func (r *release) addBytes(name string, content []byte) error {
	return r.add(name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

func (r *release) writeNotes() error {
	changelog, err := os.ReadFile(r.Changelog)
	if err != nil {
		return err
	}
	notes, err := Notes(string(changelog), r.Version)
	if err != nil {
		return err
	}
	return r.addBytes("release-notes.md", []byte(notes))
}

func (r *release) writeChart() error {
	source := chart.Source{Deploy: r.Deploy, Version: r.Version, Image: r.reference()}
	files, err := chart.Files(source)
	if err != nil {
		return err
	}
	packed, err := chart.Pack(files)
	if err != nil {
		return err
	}
	return r.addBytes(chart.ArchiveName(source), packed)
}

func (r *release) writeSBOM() error {
	return r.addBytes("wmco-"+r.Version+".cdx.json", r.image.sbom)
}

// writeManifests packs the manifests for kubectl apply -k.
func (r *release) writeManifests() error {
	var files []archive.File
	err := filepath.WalkDir(r.Deploy, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".yaml") {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(r.Deploy, name)
		if err == nil && below == "kustomization.yaml" {
			content, err = r.pinned(content)
		}
		files = append(files, archive.Bytes(path.Join("wmco-"+r.Version, "deploy", filepath.ToSlash(below)), content))
		return err
	})
	if err != nil {
		return fmt.Errorf("packing the manifests: %w", err)
	}
	return r.add("wmco-"+r.Version+"-manifests.tar.gz", func(w io.Writer) error { return archive.WriteGzip(w, files) })
}

// pinned returns the kustomization with the image named by its digest.
func (r *release) pinned(kustomization []byte) ([]byte, error) {
	tag := regexp.MustCompile(`(?m)^  newTag: .*$`)
	if n := len(tag.FindAll(kustomization, -1)); n != 1 {
		return nil, fmt.Errorf("kustomization.yaml has %d lines with newTag, want one for the operator's image", n)
	}
	return tag.ReplaceAll(kustomization, fmt.Appendf(nil, "  newName: %s\n  digest: %s", r.Repository, r.image.digest)), nil
}

// writeOLM packs bundle and catalog, which must name this image.
func (r *release) writeOLM() error {
	csv, err := filepath.Glob(filepath.Join(r.OLM, "bundle", "manifests", "*.clusterserviceversion.yaml"))
	if err == nil && len(csv) != 1 {
		err = fmt.Errorf("folder %s has no bundle; run make catalog", r.OLM)
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(csv[0])
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte(r.Repository+"@"+r.image.digest)) {
		return fmt.Errorf("the bundle in %s is not of image %s@%s; run make catalog", r.OLM, r.Repository, r.image.digest)
	}
	files, err := filesOf(r.OLM, "wmco-"+r.Version+"-olm")
	if err != nil {
		return fmt.Errorf("packing bundle and catalog: %w", err)
	}
	return r.add("wmco-"+r.Version+"-olm.tar.gz", func(w io.Writer) error { return archive.WriteGzip(w, files) })
}

// writePlugin copies the archives of kubectl windows, which must have this version, and krew's manifest.
func (r *release) writePlugin() error {
	names, err := filepath.Glob(filepath.Join(r.Plugin, "kubectl-windows-"+r.Version+"-*.tar.gz"))
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("folder %s has no archives of kubectl windows %s; run make plugin", r.Plugin, r.Version)
	}
	if err != nil {
		return err
	}
	for _, name := range append(names, filepath.Join(r.Plugin, "windows.yaml")) {
		content, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading kubectl windows; run make plugin: %w", err)
		}
		if err := r.addBytes(filepath.Base(name), content); err != nil {
			return err
		}
	}
	return nil
}

// writeImage packs the layout, for "skopeo copy oci-archive:".
func (r *release) writeImage() error {
	files, err := filesOf(r.Layout, "")
	if err != nil {
		return fmt.Errorf("packing the image: %w", err)
	}
	return r.add("wmco-"+r.Version+"-image.tar", func(w io.Writer) error { return archive.Write(w, files) })
}

// filesOf returns all files of a folder in the order of their names, below another name in the archive.
func filesOf(folder, below string) (files []archive.File, err error) {
	err = filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files = append(files, archive.File{
			Name: path.Join(below, filepath.ToSlash(relative)), Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(name) },
		})
		return nil
	})
	return files, err
}

func (r *release) writeChecksums() error {
	var list strings.Builder
	for _, name := range r.files {
		f, err := os.Open(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		fmt.Fprintf(&list, "%x  %s\n", sum.Sum(nil), name)
	}
	return os.WriteFile(filepath.Join(r.dir, Checksums), []byte(list.String()), 0o644)
}
