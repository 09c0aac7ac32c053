package windowsupdate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

const read = `"read":"2026-11-29T12:00:00Z"`

func TestReportIsParsedStrictly(t *testing.T) {
	for name, test := range map[string]struct{ text, wrong string }{
		"report":            {`{` + read + `,"total":1,"pending":[{"title":"x","class":"security"}]}`, ""},
		"empty":             {``, "EOF"},
		"no date":           {`{"total":1}`, "no date"},
		"date of 1601":      {`{"read":"1601-01-01T00:00:00Z"}`, "no date"},
		"unknown field":     {`{` + read + `,"password":"x"}`, "unknown field"},
		"second object":     {`{` + read + `}{` + read + `}`, "text follows"},
		"text after it":     {`{` + read + `} panic:`, "text follows"},
		"number as a title": {`{` + read + `,"pending":[{"title":5}]}`, "cannot unmarshal"},
		"code out of range": {`{` + read + `,"history":[{"title":"x","code":4294967296}]}`, "cannot unmarshal"},
		"too long":          {`{` + read + `,"server":"` + strings.Repeat("x", windowsupdate.MaxBytes) + `"}`, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := windowsupdate.Parse([]byte(test.text))
			if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
				t.Errorf("Parse() = %v, want %q", err, test.wrong)
			}
		})
	}
}

// absurd returns a report with values that no agent should return.
func absurd() windowsupdate.Report {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	r := windowsupdate.Report{
		Read: now, Searched: now.AddDate(3, 0, 0), WindowsInstalled: time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC), Server: "wsus\x1b[31m.example.com", Total: -5,
	}
	for range windowsupdate.MaxPending + 50 {
		r.Pending = append(r.Pending, windowsupdate.Update{
			ID: "{5A1C7C1E}", Revision: -1, Title: strings.Repeat("très long\n", 1100) + "\x1b[31m", KBs: []string{"", "KB1", "KB5068787", "5068787", "../KB5068787"},
			Class: "evil", Severity: "Apocalyptic", Restart: "Now", Deadline: now.AddDate(900, 0, 0), Published: now.AddDate(0, 0, 9),
		})
		r.History = append(r.History, windowsupdate.Operation{Date: now.AddDate(0, 0, 9), Title: "\xff\xfe", KB: "KB", Class: "", Result: "Splendid"})
		r.Failures = append(r.Failures, windowsupdate.Failure{Call: strings.Repeat("x", 999)})
	}
	return r
}

func TestAbsurdValuesAreBounded(t *testing.T) {
	r := absurd().Bounded()
	if len(r.Pending) != windowsupdate.MaxPending || len(r.History) != windowsupdate.MaxHistory || len(r.Failures) != 8 || r.Total != windowsupdate.MaxPending {
		t.Errorf("the report has %d of %d updates, %d operations and %d failures", len(r.Pending), r.Total, len(r.History), len(r.Failures))
	}
	if !r.Searched.IsZero() || !r.WindowsInstalled.IsZero() || r.Server != "invalid" {
		t.Errorf("impossible values are kept: %s, %s, %q", r.Searched, r.WindowsInstalled, r.Server)
	}
	u, o := r.Pending[0], r.History[0]
	if len(u.Title) > 256 || strings.ContainsAny(u.Title, "\n\x1b") {
		t.Errorf("the title is %q", u.Title)
	}
	u.Title = ""
	if diff := cmp.Diff(windowsupdate.Update{KBs: []string{"KB5068787"}, Class: windowsupdate.Other}, u); diff != "" {
		t.Errorf("update (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(windowsupdate.Operation{Class: windowsupdate.Other, Result: windowsupdate.ResultUnknown}, o); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
	b, err := json.Marshal(r)
	if err != nil || len(b) > windowsupdate.MaxBytes {
		t.Errorf("the largest report has %d bytes, %v", len(b), err)
	}
}

func TestServerIsReportedByHostName(t *testing.T) {
	for address, want := range map[string]string{
		"": "", " ": "", "http://wsus.example.com:8530": "wsus.example.com", "https://user:secret@WSUS:8531/x?y=z": "WSUS", "https://10.0.0.7": "10.0.0.7",
		"https://[fd00::7]:8531": "fd00::7", "wsus": "invalid", "http://": "invalid", "http://a b": "invalid", "http://-x": "invalid", "%": "invalid",
	} {
		if got := windowsupdate.HostOf(address); got != want {
			t.Errorf("HostOf(%q) = %q, want %q", address, got, want)
		}
	}
}

// FuzzReport expects that each report that is accepted is bounded, and is accepted again without a change.
func FuzzReport(f *testing.F) {
	for _, r := range []windowsupdate.Report{{Read: time.Unix(1764000000, 0)}, absurd()} {
		b, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{` + read + `,"server":"x","total":3,"history":[{"title":"KB5068787","date":"2026-11-01T00:00:00+14:00","result":"Succeeded"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := windowsupdate.Parse(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		same, err := windowsupdate.Parse(again)
		if err != nil {
			t.Fatalf("a parsed report is rejected: %v", err)
		}
		if diff := cmp.Diff(r, same, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("a report changes (-first +second):\n%s", diff)
		}
		checkSummary(t, r, fmt.Errorf("%s", b))
		r.Overdue(r.Read, windowsupdate.Goal{})
	})
}
