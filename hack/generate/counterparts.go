package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/payload/build"
)

//go:embed counterparts.yaml
var table []byte

// lists is the content of counterparts.yaml.
type lists struct {
	Counterparts []counterpart `json:"counterparts"`
	StandIns     []standIn     `json:"standIns"`
}

// counterpart is a third-party program that ran with the product.
type counterpart struct {
	// Name describes the program.
	Name string `json:"name"`
	// Pins are the folders of the Go modules that pin Package, a package or a module. Without Pins, Version is the
	// version.
	Pins    []string `json:"pins,omitempty"`
	Package string   `json:"package,omitempty"`
	Version string   `json:"version,omitempty"`
	// Ran describes which part of it ran, and against what.
	Ran string `json:"ran"`
	// Tests are the names of test functions, and Steps targets of the Makefile that run it without one. Last is the day of
	// their last green run.
	Tests []string `json:"tests,omitempty"`
	Steps []string `json:"steps,omitempty"`
	Last  string   `json:"last"`
}

// standIn is what tests use in place of something that did not run.
type standIn struct {
	For     string `json:"for"`
	Instead string `json:"instead"`
	Why     string `json:"why"`
}

const aboutCounterparts = `# Counterparts

<!-- Written by make generate from hack/generate/counterparts.yaml. -->

Third-party programs that the operator was tested with, and the stand-ins for those that it was not. A test with a
stand-in is no test of the real program. The operator has not run with a real Windows Server yet: all programs for
Windows below ran on Wine ([the lab](../lab/README.md)). [limitations.md](limitations.md) lists what that leaves open.

## What ran

| what | version | what ran | tests | last |
| --- | --- | --- | --- | --- |
`

// counterparts returns docs/counterparts.md: which third-party programs ran with the product, in which test, and what
// replaces those that did not. It rejects tests that do not exist. Versions are those that the modules of the repository pin.
func counterparts(root string) (map[string][]byte, error) {
	page, err := counterpartsPage(root, table)
	return map[string][]byte{"docs/counterparts.md": page}, err
}

func counterpartsPage(root string, text []byte) ([]byte, error) {
	var all lists
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, err
	}
	places, errTests := testsIn(root)
	steps, errSteps := stepsIn(root)
	if err := errors.Join(errTests, errSteps); err != nil {
		return nil, err
	}
	page := bytes.NewBufferString(aboutCounterparts)
	var faults error
	for n, c := range all.Counterparts {
		version, err := c.version(root)
		links, errTests := c.links(places, steps)
		_, errLast := time.Parse(time.DateOnly, c.Last)
		if err := errors.Join(err, errTests, errLast); err != nil {
			faults = errors.Join(faults, fmt.Errorf("counterparts[%d] (%s): %w", n, c.Name, err))
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s | %s |\n", c.Name, version, c.Ran, strings.Join(links, ", "), c.Last)
	}
	page.WriteString("\n## Stand-ins\n\n| for | instead | why |\n| --- | --- | --- |\n")
	for _, s := range all.StandIns {
		fmt.Fprintf(page, "| %s | %s | %s |\n", s.For, s.Instead, s.Why)
	}
	return page.Bytes(), faults
}

// version returns the pinned version, or several, oldest first in the order of the folders.
func (c counterpart) version(root string) (string, error) {
	if (len(c.Pins) > 0) == (c.Version != "") || (c.Package != "") != (len(c.Pins) > 0) {
		return "", errors.New("want either pins and package, or version")
	}
	var versions []string
	for _, folder := range c.Pins {
		pin, err := build.PinIn(filepath.Join(root, filepath.FromSlash(folder)), c.Package)
		if err != nil {
			return "", err
		}
		versions = append(versions, strings.TrimPrefix(pin.Version, "v"))
	}
	if c.Version != "" {
		versions = []string{c.Version}
	}
	return strings.Join(versions, ", "), nil
}

// links returns links to the files of the tests, and the commands of the steps.
func (c counterpart) links(places map[string][]string, steps []string) (links []string, err error) {
	if len(c.Tests)+len(c.Steps) == 0 {
		return nil, errors.New("tests and steps are empty; a counterpart without a test has not run")
	}
	for _, name := range c.Tests {
		files := places[name]
		if len(files) != 1 {
			err = errors.Join(err, fmt.Errorf("test %s does not exist, or more than one does: %q", name, files))
			continue
		}
		links = append(links, fmt.Sprintf("[%s](../%s)", strings.TrimPrefix(name, "Test"), files[0]))
	}
	for _, step := range c.Steps {
		if !slices.Contains(steps, step) {
			err = errors.Join(err, fmt.Errorf("the Makefile has no target %s", step))
		}
		links = append(links, "`make "+step+"`")
	}
	return links, err
}

// stepsIn returns the targets of the repository's Makefile.
func stepsIn(root string) (steps []string, err error) {
	content, err := os.ReadFile(filepath.Join(root, "Makefile"))
	for _, found := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllSubmatch(content, -1) {
		steps = append(steps, string(found[1]))
	}
	return steps, err
}

// testsIn returns the files of the repository's test functions, by name.
func testsIn(root string) (map[string][]string, error) {
	places := map[string][]string{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, found := range function.FindAllSubmatch(content, -1) {
			places[string(found[1])] = append(places[string(found[1])], filepath.ToSlash(name))
		}
		return nil
	})
	return places, err
}
