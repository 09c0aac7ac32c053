package suite

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Cause is why a case fails in the lab.
type Cause string

// Causes of failures. A failure because of the product or by chance is never expected.
const (
	Wine       Cause = "Wine"       // Wine behaves differently from Windows
	PowerShell Cause = "PowerShell" // Wine has no PowerShell
	Images     Cause = "images"     // the lab's images lack a program of the upstream images
	Lab        Cause = "lab"        // the lab lacks a feature, such as a Linux node with a pod network
)

// Expectation is a failure that is expected in the lab.
type Expectation struct {
	Case  string `json:"case"`
	Cause Cause  `json:"cause"`
	// Why is a sentence that explains the failure.
	Why string `json:"why"`
	// Untried is true if the lab does not run the case.
	Untried bool `json:"untried,omitempty"`
}

// Untried returns the cases that the lab does not run.
func Untried(expected []Expectation) []string {
	var names []string
	for _, e := range expected {
		if e.Untried {
			names = append(names, e.Case)
		}
	}
	return names
}

// maxWhy is the maximum length of Why.
const maxWhy = 300

// ParseExpectations parses the list of expected failures. It rejects unknown fields and values.
func ParseExpectations(text []byte) ([]Expectation, error) {
	var list []Expectation
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("reading the expected failures: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range list {
		invalid := func(problem string) error {
			return fmt.Errorf("reading the expected failures: case %q %s", e.Case, problem)
		}
		switch {
		case SIG(e.Case) == "" || len(e.Case) > maxName:
			return nil, invalid("is not the full name of a case")
		case seen[e.Case]:
			return nil, invalid("is a duplicate")
		case !slices.Contains([]Cause{Wine, PowerShell, Images, Lab}, e.Cause):
			return nil, invalid(fmt.Sprintf("has cause %q; want %s, %s, %s or %s", e.Cause, Wine, PowerShell, Images, Lab))
		case e.Why == "" || len(e.Why) > maxWhy:
			return nil, invalid(fmt.Sprintf("needs a reason of at most %d bytes", maxWhy))
		case strings.Contains(strings.ToLower(e.Why), "flak"):
			return nil, invalid("has no cause: flaky failures are not expected")
		}
		seen[e.Case] = true
	}
	return list, nil
}

// Comparison is the result of comparing a run with the expected failures.
type Comparison struct {
	Passed, Skipped, NotRun int
	// Expected are failures with a known cause, Unexpected all others.
	Expected, Unexpected []Verdict
	// Listed are cases that passed although they are in the list of expected failures.
	Listed []Verdict
}

// Err returns an error that lists the unexpected results, or nil if all cases were run with the expected results.
func (j Comparison) Err() error {
	var lines []string
	for _, v := range j.Unexpected {
		lines = append(lines, fmt.Sprintf("failed: %s\n  %s", v.Case, v.Message))
	}
	for _, v := range j.Listed {
		lines = append(lines, "passed, so remove it from the expected failures: "+v.Case)
	}
	if j.NotRun > 0 {
		lines = append(lines, fmt.Sprintf("%d cases were not run, or not completely", j.NotRun))
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("unexpected results:\n%s", strings.Join(lines, "\n"))
}

// Compare compares a run with the list of expected failures.
func Compare(verdicts []Verdict, expected []Expectation) Comparison {
	known := map[string]bool{}
	for _, e := range expected {
		known[e.Case] = true
	}
	var j Comparison
	for _, v := range verdicts {
		switch v.State {
		case Passed:
			j.Passed++
			if known[v.Case] {
				j.Listed = append(j.Listed, v)
			}
		case Failed:
			if known[v.Case] {
				j.Expected = append(j.Expected, v)
			} else {
				j.Unexpected = append(j.Unexpected, v)
			}
		case Skipped:
			j.Skipped++
		case NotRun:
			j.NotRun++
		}
	}
	return j
}

// Totals returns a line with the numbers of cases by result.
func (j Comparison) Totals() string {
	return fmt.Sprintf("passed: %d, failed as expected: %d, failed otherwise: %d, skipped by the suite: %d, not run: %d",
		j.Passed, len(j.Expected), len(j.Unexpected), j.Skipped, j.NotRun)
}
