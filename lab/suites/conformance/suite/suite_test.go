package suite

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Cases as Kubernetes names them.
const (
	podIP    = "[sig-node] Pods should get a host IP [NodeConformance] [Conformance]"
	podLinux = "[sig-node] Pods should have a user ID [LinuxOnly] [NodeConformance] [Conformance]"
	serialDS = "[sig-apps] Daemon set [Serial] should run and stop simple daemon [Conformance]"
	beta     = "[sig-node] Pods should do more"
	density  = "[sig-windows] [Feature:Windows] Density [Serial] [Slow] create a batch of pods"
	dns      = "[sig-windows] [Feature:Windows] DNS should support configurable pod DNS servers"
	services = "[sig-network] Services should serve multiport endpoints from pods [Conformance]"
)

func everything() []string { return []string{serialDS, services, podIP, podLinux, beta, density, dns} }

func TestTheListOfTests(t *testing.T) {
	list := "The following spec names can be used with 'ginkgo run --focus/skip':\n" +
		"    ../node/pods.go:10: " + podIP + "\n    windows/dns.go:4: " + dns + "\n    windows/dns.go:9: " + dns + "\n\nW1124 a warning: with a colon\n"
	cases, err := ParseList(strings.NewReader(list))
	if diff := cmp.Diff([]string{podIP, dns}, cases); diff != "" || err != nil {
		t.Errorf("the list is read as %s (%v)", diff, err)
	}
	if _, err := ParseList(strings.NewReader(strings.Repeat("    a:1: [sig-node] x\n", maxCases+1))); err == nil {
		t.Error("a list without an end is read")
	}
}

func TestSelection(t *testing.T) {
	for name, test := range map[string]struct {
		of   Selection
		want []string
	}{
		"all that apply to Windows": {Selection{}, []string{services, podIP, density, dns}},
		"a SIG":                     {Selection{Only: "node"}, []string{podIP}},
		"a SIG with its prefix":     {Selection{Only: "sig-windows"}, []string{density, dns}},
		"the core":                  {Selection{Only: "core", Core: []string{podIP}}, []string{podIP}},
		"a row":                     {Selection{Only: "pods", Rows: map[string]string{"pods": "Pods"}}, []string{podIP}},
		"a regular expression, also for those of Linux":    {Selection{Only: `^\[sig-node\] Pods`}, []string{podIP, podLinux, beta}},
		"what has no verdict":                              {Selection{Done: []string{podIP, density}}, []string{services, dns}},
		"nothing, because everything selected has verdict": {Selection{Only: "node", Done: []string{podIP}}, nil},
	} {
		cases, err := Select(everything(), test.of)
		if diff := cmp.Diff(test.want, cases); diff != "" || err != nil {
			t.Errorf("%s: %s (%v)", name, diff, err)
		}
	}
	for name, s := range map[string]Selection{
		"no case": {Only: "no such case"}, "no expression": {Only: "("}, "an unknown core case": {Only: "core", Core: []string{"[sig-node] gone"}},
	} {
		if cases, err := Select(everything(), s); err == nil {
			t.Errorf("%s: %q are selected", name, cases)
		}
	}
}

func TestBatchesSelectTheirCasesOnly(t *testing.T) {
	batches := Batches([]string{density, podIP, beta, serialDS, dns}, 1)
	var order []string
	for _, b := range batches {
		order = append(order, b.Cases...)
		focus := regexp.MustCompile(b.Focus())
		for _, name := range append(everything(), podIP+" [more]") {
			if matches := focus.MatchString("Kubernetes e2e suite " + name); matches != (name == b.Cases[0]) {
				t.Errorf("batch %q selects %s: %t", b.Cases, name, matches)
			}
		}
	}
	if diff := cmp.Diff([]string{beta, dns, podIP, serialDS, density}, order); diff != "" {
		t.Errorf("the order is not that of SIGs in turn, and those that run alone last: %s", diff)
	}
	if whole := Batches([]string{podIP, beta, dns}, 10); len(whole) != 2 || len(whole[0].Cases) != 2 || whole[0].SIG != "node" || whole[0].Alone {
		t.Errorf("the batches are %+v", whole)
	}
}

