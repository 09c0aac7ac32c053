// Package winbuild makes Go programs for Windows run on Wine 8. Wine lacks Unix sockets, POSIX deletes and some results that
// kubelet and containerd need. The package copies the affected source files from GOROOT and from the module cache, changes them,
// and passes the copies to the Go command as an overlay and as replaced modules. The programs themselves are built from unchanged
// sources, and builds for real Windows are not affected.
package winbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Flags returns the flags of "go build" in moduleDir for a program that runs on Wine. Patched copies are in workDir, which
// modules and concurrent calls can share, and which must exist during the build. It returns an error if a file to patch has
// unexpected content.
func Flags(ctx context.Context, moduleDir, workDir string) ([]string, error) {
	workDir, err := filepath.Abs(workDir)
	if err != nil {
		return nil, fmt.Errorf("resolving the work folder: %w", err)
	}
	overlay, err := overlayFile(ctx, gorootPatch(), moduleDir, workDir)
	if err != nil {
		return nil, err
	}
	modfile, err := modFile(ctx, moduleDir, workDir)
	if err != nil {
		return nil, err
	}
	return []string{"-overlay=" + overlay, "-modfile=" + modfile}, nil
}

// ImageFlag returns a flag of "go build" in moduleDir for programs of container images, which need fewer patches than those of
// Flags. Programs of HostProcess containers share Unix sockets with the host's.
func ImageFlag(ctx context.Context, moduleDir, workDir string, hostProcess bool) (string, error) {
	p := imagePatch()
	if hostProcess {
		p = gorootPatch()
		p.edits = append(p.edits, imagePatch().edits...)
	}
	overlay, err := overlayFile(ctx, p, moduleDir, workDir)
	return "-overlay=" + overlay, err
}

// overlayFile patches Go's own sources and returns the overlay description for the Go command.
func overlayFile(ctx context.Context, p patch, moduleDir, workDir string) (string, error) {
	out, err := goCommand(ctx, moduleDir, "env", "GOROOT")
	if err != nil {
		return "", err
	}
	src := filepath.Join(strings.TrimSpace(string(out)), "src")
	changed, err := p.files(src)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	dir := filepath.Join(workDir, "goroot-"+digest(changed))
	for file, text := range changed {
		copied := filepath.Join(dir, filepath.FromSlash(file))
		if err := writeFile(copied, []byte(text)); err != nil {
			return "", err
		}
		replace[filepath.Join(src, filepath.FromSlash(file))] = copied
	}
	description, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	return path, writeFile(path, description)
}

// modFile returns the path of a copy of moduleDir's go.mod in which the patched modules replace the original ones.
func modFile(ctx context.Context, moduleDir, workDir string) (string, error) {
	required, builds, err := requirements(ctx, moduleDir)
	if err != nil {
		return "", err
	}
	edits := []string{"mod", "edit"}
	for _, p := range modulePatches() {
		version, ok := required[p.module]
		if !ok || p.programs && !builds(p.module) {
			continue
		}
		dir, err := patchedModule(ctx, p, version, moduleDir, workDir)
		if err != nil {
			return "", err
		}
		edits = append(edits, "-replace="+p.module+"="+dir)
	}
	files, err := editedModule(ctx, moduleDir, workDir, edits)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(workDir, "mod-"+digest(files))
	for name, text := range files {
		if err := writeFile(filepath.Join(dir, name), []byte(text)); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "go.mod"), nil
}

// editedModule returns go.mod after an edit by the Go command, which edits a copy in place, and the matching go.sum.
func editedModule(ctx context.Context, moduleDir, workDir string, edit []string) (map[string]string, error) {
	tmp, err := temporaryFolder(workDir)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	files := map[string]string{}
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(moduleDir, name))
		if err != nil {
			return nil, fmt.Errorf("reading the module: %w", err)
		}
		files[name] = string(raw)
	}
	copied := filepath.Join(tmp, "go.mod")
	if err := os.WriteFile(copied, []byte(files["go.mod"]), 0o644); err != nil {
		return nil, fmt.Errorf("copying go.mod: %w", err)
	}
	if _, err := goCommand(ctx, moduleDir, append(edit, copied)...); err != nil {
		return nil, err
	}
	edited, err := os.ReadFile(copied)
	if err != nil {
		return nil, fmt.Errorf("reading the edited go.mod: %w", err)
	}
	files["go.mod"] = string(edited)
	return files, nil
}

