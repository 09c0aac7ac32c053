package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"
)

// Write writes a chart into a folder, as Helm reads it from one: its files below a folder with its name, which is replaced. Beside it comes
// the archive that "helm push" takes. It returns the path of the archive.
func Write(dir string, s Source) (archive string, err error) {
	files, err := Files(s)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(dir, Name)
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	for _, name := range names(files) {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return "", err
		}
	}
	packed, err := pack(files)
	if err != nil {
		return "", fmt.Errorf("packing the chart: %w", err)
	}
	archive = filepath.Join(dir, fmt.Sprintf("%s-%s.tgz", Name, s.Version))
	return archive, os.WriteFile(archive, packed, 0o644)
}

// pack is the archive of a chart. The same files give the same archive.
func pack(files map[string][]byte) ([]byte, error) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	order := names(files)
	for i, name := range order { // Helm wants Chart.yaml first
		if name == "Chart.yaml" {
			order = append([]string{name}, append(order[:i:i], order[i+1:]...)...)
		}
	}
	for _, name := range order {
		header := &tar.Header{Name: path.Join(Name, name), Mode: 0o644, Size: int64(len(files[name])), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
