package windowsupdate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// updateID returns the ID of a test's update.
func updateID(n int) string { return fmt.Sprintf("5a1c7c1e-0000-4000-8000-%012d", n) }

func TestOutcomeIsParsedStrictly(t *testing.T) {
	for name, test := range map[string]struct{ text, wrong string }{
		"outcome":           {`{"results":[{"id":"` + updateID(1) + `","result":"Succeeded"}],"restart":true}`, ""},
		"nothing":           {`{}`, ""},
		"empty":             {``, "EOF"},
		"a report":          {`{` + read + `,"total":1}`, "unknown field"},
		"second object":     {`{}{}`, "text follows"},
		"text after it":     {`{} panic:`, "text follows"},
		"code out of range": {`{"failure":{"call":"x","code":-1}}`, "cannot unmarshal"},
		"too long":          {`{"failure":{"call":"` + strings.Repeat("x", windowsupdate.MaxBytes) + `"}}`, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := windowsupdate.ParseOutcome([]byte(test.text))
			if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
				t.Errorf("ParseOutcome() = %v, want %q", err, test.wrong)
			}
		})
	}
}

// absurdOutcome returns an outcome with values that no agent should return.
func absurdOutcome() windowsupdate.Outcome {
	o := windowsupdate.Outcome{Failure: &windowsupdate.Failure{Call: strings.Repeat("\x1b[31m", 99)}}
	for n := range windowsupdate.MaxSelected + 9 {
		o.Results = append(o.Results, windowsupdate.UpdateResult{ID: updateID(n), Result: "Splendid"})
	}
	o.Results[0].ID = "{5A1C7C1E}"
	return o
}

func TestAbsurdOutcomeIsBounded(t *testing.T) {
	o := absurdOutcome()
	got := o.Bounded()
	if len(got.Results) != windowsupdate.MaxSelected || len(got.Failure.Call) > 64 || strings.Contains(got.Failure.Call, "\x1b") {
		t.Errorf("the outcome has %d results and failure %q", len(got.Results), got.Failure.Call)
	}
	if diff := cmp.Diff(windowsupdate.UpdateResult{Result: windowsupdate.ResultUnknown}, got.Results[0]); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(absurdOutcome(), o); diff != "" {
		t.Errorf("Bounded() changes the original (-want +got):\n%s", diff)
	}
}

func TestResultOfUpdateIsFound(t *testing.T) {
	o := windowsupdate.Outcome{Results: []windowsupdate.UpdateResult{
		{ID: updateID(1), Result: windowsupdate.ResultPartial}, {ID: updateID(2), Result: windowsupdate.ResultFailed, Code: 0x800f0922},
	}}
	for n, want := range map[int]struct {
		succeeded, found bool
		text             string
	}{
		1: {true, true, "succeededwitherrors"},
		2: {false, true, `failed with 0x800f0922 (the installation failed in Windows' servicing; see C:\Windows\Logs\CBS\CBS.log)`},
		3: {false, false, ""},
	} {
		r, found := o.Of(updateID(n))
		if r.Succeeded() != want.succeeded || found != want.found || r.String() != want.text {
			t.Errorf("update %d: %q, succeeded %v, found %v; want %+v", n, r, r.Succeeded(), found, want)
		}
	}
}

func TestSelectedIDsAreChecked(t *testing.T) {
	var many []string
	for n := range windowsupdate.MaxSelected + 1 {
		many = append(many, updateID(n))
	}
	for name, test := range map[string]struct {
		ids   []string
		wrong string
	}{
		"one":        {many[:1], ""},
		"most":       {many[1:], ""},
		"none":       {nil, "0 updates"},
		"too many":   {many, "33 updates"},
		"upper case": {[]string{updateID(1), strings.ToUpper(updateID(2))}, "is not an update ID"},
		"braces":     {[]string{"{" + updateID(1) + "}"}, "is not an update ID"},
		"two lines":  {[]string{updateID(1) + "\n"}, "is not an update ID"},
		"empty":      {[]string{""}, "is not an update ID"},
		"long":       {[]string{strings.Repeat("x", 1<<20)}, "is not an update ID"},
	} {
		err := windowsupdate.CheckIDs(test.ids)
		if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong) || len(err.Error()) > 200) {
			t.Errorf("%s: error %v, want %q", name, err, test.wrong)
		}
	}
}

// FuzzOutcome expects that each outcome that is accepted is bounded, and is accepted again without a change.
func FuzzOutcome(f *testing.F) {
	for _, o := range []windowsupdate.Outcome{{RestartFirst: true}, absurdOutcome()} {
		b, err := json.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"results":[{"id":"` + updateID(1) + `","result":"Failed","code":2148469026}],"restart":true}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := windowsupdate.ParseOutcome(b)
		if err != nil {
			return
		}
		if len(o.Results) > windowsupdate.MaxSelected {
			t.Errorf("an outcome has %d results", len(o.Results))
		}
		for _, r := range o.Results {
			if r.ID != "" && !windowsupdate.IsID(r.ID) {
				t.Errorf("an outcome has ID %q", r.ID)
			}
		}
		again, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		same, err := windowsupdate.ParseOutcome(again)
		if err != nil {
			t.Fatalf("a parsed outcome is rejected: %v", err)
		}
		if diff := cmp.Diff(o, same, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("an outcome changes (-first +second):\n%s", diff)
		}
	})
}
