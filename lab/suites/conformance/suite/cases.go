// Package suite selects the cases of Kubernetes' own tests to run, and evaluates their results. Cases have the full names of ginkgo.
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
	// maxCases and maxName limit the cases in a list or a report. Kubernetes 1.36 has 7,400 cases.
	maxCases = 20_000
	maxName  = 1_000
)

// ParseList reads the output of e2e.test -list-tests.
func ParseList(r io.Reader) ([]string, error) {
	// The name of a case follows its position in the source: "    test/e2e/node/pods.go:120: [sig-node] Pods ...".
	line := regexp.MustCompile(`^ {4}\S+:\d+: (.+)$`)
	var cases []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if found := line.FindStringSubmatch(lines.Text()); found != nil {
			cases = append(cases, found[1])
		}
		if len(cases) > maxCases {
			return nil, fmt.Errorf("reading the list of tests: got more than %d cases", maxCases)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the list of tests: %w", err)
	}
	slices.Sort(cases)
	return slices.Compact(cases), nil
}

// Applies reports whether a case applies to Windows nodes: the cases of the conformance suite and those of NetworkPolicies that need neither
// Linux nor a cluster of their own, and all cases of SIG Windows.
func Applies(name string) bool {
	if SIG(name) == "windows" {
		return true
	}
	isSelected := strings.Contains(name, "[Conformance]") || strings.Contains(name, "[Feature:NetworkPolicy]")
	return isSelected && !strings.Contains(name, "[LinuxOnly]") && !serial(name)
}

// serial reports whether a case must not run in parallel with others.
func serial(name string) bool {
	return strings.Contains(name, "[Serial]") || strings.Contains(name, "[Disruptive]")
}

// SIG returns the special interest group of a case, as in "node", or "" if it has none.
func SIG(name string) string {
	after, found := strings.CutPrefix(name, "[sig-")
	sig, _, closed := strings.Cut(after, "]")
	if !found || !closed {
		return ""
	}
	return sig
}

// Selection selects cases.
type Selection struct {
	// Only is a SIG such as "node" or "sig-node", "core", one of Rows, or a regular expression. If empty, all cases that apply
	// are selected.
	Only string
	// Rows maps names to regular expressions.
	Rows map[string]string
	// Core are the cases of "core".
	Core []string
	// Done are cases that are excluded.
	Done []string
}

// Select returns the selected cases. A regular expression selects from all cases, all others select from those that apply.
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

// Batch is a list of cases of one SIG that one process runs sequentially.
type Batch struct {
	SIG   string
	Cases []string
	// Alone is true if the batch must not run in parallel with others.
	Alone bool
}

// Batches divides cases into batches of at most size cases. Consecutive batches have different SIGs if possible, and those that
// must run alone come last.
func Batches(cases []string, size int) []Batch {
	var parallel, alone []string
	for _, name := range slices.Sorted(slices.Values(cases)) {
		if serial(name) {
			alone = append(alone, name)
		} else {
			parallel = append(parallel, name)
		}
	}
	return append(alternate(parallel, size, false), alternate(alone, size, true)...)
}

// alternate returns batches whose SIGs alternate.
func alternate(cases []string, size int, alone bool) []Batch {
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

// Focus returns the value of -ginkgo.focus that selects exactly these cases. Ginkgo matches it against the description of the
// suite, a space, and the name.
func (b Batch) Focus() string {
	var quoted []string
	for _, name := range b.Cases {
		quoted = append(quoted, regexp.QuoteMeta(name))
	}
	return " (" + strings.Join(quoted, "|") + ")$"
}
