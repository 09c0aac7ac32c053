package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// program is an executable that the Go command builds from a component.
type program struct {
	Component
	version string   // the version of the module that has the package
	flags   []string // for "go build"
	exe     string   // path of the executable
}

// compiler builds executables for windows/amd64.
type compiler struct {
	Options
	scratch string // a subfolder of programs() that is removed after the build
}

// plan determines version, flags and path of each component.
func (c compiler) plan(ctx context.Context, components []Component) ([]program, error) {
	var programs []program
	for _, component := range components {
		p, err := c.planOne(ctx, component)
		if err != nil {
			return nil, fmt.Errorf("preparing %s: %w", component.Name, err)
		}
		programs = append(programs, p)
	}
	return programs, nil
}

func (c compiler) planOne(ctx context.Context, component Component) (program, error) {
	p := program{Component: component, version: c.Version}
	if !p.own() {
		pin, err := PinOf(c.Root, component)
		if err != nil {
			return program{}, err
		}
		p.version = pin.Version
	}
	p.flags = []string{"-ldflags=" + linkerFlags(p.Stamp, p.version)}
	if c.Flags != nil {
		more, err := c.Flags(ctx, filepath.Join(c.Root, p.Module))
		if err != nil {
			return program{}, err
		}
		p.flags = append(p.flags, more...)
	}
	if p.own() {
		p.exe = filepath.Join(c.scratch, "own", p.executable())
		return p, nil
	}
	key, err := c.key(ctx, p)
	if err != nil {
		return program{}, err
	}
	p.exe = filepath.Join(c.programs(), key, p.executable())
	return p, nil
}

// own reports whether the program is built from this repository's sources. Such programs are always passed to the Go command,
// which detects changes best; the others change only with their module's pins.
func (p program) own() bool { return p.Module == "." }

// executable returns the name of the program after "go build -o folder/".
func (p program) executable() string { return path.Base(p.Package) + ".exe" }

// linkerFlags strips the program, removes the build ID, which differs between machines, and sets the variables in stamp.
func linkerFlags(stamp []string, version string) string {
	number := strings.TrimPrefix(version, "v")
	major, rest, _ := strings.Cut(number, ".")
	minor, _, _ := strings.Cut(rest, ".")
	value := map[string]string{"version": version, "number": number, "major": major, "minor": minor}
	flags := []string{"-s", "-w", "-buildid="}
	for _, variable := range stamp {
		flags = append(flags, "-X", os.Expand(variable, func(name string) string { return value[name] }))
	}
	return strings.Join(flags, " ")
}

// key returns the name of the cache folder of p: a hash of everything that determines its bytes.
func (c compiler) key(ctx context.Context, p program) (string, error) {
	goVersion, err := c.goCommand(ctx, p.Module, "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q\n", goVersion, p.Package, p.flags, environment())
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(c.Root, p.Module, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(data))
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// compile builds the programs that are not in the cache, those with the same module and flags in one call.
func (c compiler) compile(ctx context.Context, programs []program) error {
	done := 0
	var missing []program
	for _, p := range programs {
		if _, err := os.Stat(p.exe); err != nil {
			missing = append(missing, p)
			continue
		}
		touch(filepath.Dir(p.exe))
		done++
		c.log("%s %s (%d of %d): kept", p.Name, p.version, done, len(programs))
	}
	for len(missing) > 0 {
		first := missing[0]
		var batch, rest []program
		for _, p := range missing {
			if p.Module == first.Module && slices.Equal(p.flags, first.flags) {
				batch = append(batch, p)
			} else {
				rest = append(rest, p)
			}
		}
		begin := time.Now()
		c.log("%s %s: building in %s", names(batch), first.version, first.Module)
		if err := c.goBuild(ctx, batch); err != nil {
			return fmt.Errorf("building %s: %w", names(batch), err)
		}
		done += len(batch)
		c.log("%s %s (%d of %d): built in %.1f s", names(batch), first.version, done, len(programs), time.Since(begin).Seconds())
		missing = rest
	}
	return nil
}

// goBuild builds programs with the same module and flags in a temporary folder, and moves them into place when all are done.
func (c compiler) goBuild(ctx context.Context, programs []program) error {
	beside, err := os.MkdirTemp(c.scratch, "build-")
	if err != nil {
		return err
	}
	args := append([]string{"build", "-o", beside + string(filepath.Separator)}, programs[0].flags...)
	for _, p := range programs {
		args = append(args, p.Package)
	}
	if _, err := c.goCommand(ctx, programs[0].Module, args...); err != nil {
		return err
	}
	for _, p := range programs {
		if err := os.MkdirAll(filepath.Dir(p.exe), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(beside, p.executable()), p.exe); err != nil {
			return err
		}
	}
	return nil
}

// goCommand runs the Go command in a module's folder and returns its output.
func (c compiler) goCommand(ctx context.Context, module string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = filepath.Join(c.Root, module)
	command.Env = append(os.Environ(), environment()...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // so that it stops its compilers
	command.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], command.Dir, err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// environment returns the variables that override all settings of the user that could change the bytes.
func environment() []string {
	return []string{
		"GOOS=windows", "GOARCH=amd64", "GOAMD64=v1", "CGO_ENABLED=0", "GOFIPS140=off", "GOEXPERIMENT=", "GOWORK=off",
		"GOFLAGS=-trimpath -buildvcs=false", // not on the command line: an empty GOFLAGS would leave the user's in force
	}
}

func names(programs []program) string {
	var all []string
	for _, p := range programs {
		all = append(all, p.Name)
	}
	return strings.Join(all, ", ")
}
