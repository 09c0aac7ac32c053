package readiness

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/lab/suites/conformance/suite"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

var update = flag.Bool("update", false, "write docs/readiness.md")

const (
	document     = "../../../../docs/readiness.md"
	resultFile   = "../result.json"
	expectedFile = "../expected.yaml"
)

func committed(t *testing.T) (suite.Result, []suite.Expectation, []Row) {
	t.Helper()
	result, err := suite.ReadResult(resultFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(expectedFile)
	if err != nil {
		t.Fatal(err)
	}
	expected, err := suite.ParseExpectations(text)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	return result, expected, rows
}

// TestDocumentIsUpToDate compares docs/readiness.md with the committed result. -update writes the document.
func TestDocumentIsUpToDate(t *testing.T) {
	result, expected, rows := committed(t)
	want := Render(rows, result, expected)
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/readiness.md does not match lab/suites/conformance/result.json; run this test with -update (-want +got):\n%s", diff)
	}
}

func TestListsHaveOnlyCasesOfTheSuite(t *testing.T) {
	result, expected, rows := committed(t)
	if len(result.Cases) == 0 {
		t.Fatal("the committed result has no cases")
	}
	known := map[string]bool{}
	var all []string
	for _, v := range result.Cases {
		known[v.Case] = true
		all = append(all, v.Case)
	}
	for _, r := range rows {
		if cases := regexp.MustCompile(r.Cases); r.Cases != "" && !cases.MatchString(strings.Join(all, "\n")) && !anyMatches(cases, all) {
			t.Errorf("row %s matches no case", r.Name)
		}
	}
	for _, e := range expected {
		if !known[e.Case] {
			t.Errorf("expected.yaml has %q, which is not a case that applies to Windows", e.Case)
		}
	}
	core, err := os.ReadFile("../core.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(core)) {
		if !known[strings.TrimSpace(name)] {
			t.Errorf("core.txt has %q, which is not a case that applies to Windows", name)
		}
	}
}

// TestResultIsOfThisSuite compares the committed result with the suite that make conformance builds: a new version needs a new run.
func TestResultIsOfThisSuite(t *testing.T) {
	result, _, _ := committed(t)
	if want := payloadtest.Required(t, "../../upstream", "k8s.io/kubernetes"); result.Suite != want || result.Cluster == "" || result.Date == "" {
		t.Errorf("result.json is of suite %s, cluster %q, %q; want suite %s: run make conformance", result.Suite, result.Cluster, result.Date, want)
	}
}

// TestCIRunsTenPolicyCases checks the row that step e2e-policies runs.
func TestCIRunsTenPolicyCases(t *testing.T) {
	result, _, rows := committed(t)
	cases := regexp.MustCompile(Names(rows)["ready-policy"])
	var selected []string
	for _, v := range result.Cases {
		if cases.MatchString(v.Case) {
			selected = append(selected, v.Case)
		}
	}
	if len(selected) != 10 {
		t.Errorf("row ready-policy selects %d cases, want 10: %q", len(selected), selected)
	}
}

func anyMatches(expression *regexp.Regexp, names []string) bool {
	for _, name := range names {
		if expression.MatchString(name) {
			return true
		}
	}
	return false
}

func TestOutcomes(t *testing.T) {
	const a, b, c, d = "[sig-node] a", "[sig-node] b", "[sig-node] c", "[sig-node] d"
	known := map[string]suite.Expectation{
		b: {Case: b, Cause: suite.Wine, Why: "it has none"}, c: {Case: c, Cause: suite.Lab, Why: "no directory", Untried: true},
	}
	row := Row{Name: "row", Cases: `^\[sig-node\]`}
	for name, test := range map[string]struct {
		row      Row
		verdicts []suite.Verdict
		want     string
	}{
		"all passed":         {row, []suite.Verdict{{Case: a, State: suite.Passed}, {Case: d, State: suite.Passed}}, "passed: 2"},
		"no case was run":    {row, []suite.Verdict{{Case: a, State: suite.NotRun}}, "not run: 1"},
		"expected failure":   {row, []suite.Verdict{{Case: a, State: suite.Passed}, {Case: b, State: suite.Failed}}, "passed: 1, failed: 1 (Wine: it has none)"},
		"unexpected failure": {row, []suite.Verdict{{Case: a, State: suite.Failed}}, "failed: 1 (cause not known)"},
		"untried case":       {row, []suite.Verdict{{Case: c, State: suite.NotRun}}, "cannot be tried in the lab: 1 (no directory)"},
		"skipped case":       {row, []suite.Verdict{{Case: a, State: suite.Skipped, Message: "needs | a GPU"}}, `skipped by the suite: 1 (needs \| a GPU)`},
		"other cases":        {row, []suite.Verdict{{Case: "[sig-apps] a", State: suite.Passed}}, "no such case in this version"},
		"no cases":           {Row{Why: "upstream has none"}, nil, "cannot be tried in the lab: upstream has none"},
	} {
		if outcome := test.row.outcome(test.verdicts, known); outcome != test.want {
			t.Errorf("%s: got outcome %q, want %q", name, outcome, test.want)
		}
	}
}

func TestParseRows(t *testing.T) {
	const good = "- {name: a, table: kep, feature: f, cases: x}\n"
	if rows, err := parseRows([]byte(good)); err != nil || len(rows) != 1 {
		t.Errorf("got rows %v (error %v), want one", rows, err)
	}
	for name, text := range map[string]string{
		"unknown field": "- {name: a, table: kep, feature: f, cases: x, more: y}", "duplicate name": good + good, "unknown table": "- {name: a, table: b, feature: f, cases: x}",
		"neither cases nor reason": "- {name: a, table: kep, feature: f}", "cases and reason": "- {name: a, table: kep, feature: f, cases: x, why: y}",
		"invalid expression": "- {name: a, table: kep, feature: f, cases: (}", "no feature": "- {name: a, table: kep, cases: x}", "name with spaces": "- {name: a b, table: kep, feature: f, cases: x}",
	} {
		if rows, err := parseRows([]byte(text)); err == nil {
			t.Errorf("%s: got rows %v, want an error", name, rows)
		}
	}
}
