// Package plugin packs kubectl windows: an archive for each platform, and the manifest with which krew, the package manager
// for kubectl plugins, installs it from the project's own index.
package plugin

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/release/archive"
)

// Name is the name of the plugin, as in kubectl windows.
const Name = "windows"

// Manifest is the name of krew's manifest, which must match the plugin's name.
const Manifest = Name + ".yaml"

// Source describes the input of the archives.
type Source struct {
	// Version is the semantic version without v.
	Version string
	// Programs is the folder with <os>-<arch>/kubectl-windows, as make plugin builds them. License is the path of LICENSE.
	Programs, License string
	// Downloads is the URL of the folder in which the archives are published.
	Downloads string
}

// Platform is an operating system and an architecture, as Go names them.
type Platform struct{ OS, Arch string }

// Platforms returns all platforms that the plugin is built for.
func Platforms() []Platform {
	return []Platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}
}

// program returns the name of the program on a platform.
func (p Platform) program() string {
	if p.OS == "windows" {
		return "kubectl-" + Name + ".exe"
	}
	return "kubectl-" + Name
}

// archiveName returns the name of a platform's archive.
func (s Source) archiveName(p Platform) string {
	return fmt.Sprintf("kubectl-%s-%s-%s-%s.tar.gz", Name, s.Version, p.OS, p.Arch)
}

// completion is the script that kubectl calls to complete a command line of the plugin, if it is in PATH (kubectl
// completion --help).
const completion = "#!/bin/sh\nexec kubectl " + Name + " __complete \"$@\"\n"

// Files returns the archives and the manifest, by name.
func Files(s Source) (map[string][]byte, error) {
	files := map[string][]byte{}
	license, err := os.ReadFile(s.License)
	if err != nil {
		return nil, fmt.Errorf("packing the license: %w", err)
	}
	var platforms []any
	for _, p := range Platforms() {
		program, err := os.ReadFile(filepath.Join(s.Programs, p.OS+"-"+p.Arch, p.program()))
		if err != nil {
			return nil, fmt.Errorf("packing the program for %s on %s; run make plugin: %w", p.OS, p.Arch, err)
		}
		packed, err := pack(p, program, license)
		if err != nil {
			return nil, err
		}
		name := s.archiveName(p)
		files[name] = packed
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]string{"os": p.OS, "arch": p.Arch}},
			"uri":      strings.TrimSuffix(s.Downloads, "/") + "/" + name, "sha256": fmt.Sprintf("%x", sha256.Sum256(packed)), "bin": p.program(),
		})
	}
	if files[Manifest], err = yaml.Marshal(manifest(s.Version, platforms)); err != nil {
		return nil, fmt.Errorf("writing krew's manifest: %w", err)
	}
	return files, nil
}

// pack returns the archive of a platform. The same files give the same bytes.
func pack(p Platform, program, license []byte) ([]byte, error) {
	files := []archive.File{archive.Executable(p.program(), program), archive.Bytes("LICENSE", license)}
	if p.OS != "windows" {
		files = append(files, archive.Executable("kubectl_complete-"+Name, []byte(completion)))
	}
	var packed bytes.Buffer
	if err := archive.WriteGzip(&packed, files); err != nil {
		return nil, fmt.Errorf("packing the program for %s on %s: %w", p.OS, p.Arch, err)
	}
	return packed.Bytes(), nil
}

// manifest returns a plugin of krew (sigs.k8s.io/krew, pkg/index/types.go).
func manifest(version string, platforms []any) map[string]any {
	return map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin", "metadata": map[string]any{"name": Name},
		"spec": map[string]any{
			"version": "v" + version, "homepage": "https://github.com/windows-machine-config/wmco",
			"shortDescription": "Show and manage Windows nodes",
			"description": "Shows the state of the Windows nodes that the Windows Machine Config Operator manages, what they wait for and what\n" +
				"to do about each problem. Checks clusters, and adds, removes, restarts and pauses hosts.\n",
			"caveats": "The cluster needs the Windows Machine Config Operator. To complete command lines, put kubectl_complete-windows of the\n" +
				"archive into PATH.\n",
			"platforms": platforms,
		},
	}
}
