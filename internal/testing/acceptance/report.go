package acceptance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Verdict is the result for a line.
type Verdict string

// The verdicts.
const (
	Confirmed Verdict = "confirmed"
	Refuted   Verdict = "refuted"
	Untried   Verdict = "could not be tried"
)

// slowFact is the time from which the duration of a fact is reported, in seconds.
const slowFact = 10

// maxSeen is the maximum size of the text of an answer, in bytes: a failing test can print much.
const maxSeen = 4 << 10

// Report is the result of a run. Names and addresses of the machine are replaced by hashes with a salt that no other report uses.
type Report struct {
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"` // missing in the report of an interrupted run
	// Refused is why nothing was tested; empty if the run tested something.
	Refused string `json:"refused,omitempty"`
	// Machine is the Windows version of the machine.
	Machine Windows `json:"machine"`
	// Facts are the facts about Windows, including those that probes recorded.
	Facts []Fact `json:"facts,omitempty"`
	// Notes are events outside the lines, such as restarts.
	Notes []string `json:"notes,omitempty"`
	// Lines are the answers, in the order of the document.
	Lines []Answer `json:"lines"`
	// Tests are the results of the contract tests.
	Tests []TestResult `json:"tests,omitempty"`
	// Left lists the changes that could not be undone.
	Left []string `json:"left,omitempty"`

	logs map[string]string // name -> the end of a log, for Archive
}

// Windows is a version of Windows. Wine is true if Wine only emulates it.
type Windows struct {
	Product      string `json:"product"`
	Build        int    `json:"build"`
	UBR          int    `json:"ubr"`
	Installation string `json:"installation"`
	Architecture string `json:"architecture"`
	Wine         bool   `json:"wine"`
}

// Answer is the result for one line.
type Answer struct {
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Claim   string  `json:"claim,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Seen is what was observed, or why the line could not be tried.
	Seen    string  `json:"seen,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// setVerdict sets the verdict from the return values of a probe.
func (a *Answer) setVerdict(seen string, err error) {
	switch {
	case err == nil:
		a.Verdict, a.Seen = Confirmed, seen
	case errors.Is(err, errUntried):
		a.Verdict, a.Seen = Untried, strings.TrimPrefix(err.Error(), errUntried.Error()+": ")
	default:
		a.Verdict, a.Seen = Refuted, err.Error()
	}
	a.Seen = truncate.Text(a.Seen, maxSeen)
}

func newReport(version string) Report {
	return Report{Version: version, Started: time.Now().UTC()}
}

// windows returns the Windows version in the facts.
func (s *session) windows() Windows {
	f := s.facts
	return Windows{Product: f.Product, Build: f.Build, UBR: f.UBR, Installation: f.Installation, Architecture: f.Architecture, Wine: s.Wine}
}

// hiddenTests returns the results of tests, with hidden names, for the report.
func (s *session) hiddenTests() (results []TestResult) {
	for _, t := range s.tests {
		t.Output = s.redact.text(t.Output)
		results = append(results, t)
	}
	return results
}

// Refuted reports whether a line was refuted or a contract test failed.
func (r Report) Refuted() bool {
	return r.count(Refuted) > 0 || slices.ContainsFunc(r.Tests, func(t TestResult) bool { return t.Result == failedTest })
}

func (r Report) count(v Verdict) (n int) {
	for _, a := range r.Lines {
		if a.Verdict == v {
			n++
		}
	}
	return n
}

// Summary returns the report for people, in Markdown.
func (r Report) Summary() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "# Acceptance of %s\n\n%s, build %d.%d, %s, %s, %s\n\n", r.Version, m.Product, m.Build, m.UBR, m.Installation, m.Architecture,
		r.Started.Format("2006-01-02 15:04 MST"))
	if m.Wine {
		b.WriteString("This is Wine. The verdicts show whether the program works and prove nothing about Windows.\n\n")
	}
	if r.Refused != "" {
		fmt.Fprintf(&b, "Nothing was tested: %s\n\n", r.Refused)
	}
	if r.Finished.IsZero() {
		b.WriteString("The run has not finished.\n\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "Note: %s\n\n", note)
	}
	for _, left := range r.Left {
		fmt.Fprintf(&b, "Not reverted: %s\n\n", left)
	}
	fmt.Fprintf(&b, "%d confirmed, %d refuted, %d could not be tried\n", r.count(Confirmed), r.count(Refuted), r.count(Untried))
	for _, v := range []Verdict{Refuted, Confirmed, Untried} {
		if r.count(v) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s%s\n\n", strings.ToUpper(string(v[:1])), v[1:])
		for _, a := range r.Lines {
			if a.Verdict == v {
				b.WriteString(a.summary())
			}
		}
	}
	return b.String() + r.summaryOfTests() + r.summaryOfFacts()
}

// summaryOfFacts lists the facts that could not be collected or took long. All are in report.json.
func (r Report) summaryOfFacts() string {
	if len(r.Facts) == 0 {
		return ""
	}
	text := fmt.Sprintf("\n## Facts\n\nreport.json has %d.\n\n", len(r.Facts))
	for _, f := range r.Facts {
		if f.Error != "" || f.Seconds >= slowFact {
			text += strings.TrimSuffix(fmt.Sprintf("- %s, %.1f s: %s", f.Name, f.Seconds, truncate.Text(strings.Join(strings.Fields(f.Error), " "), 200)), ": ") + "\n"
		}
	}
	return text
}

func (a Answer) summary() string {
	text := fmt.Sprintf("- %s (`%s`)", a.Title, a.ID)
	if a.Claim != "" {
		text += ": " + a.Claim
	}
	if a.Seen != "" {
		text += "\n  " + strings.ReplaceAll(a.Seen, "\n", "\n  ")
	}
	return text + "\n"
}

func (r Report) summaryOfTests() string {
	if len(r.Tests) == 0 {
		return ""
	}
	count := map[string]int{}
	failed := ""
	for _, t := range r.Tests {
		count[t.Result]++
		if t.Result == failedTest {
			failed += fmt.Sprintf("\n%s:\n\n```\n%s\n```\n", t.Name, strings.TrimSpace(t.Output))
		}
	}
	return fmt.Sprintf("\n## Tests of the code that calls Windows\n\n%d passed, %d failed, %d skipped\n%s", count[passedTest], count[failedTest], count[skippedTest], failed)
}

// Plan returns a description of what a run of these lines tries and changes.
func Plan(lines []Line) string {
	var b strings.Builder
	b.WriteString("This program tests the following and reverts its changes. It takes about five minutes.\n")
	tests := false
	for _, l := range lines {
		switch {
		case l.Reason != "":
			continue
		case l.Try == nil:
			tests = true
		case l.Changes == "":
			fmt.Fprintf(&b, "  %s: changes nothing\n", l.ID)
		default:
			fmt.Fprintf(&b, "  %s: %s\n", l.ID, l.Changes)
		}
	}
	if tests {
		b.WriteString("  contract tests: they create services wicd-contract-* and wicd-test, environment variables WICD_CONTRACT_*, root\n" +
			"    certificates \"WICD contract\" and \"WICD test\", and routes to 203.0.113.9/32 and 198.51.100.0/28, and remove them\n")
	}
	fmt.Fprintf(&b, "If it is interrupted, start it again, or with --restore: the journal in %s lists the changes to revert.\n", Root)
	return b.String()
}