func report(cases ...string) string {
	return `<?xml version="1.0"?><testsuites tests="2"><testsuite name="Kubernetes e2e suite"><properties><property name="a" value="b"></property></properties>` +
		strings.Join(cases, "") + `</testsuite></testsuites>`
}

func reported(name, status, inside string) string {
	return `<testcase name="` + name + `" status="` + status + `" time="1.5">` + inside + `</testcase>`
}

func TestReports(t *testing.T) {
	text := report(
		reported("[SynchronizedBeforeSuite]", "passed", ""),
		reported("[It] "+podIP, "passed", ""),
		reported("[It] "+services, "failed", "<failure type=\"failed\">[FAILED] not\n  reachable</failure><system-err>much</system-err>"),
		reported("[It] "+dns, "skipped", `<skipped message="skipped - Only supported on Windows"></skipped>`),
		reported("[It] "+density, "skipped", `<skipped message="skipped"></skipped>`),
		reported("[It] "+serialDS, "interrupted", `<error type="interrupted">Interrupted by User</error>`),
		reported("[It] "+podLinux, "passed", ""))
	verdicts, err := ParseReport(strings.NewReader(text), []string{podIP, services, dns, density, serialDS, beta})
	want := []Verdict{
		{Case: podIP, State: Passed, Seconds: 1.5}, {Case: services, State: Failed, Seconds: 1.5, Message: "not reachable"},
		{Case: dns, State: Skipped, Seconds: 1.5, Message: "Only supported on Windows"}, {Case: density, State: NotRun, Seconds: 1.5},
		{Case: serialDS, State: NotRun}, {Case: beta, State: NotRun},
	}
	if diff := cmp.Diff(want, verdicts); diff != "" || err != nil {
		t.Errorf("the verdicts are %s (%v)", diff, err)
	}
}

func TestReportsThatAreNotBelieved(t *testing.T) {
	for name, text := range map[string]string{
		"no XML":                     "{}",
		"cut off":                    report(reported("[It] "+podIP, "passed", ""))[:150],
		"an unknown status":          report(reported("[It] "+podIP, "great", "")),
		"a case twice":               report(reported("[It] "+podIP, "failed", ""), reported("[It] "+podIP, "passed", "")),
		"a name without an end":      report(reported(strings.Repeat("x", maxName+1), "passed", "")),
		"a suite that did not begin": report(reported("[SynchronizedBeforeSuite]", "failed", "<failure>no nodes</failure>")),
		"no time":                    strings.Replace(report(reported("[It] "+podIP, "passed", "")), `"1.5"`, `"soon"`, 1),
	} {
		if verdicts, err := ParseReport(strings.NewReader(text), []string{podIP}); err == nil {
			t.Errorf("%s: the verdicts are %v", name, verdicts)
		}
	}
	long := report(reported("[It] "+podIP, "failed", "<failure>"+strings.Repeat("x", 10_000)+"</failure>"))
	verdicts, err := ParseReport(strings.NewReader(long), []string{podIP})
	if err != nil || len(verdicts[0].Message) > maxMessage+3 {
		t.Errorf("a long message is kept with %d bytes (%v)", len(verdicts[0].Message), err)
	}
}

func TestVerdictsAreComparedWithExpectations(t *testing.T) {
	expected := []Expectation{{Case: services, Cause: Lab, Why: "why"}, {Case: dns, Cause: Wine, Why: "why"}, {Case: density, Cause: Wine, Why: "why"}}
	for name, test := range map[string]struct {
		verdicts []Verdict
		wrong    string // in the error; empty if the run is as expected
		totals   string
	}{
		"as expected": {
			[]Verdict{{Case: podIP, State: Passed}, {Case: services, State: Failed}, {Case: beta, State: Skipped}},
			"", "passed: 1, failed as expected: 1, failed otherwise: 0, skipped by the suite: 1, not run: 0",
		},
		"a case that was not run": {
			[]Verdict{{Case: density, State: NotRun}}, "1 cases were not run", "passed: 0, failed as expected: 0, failed otherwise: 0, skipped by the suite: 0, not run: 1",
		},
		"another failure": {
			[]Verdict{{Case: podIP, State: Failed, Message: "no IP"}}, podIP + "\n  no IP", "passed: 0, failed as expected: 0, failed otherwise: 1, skipped by the suite: 0, not run: 0",
		},
		"a listed case that passes": {
			[]Verdict{{Case: dns, State: Passed}}, "remove it from the expected failures: " + dns, "passed: 1, failed as expected: 0, failed otherwise: 0, skipped by the suite: 0, not run: 0",
		},
	} {
		j := Judge(test.verdicts, expected)
		err := j.Err()
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) || j.Totals() != test.totals {
			t.Errorf("%s: the error is %v, and the totals are %q", name, err, j.Totals())
		}
	}
}

