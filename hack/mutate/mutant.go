//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is a change to one file that removes a safeguard, and the test that must then fail.
type mutant struct {
	name             string // name of its file, without .txt
	effect           string // what it makes possible again
	file             string // the changed file, relative to the root
	module           string // folder of the test's module, relative to the root
	pkg              string // package of the test, relative to the module
	test             string // argument for -run of go test
	old, replacement string // lines of the file, and their replacement
}

// load reads the mutants of a folder.
func load(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var found []mutant
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found = append(found, m)
	}
	return found, nil
}

// parse reads a mutant:
//
//	# The effect, in one line.
//	file: internal/operator/csr/checks.go
//	test: . ./internal/operator/csr TestName
//	--- old
//	whole lines that occur once in the file
//	--- new
//	lines instead, or none
func parse(name, text string) (mutant, error) {
	head, change, found := strings.Cut(text, "--- old\n")
	old, replacement, both := strings.Cut(change, "--- new\n")
	if !found || !both || old == "" || old == replacement {
		return mutant{}, errors.New(`want "--- old" with lines below it, then "--- new" with the replacement or nothing`)
	}
	m := mutant{name: name, old: old, replacement: replacement}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "#":
			m.effect = value
		case "file:":
			m.file = value
		case "test:":
			fields := strings.Fields(value)
			if len(fields) != 3 {
				return mutant{}, fmt.Errorf("test: %q, want the module's folder, the package and the test", value)
			}
			m.module, m.pkg, m.test = fields[0], fields[1], fields[2]
		default:
			return mutant{}, fmt.Errorf("line %q, want # effect, file: or test:", strings.TrimSpace(line))
		}
	}
	if m.effect == "" || m.file == "" || m.test == "" {
		return mutant{}, errors.New("# effect, file: or test: is missing")
	}
	return m, nil
}

// apply returns the text of the file with the change.
func (m mutant) apply(text string) (string, error) {
	text = "\n" + text
	at := strings.Index(text, "\n"+m.old)
	if at < 0 {
		return "", fmt.Errorf("%s: its old lines are not in %s", m.name, m.file)
	}
	if strings.Contains(text[at+1:], "\n"+m.old) {
		return "", fmt.Errorf("%s: its old lines are in %s more than once", m.name, m.file)
	}
	return text[1:at+1] + m.replacement + text[at+1+len(m.old):], nil
}
