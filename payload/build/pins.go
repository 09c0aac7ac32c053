package build

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Pin is the module of a program and the version that the repository pins.
type Pin struct {
	Module  string // "k8s.io/kubernetes"
	Version string // "v1.36.5"
}

// PinOf reads the pin of a component from the go.mod of its folder below root. It is empty for programs of this repository.
func PinOf(root string, c Component) (Pin, error) {
	if c.Module == "." {
		return Pin{}, nil
	}
	return PinIn(filepath.Join(root, filepath.FromSlash(c.Module)), c.Package)
}

// PinIn reads the pin of a package from the go.mod of a folder.
func PinIn(folder, pkg string) (Pin, error) {
	name := filepath.Join(folder, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return Pin{}, err
	}
	pin, err := pinned(string(text), pkg)
	if err != nil {
		return Pin{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return pin, nil
}

// pinned returns the module that a package belongs to: of the modules that go.mod requires, the one with the longest path, in its
// replacement version if it has one.
func pinned(mod, pkg string) (Pin, error) {
	var pin Pin
	for _, required := range regexp.MustCompile(`(?m)^(?:require)?[ \t]+(\S+) (v\S+)`).FindAllStringSubmatch(mod, -1) {
		if path := required[1]; len(path) > len(pin.Module) && (pkg == path || strings.HasPrefix(pkg, path+"/")) {
			pin = Pin{Module: path, Version: required[2]}
		}
	}
	if pin.Module == "" {
		return Pin{}, fmt.Errorf("no required module contains package %s", pkg)
	}
	replacement := regexp.MustCompile(`(?m)^(?:replace)?[ \t]+` + regexp.QuoteMeta(pin.Module) + `(?: v\S+)? => \S+ (v\S+)`)
	if match := replacement.FindStringSubmatch(mod); match != nil {
		pin.Version = match[1]
	}
	return pin, nil
}