func TestExpectationsAreStrict(t *testing.T) {
	entry := func(name, cause, reason string) string {
		return "- case: '" + name + "'\n  cause: " + cause + "\n  why: " + reason + "\n"
	}
	good := entry(services, "lab", "pods share ports")
	list, err := ParseExpectations([]byte(good + entry(dns, "Wine", "ipconfig differs")))
	if err != nil || len(list) != 2 || list[0] != (Expectation{Case: services, Cause: Lab, Why: "pods share ports"}) {
		t.Errorf("the list is read as %v (%v)", list, err)
	}
	for name, text := range map[string]string{
		"an unknown field": good + "  until: tomorrow\n", "a case twice": good + good, "an unknown cause": entry(dns, "weather", "it rains"),
		"no reason": entry(dns, "Wine", "''"), "a long reason": entry(dns, "Wine", strings.Repeat("x", maxWhy+1)),
		"chance": entry(dns, "Wine", "it is Flaky"), "no full name": entry("DNS", "Wine", "differs"), "no list": "a: b",
	} {
		if list, err := ParseExpectations([]byte(text)); err == nil {
			t.Errorf("%s: the list is read as %v", name, list)
		}
	}
}

func TestResultsOfSeveralRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result.json")
	none, err := ReadResult(path)
	if err != nil || len(none.Cases) != 0 {
		t.Fatalf("a result that does not exist is %v (%v)", none, err)
	}
	run := func(date string, verdicts ...Verdict) Result {
		return Result{Suite: "v1.36.3", Cluster: "v1.36.3", Where: "lab", Date: date, Cases: verdicts}
	}
	applying := []string{services, podIP, dns}
	first := none.Update(run("2026-11-24", Verdict{Case: podIP, State: Passed}, Verdict{Case: services, State: Failed}), applying)
	if diff := cmp.Diff([]string{services, podIP}, first.Done(first.Suite)); diff != "" {
		t.Errorf("after the first run the verdicts are %s", diff)
	}
	if err := first.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := ReadResult(path)
	if diff := cmp.Diff(first, read); diff != "" || err != nil {
		t.Errorf("what is read differs from what was written: %s (%v)", diff, err)
	}
	second := read.Update(run("2026-11-25", Verdict{Case: podIP, State: NotRun}, Verdict{Case: services, State: Passed}), applying)
	want := []Verdict{{Case: services, State: Passed}, {Case: podIP, State: Passed}, {Case: dns, State: NotRun}}
	if diff := cmp.Diff(want, second.Cases); diff != "" || second.Date != "2026-11-25" {
		t.Errorf("after the second run, of %s: %s", second.Date, diff)
	}
	other := run("2026-11-26", Verdict{Case: dns, State: Passed})
	other.Suite = "v1.37.0"
	if diff := cmp.Diff([]string{dns}, second.Update(other, applying).Done(other.Suite)); diff != "" {
		t.Errorf("another version of the suite keeps verdicts: %s", diff)
	}
	if done := second.Done(other.Suite); done != nil {
		t.Errorf("before the first run of another version of the suite, it has verdicts on %q", done)
	}
}

func TestResultsThatAreNotBelieved(t *testing.T) {
	for name, r := range map[string]Result{
		"an unknown state": {Cases: []Verdict{{Case: podIP, State: "fine"}}},
		"a case twice":     {Cases: []Verdict{{Case: podIP, State: Passed}, {Case: podIP, State: Passed}}},
	} {
		path := filepath.Join(t.TempDir(), "result.json")
		if err := r.Write(path); err != nil {
			t.Fatal(err)
		}
		if read, err := ReadResult(path); err == nil {
			t.Errorf("%s: it is read as %v", name, read)
		}
	}
}
