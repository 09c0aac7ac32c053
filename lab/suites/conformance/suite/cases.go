// Package suite decides which of Kubernetes' own tests are run, and what their results mean. Cases are named as ginkgo names them in full.
package suite

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxCases and maxName bound what a list or a report can contain. Kubernetes 1.36 has 7,400 cases.
	maxCases = 20_000
	maxName  = 1_000
)

// ParseList reads the output of e2e.test -list-tests.
func ParseList(r io.Reader) ([]string, error) {
	// A case follows the place of its source: "    test/e2e/node/pods.go:120: [sig-node] Pods ...".
	line := regexp.MustCompile(`^ {4}\S+:\d+: (.+)$`)
	var cases []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if found := line.FindStringSubmatch(lines.Text()); found != nil {
			cases = append(cases, found[1])
		}
		if len(cases) > maxCases {
			return nil, fmt.Errorf("reading the list of tests: it has more than %d", maxCases)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the list of tests: %w", err)
	}
	slices.Sort(cases)
	return slices.Compact(cases), nil
}

// Applies reports whether a case is one of Windows nodes: those of the conformance suite that neither need Linux nor a cluster of their own,
// and all of SIG Windows.
func Applies(name string) bool {
	if SIG(name) == "windows" {
		return true
	}
	return strings.Contains(name, "[Conformance]") && !strings.Contains(name, "[LinuxOnly]") && !serial(name)
}

// serial reports whether nothing else may run at the same time.
func serial(name string) bool {
	return strings.Contains(name, "[Serial]") || strings.Contains(name, "[Disruptive]")
}

// SIG is the special interest group of a case, as in "node"; empty if it has none.
func SIG(name string) string {
	after, found := strings.CutPrefix(name, "[sig-")
	sig, _, closed := strings.Cut(after, "]")
	if !found || !closed {
		return ""
	}
	return sig
}

// Selection is what a user selects.
type Selection struct {
	// Only is a SIG such as "node" or "sig-node", "core", one of Rows, or a regular expression; all cases that apply if empty.
	Only string
	// Rows are names for regular expressions.
	Rows map[string]string
	// Core are the cases of "core".
	Core []string
	// Done are cases that are not run again.
	Done []string
}

// Select returns the cases to run. A regular expression selects among all cases, everything else among those that apply.
func Select(all []string, s Selection) ([]string, error) {
	sigs := map[string]bool{}
	for _, name := range all {
		sigs[SIG(name)] = true
	}
	selected := func(name string) bool { return Applies(name) }
	switch sig := strings.TrimPrefix(s.Only, "sig-"); {
	case s.Only == "":
	case s.Only == "core":
		for _, name := range s.Core {
			if !slices.Contains(all, name) {
				return nil, fmt.Errorf("selecting the core cases: %q is not in this version of the suite", name)
			}
		}
		selected = func(name string) bool { return slices.Contains(s.Core, name) }
	case sigs[sig]:
		selected = func(name string) bool { return Applies(name) && SIG(name) == sig }
	default:
		row, isRow := s.Rows[s.Only]
		expression, err := regexp.Compile(cmp.Or(row, s.Only))
		if err != nil {
			return nil, fmt.Errorf("ONLY=%s is no SIG, core, row of docs/readiness.md or regular expression: %w", s.Only, err)
		}
		selected = func(name string) bool { return expression.MatchString(name) && (!isRow || Applies(name)) }
	}
	var cases []string
	for _, name := range all {
		if selected(name) && !slices.Contains(s.Done, name) {
			cases = append(cases, name)
		}
	}
	if len(cases) == 0 && len(s.Done) == 0 {
		return nil, fmt.Errorf("ONLY=%s selects none of %d cases", s.Only, len(all))
	}
	return cases, nil
}

// Batch is a number of cases of one SIG that one process runs, one after the other.
type Batch struct {
	SIG   string
	Cases []string
	// Alone is true if no other batch may run at the same time.
	Alone bool
}

// Batches divides cases into batches of at most size cases. Those that follow each other are of different SIGs where that is possible, and
// those that must be alone come last.
func Batches(cases []string, size int) []Batch {
	var beside, alone []string
	for _, name := range slices.Sorted(slices.Values(cases)) {
		if serial(name) {
			alone = append(alone, name)
		} else {
			beside = append(beside, name)
		}
	}
	return append(inTurn(beside, size, false), inTurn(alone, size, true)...)
}

func inTurn(cases []string, size int, alone bool) []Batch {
	bySIG := map[string][]string{}
	for _, name := range cases {
		bySIG[SIG(name)] = append(bySIG[SIG(name)], name)
	}
	sigs := slices.Sorted(maps.Keys(bySIG))
	var batches []Batch
	for left := len(cases); left > 0; {
		for _, sig := range sigs {
			n := min(size, len(bySIG[sig]))
			if n > 0 {
				batches = append(batches, Batch{SIG: sig, Cases: bySIG[sig][:n], Alone: alone})
			}
			bySIG[sig], left = bySIG[sig][n:], left-n
		}
	}
	return batches
}

// Focus is the value of -ginkgo.focus that selects exactly these cases. Ginkgo matches against the description of the suite, a space, and
// the name.
func (b Batch) Focus() string {
	var quoted []string
	for _, name := range b.Cases {
		quoted = append(quoted, regexp.QuoteMeta(name))
	}
	return " (" + strings.Join(quoted, "|") + ")$"
}
