//go:build linux

package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/windows-machine-config/wmco/lab/windows/winbuild"
)

// unusedAfter is how long an unused entry stays in the cache.
const unusedAfter = 14 * 24 * time.Hour

// A cache stores files that are expensive to build, by a key of their sources: ${XDG_CACHE_HOME:-$HOME/.cache}/wmco/lab/<key>/<name>.
type cache struct {
	dir      string
	module   string    // the folder of this module, with the programs' sources
	progress io.Writer // one line for each operation of more than two seconds
}

func openCache(ctx context.Context, progress io.Writer) (cache, error) {
	module, err := moduleDir(ctx)
	if err != nil {
		return cache{}, err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return cache{}, fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(base, "wmco", "lab")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cache{}, fmt.Errorf("creating the cache folder: %w", err)
	}
	if progress == nil {
		progress = os.Stderr
	}
	return cache{dir: dir, module: module, progress: progress}, nil
}

// An item is one file or folder of the cache.
type item struct {
	name  string
	about string // the operation, for the progress line
	key   string
	// make writes the item to a new path in the file system of the cache.
	make func(ctx context.Context, path string) error
}

// get returns the path of an item, and builds the item if it is missing. Processes that need the same item wait for the one that builds it.
func (c cache) get(ctx context.Context, it item) (string, error) {
	dir := filepath.Join(c.dir, it.key)
	path := filepath.Join(dir, it.name)
	if c.use(path) {
		return path, nil
	}
	unlock, err := c.lock(ctx, it.name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if c.use(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache folder: %w", err)
	}
	done := c.report(it.about)
	temporary := path + ".new"
	if err := os.RemoveAll(temporary); err != nil {
		return "", fmt.Errorf("clearing the cache: %w", err)
	}
	if err := it.make(ctx, temporary); err != nil {
		_ = os.RemoveAll(temporary)
		return "", fmt.Errorf("%s: %w", it.about, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return "", fmt.Errorf("placing %s in the cache: %w", it.name, err)
	}
	done()
	c.removeUnused(it.name)
	return path, nil
}

// use reports whether an item exists, and records its use.
func (c cache) use(path string) bool {
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Dir(path), now, now)
	return true
}

// lock locks a name across all processes.
func (c cache) lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(c.dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of %s: %w", name, err)
	}
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) { // another process builds it
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// report prints a line if an operation takes more than two seconds, and another when it is done.
func (c cache) report(about string) (done func()) {
	start := time.Now()
	timer := time.AfterFunc(2*time.Second, func() { fmt.Fprintf(c.progress, "lab: %s...\n", about) })
	return func() {
		if !timer.Stop() {
			fmt.Fprintf(c.progress, "lab: %s took %.0f s\n", about, time.Since(start).Seconds())
		}
	}
}

// removeUnused removes entries of older sources.
func (c cache) removeUnused(name string) {
	paths, _ := filepath.Glob(filepath.Join(c.dir, "*", name))
	for _, path := range paths {
		info, err := os.Stat(filepath.Dir(path))
		if err == nil && time.Since(info.ModTime()) > unusedAfter {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
}

// A program is a main package of this module or of a module that it requires.
type program struct {
	pkg   string // relative to the module, or an import path of another module
	about string
	env   []string // for the Go command, such as GOOS=windows
	// sources are other folders that the program depends on, relative to the module.
	sources []string
	// module is the folder of another module that the program is built in, relative to this one.
	module string
	// library is true for a C library.
	library bool
	// image is true for a program in an image of Windows pods.
	image bool
	// hostProcess is true for a program in an image of HostProcess containers.
	hostProcess bool
	// tests is true for the tests of the package as a program.
	tests bool
	// stamp is a module whose version the program reports as its own.
	stamp string
}

// controlPlaneProgram returns the control plane of the newest version of Kubernetes.
func controlPlaneProgram() program {
	return program{pkg: "cluster/controlplane", about: "building the control plane (about five minutes the first time)", stamp: kubernetesModule}
}

// build returns the path of a program. It builds it again if sources, requirements or the version of Go have changed.
func (c cache) build(ctx context.Context, p program) (string, error) {
	module := filepath.Join(c.module, p.module)
	compiler, err := goVersion(ctx, module)
	if err != nil {
		return "", err
	}
	ldflags, err := p.ldflags(ctx, module)
	if err != nil {
		return "", err
	}
	var patched []string
	if p.image || p.hostProcess {
		overlay, err := winbuild.ImageFlag(ctx, module, filepath.Join(c.dir, "..", "winbuild"), p.hostProcess)
		if err != nil {
			return "", err
		}
		patched = []string{overlay}
	}
	key, err := contentKey(slices.Concat([]string{compiler, p.pkg, ldflags}, p.env, patched), module, append(p.folders(), "go.mod", "go.sum"))
	if err != nil {
		return "", err
	}
	return c.get(ctx, item{name: filepath.Base(p.pkg), about: p.about, key: key, make: func(ctx context.Context, path string) error {
		command := []string{"build"}
		if p.library {
			command = append(command, "-buildmode=c-shared")
		}
		if p.tests {
			command = []string{"test", "-c", "-vet=off"}
		}
		return goBuild(ctx, module, path, p.env, slices.Concat(command, patched, []string{"-ldflags=" + ldflags, p.target()})...)
	}})
}

// goVersion returns the version of Go that builds a module.
func goVersion(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "-C", module, "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("reading Go's version: %w", err)
	}
	return string(out), nil
}

// content builds a program and returns its content.
func (c cache) content(ctx context.Context, p program) (string, error) {
	path, err := c.build(ctx, p)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(path)
	return string(content), err
}

// build returns the path of a program, and builds it unless it is in the cache.
func build(ctx context.Context, progress io.Writer, p program) (string, error) {
	c, err := openCache(ctx, progress)
	if err != nil {
		return "", err
	}
	return c.build(ctx, p)
}

// prepare builds programs unless they are in the cache.
func (c cache) prepare(ctx context.Context, programs ...program) error {
	for _, p := range programs {
		if _, err := c.build(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// goBuild runs go build, or another Go command that builds, in a module's folder. All programs get the same flags, so that packages are compiled
// once. env is appended to the environment.
func goBuild(ctx context.Context, dir, out string, env []string, command ...string) error {
	cmd := exec.CommandContext(ctx, "go", slices.Insert(command, 1, "-trimpath", "-buildvcs=false", "-o", out)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running go %s: %w: %s", command[0], err, strings.TrimSpace(string(text)))
	}
	return nil
}

// BuildOptions are the options of BuildProgram.
type BuildOptions struct {
	// Race makes the program report data races.
	Race bool
	// FIPS links Go's certified cryptographic module (https://go.dev/doc/security/fips140).
	FIPS bool
}

// BuildProgram builds a program of the repository in the folder root, such as ./cmd/wmco, and writes it to out. It links again only
// after a change, because that takes seconds.
func BuildProgram(ctx context.Context, root, pkg, out string, o BuildOptions, progress io.Writer) error {
	c, err := openCache(ctx, progress)
	if err != nil {
		return err
	}
	name := filepath.Base(pkg)
	var env []string
	command := []string{"build", pkg}
	if o.Race {
		name += "-race"
		env, command = []string{"CGO_ENABLED=1"}, []string{"build", "-race", pkg}
	}
	if o.FIPS {
		name += "-fips"
		env = append(env, "GOFIPS140=certified")
	}
	key, err := contentKey([]string{root}, root, nil)
	if err != nil {
		return err
	}
	unlock, err := c.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	done := c.report("building " + name + " (two minutes the first time)")
	kept := filepath.Join(c.dir, key, name)
	if err := goBuild(ctx, root, kept, env, command...); err != nil {
		return fmt.Errorf("building %s: %w", name, err)
	}
	done()
	c.use(kept)
	c.removeUnused(name)
	content, err := os.ReadFile(kept)
	if err != nil {
		return err
	}
	return os.WriteFile(out, content, 0o700)
}

// isExternal reports whether the program belongs to another module, whose version is in go.mod.
func (p program) isExternal() bool {
	host, _, _ := strings.Cut(p.pkg, "/")
	return strings.Contains(host, ".")
}

// target returns the program as an argument of the Go command.
func (p program) target() string {
	if p.isExternal() {
		return p.pkg
	}
	return "./" + p.pkg
}

// folders returns the folders of this module that the program depends on.
func (p program) folders() []string {
	if p.isExternal() {
		return p.sources
	}
	return append(p.sources, p.pkg)
}

// pinnedVersion returns the version of a module that go.mod in a folder requires.
func pinnedVersion(ctx context.Context, folder, module string) (string, error) {
	version, err := exec.CommandContext(ctx, "go", "-C", folder, "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("reading the version of %s in %s: %w", module, folder, err)
	}
	return strings.TrimSpace(string(version)), nil
}

// ldflags strips the program and sets the version of Kubernetes, as Kubernetes' own build scripts do.
func (p program) ldflags(ctx context.Context, module string) (string, error) {
	const strip = "-s -w"
	if p.stamp == "" {
		return strip, nil
	}
	pinned, err := pinnedVersion(ctx, module, p.stamp)
	if err != nil {
		return "", err
	}
	numbers, err := version.ParseSemantic(pinned)
	if err != nil {
		return "", fmt.Errorf("parsing the version of %s: %w", p.stamp, err)
	}
	const variables = "k8s.io/component-base/version"
	return fmt.Sprintf("%s -X %s.gitVersion=%s -X %s.gitMajor=%d -X %s.gitMinor=%d",
		strip, variables, pinned, variables, numbers.Major(), variables, numbers.Minor()), nil
}

// contentKey returns a hash of some words and of files and folders of a tree.
func contentKey(words []string, root string, paths []string) (string, error) {
	h := sha256.New()
	for _, word := range words {
		fmt.Fprintf(h, "%q\n", word)
	}
	for _, path := range slices.Sorted(slices.Values(paths)) {
		err := filepath.WalkDir(filepath.Join(root, path), func(file string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, file)
			fmt.Fprintf(h, "%q %d\n%s", rel, len(raw), raw)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("reading the sources: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:20], nil
}

// moduleDir returns the folder of this module, which has the programs' sources. The working directory must be in it.
func moduleDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	dir := filepath.Dir(strings.TrimSpace(string(out)))
	if _, err := os.Stat(filepath.Join(dir, controlPlaneProgram().pkg)); err != nil {
		return "", fmt.Errorf("finding the lab's sources: %w; run this in the folder lab of the repository", err)
	}
	return dir, nil
}
