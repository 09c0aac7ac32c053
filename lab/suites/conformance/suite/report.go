package suite

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// State is the outcome of a case.
type State string

// States of a case.
const (
	Passed State = "passed"
	Failed State = "failed"
	// Skipped is a case that has skipped itself because it does not apply to the cluster.
	Skipped State = "skipped"
	// NotRun is a case that was not run, or not completely.
	NotRun State = "not run"
)

// Verdict is the result of a case.
type Verdict struct {
	Case    string  `json:"case"`
	State   State   `json:"state"`
	Seconds float64 `json:"seconds,omitempty"`
	// Message is the beginning of the message with which the case failed or was skipped.
	Message string `json:"message,omitempty"`
	// Version is the version of the operator in the run.
	Version string `json:"version,omitempty"`
}

const (
	// maxReport is the maximum size of a report. A report of Kubernetes 1.36 has 3 MB, in addition to the logs of failed cases.
	maxReport = 256 << 20
	// maxMessage is the maximum length of Message.
	maxMessage = 600
)

// junit is a report of the suite in JUnit's format.
type junit struct {
	XMLName xml.Name `xml:"testsuites"`
	Suites  []struct {
		Cases []junitCase `xml:"testcase"`
	} `xml:"testsuite"`
}

type junitCase struct {
	Name    string  `xml:"name,attr"`
	Status  string  `xml:"status,attr"`
	Seconds float64 `xml:"time,attr"`
	Failure string  `xml:"failure"`
	Error   string  `xml:"error"`
	Skipped *struct {
		Message string `xml:"message,attr"`
	} `xml:"skipped"`
}

// ParseReport parses the report of a process that ran cases, and returns a verdict for each of them. It returns an error if the
// report has a case twice or an unknown status, or if the suite did not start.
func ParseReport(r io.Reader, cases []string) ([]Verdict, error) {
	var report junit
	limited := &io.LimitedReader{R: r, N: maxReport}
	if err := xml.NewDecoder(limited).Decode(&report); err != nil {
		if limited.N == 0 {
			return nil, fmt.Errorf("reading a report: it is larger than %d bytes", maxReport)
		}
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	found := map[string]Verdict{}
	count := 0
	for _, s := range report.Suites {
		for _, c := range s.Cases {
			if count++; count > maxCases || len(c.Name) > maxName {
				return nil, fmt.Errorf("reading a report: it has more than %d cases, or a name of more than %d bytes", maxCases, maxName)
			}
			name, isCase := strings.CutPrefix(c.Name, "[It] ")
			v, err := c.verdict(name)
			if err != nil {
				return nil, err
			}
			if !isCase {
				if v.State == Failed && strings.Contains(c.Name, "BeforeSuite") {
					return nil, fmt.Errorf("the suite did not start: %s", v.Message)
				}
				continue
			}
			if _, twice := found[name]; twice && v.State != NotRun {
				return nil, fmt.Errorf("reading a report: it has case %q twice", name)
			}
			found[name] = v
		}
	}
	var verdicts []Verdict
	for _, name := range cases {
		v, reported := found[name]
		if !reported {
			v = Verdict{Case: name, State: NotRun}
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

func (c junitCase) verdict(name string) (Verdict, error) {
	v := Verdict{Case: name, Seconds: c.Seconds}
	switch c.Status {
	case "passed":
		v.State = Passed
	case "failed", "panicked", "timedout":
		v.State, v.Message = Failed, shorten(strings.TrimPrefix(c.Failure+c.Error, "[FAILED] "))
	case "skipped": // without a reason if the suite ended before the case started
		v.State = NotRun
		if c.Skipped != nil {
			if reason, given := strings.CutPrefix(c.Skipped.Message, "skipped - "); given {
				v.State, v.Message = Skipped, shorten(reason)
			}
		}
	case "pending", "interrupted", "aborted":
		v.State, v.Seconds = NotRun, 0
	default:
		return v, fmt.Errorf("reading a report: case %q has the unknown status %q", name, c.Status)
	}
	return v, nil
}

// shorten returns the beginning of a message as one line.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}
