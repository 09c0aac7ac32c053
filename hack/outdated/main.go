// Command outdated compares the programs on hosts, and the libraries that the operator and the lab require, with the versions on the Go
// module proxy: the next patches and the next minor versions of each. It requests them by name, because the proxy's lists are incomplete.
// It exits with code 3 if one has to be upgraded, and with 1 if it could not compare.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/payload/build"
)

func main() {
	os.Exit(run(".", goproxy(), time.Now(), os.Stdout, os.Stderr))
}

// goproxy returns the setting that the Go command uses, which may come from go env -w; empty if there is no Go command.
func goproxy() string {
	out, _ := exec.Command("go", "env", "GOPROXY").Output()
	return strings.TrimSpace(string(out))
}

// run compares the pins of the repository in root and returns the exit code.
func run(root, goproxy string, now time.Time, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	p, err := newProxy(goproxy)
	programs, unreadable := read(root)
	if err := errors.Join(err, unreadable); err != nil {
		fmt.Fprintln(stderr, "outdated:", err)
		return 1
	}
	fmt.Fprintf(stderr, "looking up newer versions of %d programs and libraries...\n", len(programs))
	if write(stdout, compare(ctx, p, programs), now) > 0 {
		return 3
	}
	return 0
}

// program is a set of programs with the same pin: all programs of one module in one folder; or a library.
type program struct {
	names  []string
	pin    build.Pin
	newest bool // no other folder has a later minor version of the module
}

// read returns the third-party programs in the payload, then the libraries.
func read(root string) ([]program, error) {
	var programs []program
	for _, c := range build.Components() {
		pin, err := build.PinOf(root, c)
		if err != nil {
			return nil, err
		}
		last := len(programs) - 1
		switch {
		case pin == build.Pin{}:
		case last >= 0 && programs[last].pin == pin:
			programs[last].names = append(programs[last].names, c.FullName())
		default:
			if last >= 0 && programs[last].pin.Module == pin.Module {
				programs[last].newest = false // components are declared oldest first
			}
			programs = append(programs, program{names: []string{c.FullName()}, pin: pin, newest: true})
		}
	}
	for _, folder := range []string{".", "lab"} {
		required, err := libraries(filepath.Join(root, folder))
		if err != nil {
			return nil, err
		}
		for _, l := range required {
			if !slices.ContainsFunc(programs, func(p program) bool { return p.pin == l.pin }) {
				programs = append(programs, l)
			}
		}
	}
	return programs, nil
}

// libraries returns the modules that the go.mod of a folder requires directly, in their releases. Others, such as commits and modules of
// this repository, have no later release to compare with.
func libraries(folder string) (all []program, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return nil, err
	}
	for _, required := range regexp.MustCompile(`(?m)^(?:require)?[ \t]+(\S+) v\S+$`).FindAllSubmatch(text, -1) { // without "// indirect"
		module := string(required[1])
		pin, err := build.PinIn(folder, module)
		if err != nil {
			return nil, err
		}
		if _, err := parse(pin.Version); err == nil {
			all = append(all, program{names: []string{module}, pin: pin, newest: true})
		}
	}
	return all, nil
}

// write prints the table and returns the number of red rows.
func write(to io.Writer, rows []row, now time.Time) (red int) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "PROGRAM OR LIBRARY\tPINNED\tPATCH\tDAYS BEHIND\tMINOR\tFIXES UNTIL\tSTATE")
	for _, r := range rows {
		state := "current"
		if kept, ok := r.kept(now); ok {
			state = "kept for " + kept.Product + " " + kept.Name + " until " + kept.Ends.Format(time.DateOnly)
		}
		if problem := r.problem(now); problem != "" {
			red++
			state = "RED: " + problem
		} else if r.err != nil {
			state = "not known: " + r.err.Error()
		}
		behind, until := "-", "-"
		if r.patch != "" {
			behind = fmt.Sprint(r.daysBehind(now))
		}
		if line, known := r.line(); known {
			until = line.Ends.Format(time.DateOnly)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", strings.Join(r.names, ", "), r.pin.Version, cmp.Or(r.patch, "-"), behind, cmp.Or(r.minor, "-"), until, state)
	}
	_ = w.Flush()
	return red
}

// row compares a pin with the versions on the proxy.
type row struct {
	program
	patch      string    // the newest patch after the pinned one; empty if there is none
	patchSince time.Time // when the first patch after the pinned one was released
	minor      string    // the newest version of the next minor versions
	err        error
}

// maxPatchAge is how long a patch may wait after its release. A pin may be older: some projects release less often.
const maxPatchAge = 60 * 24 * time.Hour

func (r row) daysBehind(now time.Time) int { return int(now.Sub(r.patchSince).Hours() / 24) }

// line returns the release line that is pinned, for products whose end of support is known.
func (r row) line() (lifecycle.Line, bool) {
	product := map[string]string{"k8s.io/kubernetes": lifecycle.Kubernetes, "github.com/containerd/containerd/v2": lifecycle.Containerd}[r.pin.Module]
	v, _ := parse(r.pin.Version)
	return lifecycle.Of(product, fmt.Sprintf("%d.%d", v.major, v.minor))
}

// kept returns the release line for which a line that has ended is kept.
func (r row) kept(now time.Time) (lifecycle.Line, bool) {
	line, known := r.line()
	if !known || !line.Ended(now) {
		return lifecycle.Line{}, false
	}
	return lifecycle.OpenShiftLine(line)
}

// problem explains why the pin has to be upgraded; empty if it does not.
func (r row) problem(now time.Time) string {
	if line, known := r.line(); known && line.Ended(now) {
		if kept, ok := r.kept(now); !ok || kept.Ended(now) {
			return fmt.Sprintf("%s %s has had no fixes since %s", line.Product, line.Name, line.Ends.Format(time.DateOnly))
		}
	}
	if r.patch != "" && now.Sub(r.patchSince) > maxPatchAge {
		return fmt.Sprintf("a patch has been available for %d days, at most %d are allowed", r.daysBehind(now), int(maxPatchAge.Hours()/24))
	}
	return ""
}
