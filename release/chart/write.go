package chart

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/windows-machine-config/wmco/release/archive"
)

// Write writes a chart into a folder, where Helm can read it: its files in a subfolder with its name, which is replaced, and next to it the
// archive for "helm push". It returns the path of the archive.
func Write(dir string, s Source) (packed string, err error) {
	files, err := Files(s)
	if err != nil {
		return "", err
	}
	if err := archive.WriteFolder(filepath.Join(dir, Name), files); err != nil {
		return "", err
	}
	content, err := Pack(files)
	if err != nil {
		return "", err
	}
	packed = filepath.Join(dir, ArchiveName(s))
	return packed, os.WriteFile(packed, content, 0o644)
}

// ArchiveName returns the name of a chart's archive, as "helm package" would choose it.
func ArchiveName(s Source) string { return fmt.Sprintf("%s-%s.tgz", Name, s.Version) }

// Pack returns the archive of a chart's files. The same files give the same archive.
func Pack(files map[string][]byte) ([]byte, error) {
	list := []archive.File{archive.Bytes(path.Join(Name, about), files[about])} // Helm reads it first
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != about {
			list = append(list, archive.Bytes(path.Join(Name, name), files[name]))
		}
	}
	var packed bytes.Buffer
	if err := archive.WriteGzip(&packed, list); err != nil {
		return nil, fmt.Errorf("packing the chart: %w", err)
	}
	return packed.Bytes(), nil
}

// about is the file that describes the chart.
const about = "Chart.yaml"
