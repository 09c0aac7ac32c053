package suite

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Cause is what makes a case fail in the lab.
type Cause string

// Causes of failures. None is the product, and none is chance.
const (
	Wine       Cause = "Wine"       // does not do what Windows does
	PowerShell Cause = "PowerShell" // does not exist on Wine
	Images     Cause = "images"     // of the lab lack a program of upstream's
	Lab        Cause = "lab"        // does not have it, such as a Linux node with a pod network
)

// Expectation is a failure that is expected in the lab.
type Expectation struct {
	Case  string `json:"case"`
	Cause Cause  `json:"cause"`
	// Why is a sentence about what is missing.
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

// maxWhy is the length of the sentence.
const maxWhy = 300

// ParseExpectations reads the list of expected failures, strictly.
func ParseExpectations(text []byte) ([]Expectation, error) {
	var list []Expectation
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("reading the expected failures: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range list {
		wrong := func(what string) error { return fmt.Errorf("reading the expected failures: case %q %s", e.Case, what) }
		switch {
		case SIG(e.Case) == "" || len(e.Case) > maxName:
			return nil, wrong("is not the full name of a case")
		case seen[e.Case]:
			return nil, wrong("is there twice")
		case !slices.Contains([]Cause{Wine, PowerShell, Images, Lab}, e.Cause):
			return nil, wrong(fmt.Sprintf("has the cause %q; want %s, %s, %s or %s", e.Cause, Wine, PowerShell, Images, Lab))
		case e.Why == "" || len(e.Why) > maxWhy:
			return nil, wrong(fmt.Sprintf("needs a reason of at most %d bytes", maxWhy))
		case strings.Contains(strings.ToLower(e.Why), "flak"):
			return nil, wrong("has no cause: a case is not expected to fail by chance")
		}
		seen[e.Case] = true
	}
	return list, nil
}

// Judgement is a run compared with what is expected of it.
type Judgement struct {
	Passed, Skipped, NotRun int
	// Expected are failures with a known cause, Unexpected all others.
	Expected, Unexpected []Verdict
	// Listed are cases that pass, although they are in the list of expected failures.
	Listed []Verdict
}

// Err is nil if all cases were run and went as expected; else it names what did not.
func (j Judgement) Err() error {
	var lines []string
	for _, v := range j.Unexpected {
		lines = append(lines, fmt.Sprintf("failed: %s\n  %s", v.Case, v.Message))
	}
	for _, v := range j.Listed {
		lines = append(lines, "passed, so remove it from the expected failures: "+v.Case)
	}
	if j.NotRun > 0 {
		lines = append(lines, fmt.Sprintf("%d cases were not run to their end", j.NotRun))
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("the run did not go as expected:\n%s", strings.Join(lines, "\n"))
}

// Judge compares a run with the list of expected failures.
func Judge(verdicts []Verdict, expected []Expectation) Judgement {
	known := map[string]bool{}
	for _, e := range expected {
		known[e.Case] = true
	}
	var j Judgement
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

// Totals is the line of a run's totals.
func (j Judgement) Totals() string {
	return fmt.Sprintf("passed: %d, failed as expected: %d, failed otherwise: %d, skipped by the suite: %d, not run: %d",
		j.Passed, len(j.Expected), len(j.Unexpected), j.Skipped, j.NotRun)
}