// temporaryFolder creates a folder in workDir, so that files in it can be renamed into place.
func temporaryFolder(workDir string) (string, error) {
	if err := os.MkdirAll(workDir, 0o755); err != nil {
		return "", fmt.Errorf("making the work folder: %w", err)
	}
	tmp, err := os.MkdirTemp(workDir, "tmp-")
	if err != nil {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	return tmp, nil
}

// requirements returns the versions that a module requires, directly and indirectly, after its own replacements by version, and whether its
// tools are another module's. Other replacements of a module to patch are an error.
func requirements(ctx context.Context, moduleDir string) (versions map[string]string, builds func(module string) bool, err error) {
	out, err := goCommand(ctx, moduleDir, "mod", "edit", "-json")
	if err != nil {
		return nil, nil, err
	}
	var mod struct {
		Require []struct{ Path, Version string }
		Replace []struct {
			Old, New struct{ Path, Version string }
		}
		Tool []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, nil, fmt.Errorf("decoding go.mod of %s: %w", moduleDir, err)
	}
	versions = map[string]string{}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	for _, r := range mod.Replace {
		if _, ok := versions[r.Old.Path]; !ok {
			continue
		}
		versions[r.Old.Path] = r.New.Version
		for _, p := range modulePatches() {
			if r.Old.Path == p.module && r.New.Path != p.module {
				return nil, nil, fmt.Errorf("patching %s: go.mod of %s replaces it by %s", p.module, moduleDir, r.New.Path)
			}
		}
	}
	return versions, func(module string) bool {
		return slices.ContainsFunc(mod.Tool, func(t struct{ Path string }) bool { return strings.HasPrefix(t.Path, module+"/") })
	}, nil
}

// patchedModule returns the folder of a patched copy of a module, created once per version and patch.
func patchedModule(ctx context.Context, p patch, version, moduleDir, workDir string) (string, error) {
	source, err := ModuleFolder(ctx, moduleDir, p.module+"@"+version)
	if err != nil {
		return "", err
	}
	changed, err := p.files(source)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(workDir, filepath.Base(p.module)+"@"+version+"-"+digest(changed))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	tmp, err := temporaryFolder(workDir)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := os.CopyFS(tmp, os.DirFS(source)); err != nil { // the copies are writable, unlike the module cache
		return "", fmt.Errorf("copying %s: %w", p.module, err)
	}
	for file, text := range changed {
		if err := writeFile(filepath.Join(tmp, filepath.FromSlash(file)), []byte(text)); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", fmt.Errorf("opening the copy of %s: %w", p.module, err)
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("placing the copy of %s: %w", p.module, err)
	}
	return dir, nil
}

// writeFile replaces a file atomically unless it has the same content, so that its time stays. Concurrent calls for a path are
// safe.
func writeFile(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of %s: %w", path, err)
	}
	beside, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return fmt.Errorf("making a file beside %s: %w", path, err)
	}
	defer os.Remove(beside.Name())
	_, err = beside.Write(content)
	if err := errors.Join(err, beside.Chmod(0o644), beside.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(beside.Name(), path); err != nil {
		return fmt.Errorf("placing %s: %w", path, err)
	}
	return nil
}

// digest returns a hash of a set of files.
func digest(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s\x00%d\x00%s", name, len(files[name]), files[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// ModuleFolder returns the folder of a module's sources, after downloading them if needed. The version follows @, or is that in the
// go.mod of dir.
func ModuleFolder(ctx context.Context, dir, module string) (string, error) {
	out, err := goCommand(ctx, dir, "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return "", fmt.Errorf("decoding the answer of go mod download: %w", err)
	}
	return downloaded.Dir, nil
}

// goCommand runs the Go command in dir and returns its output.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("running go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("running go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
