package suite

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Names of cases, as in Kubernetes.
const (
	podIP    = "[sig-node] Pods should get a host IP [NodeConformance] [Conformance]"
	podLinux = "[sig-node] Pods should have a user ID [LinuxOnly] [NodeConformance] [Conformance]"
	serialDS = "[sig-apps] Daemon set [Serial] should run and stop simple daemon [Conformance]"
	beta     = "[sig-node] Pods should do more"
	density  = "[sig-windows] [Feature:Windows] Density [Serial] [Slow] create a batch of pods"
	dns      = "[sig-windows] [Feature:Windows] DNS should support configurable pod DNS servers"
	services = "[sig-network] Services should serve multiport endpoints from pods [Conformance]"
	policy   = "[sig-network] Netpol NetworkPolicy between server and client should support allow-all policy [Feature:NetworkPolicy]"
	udp      = "[sig-network] Netpol [LinuxOnly] NetworkPolicy between server and client using UDP should enforce policy based on Ports [Feature:NetworkPolicy]"
)

func allCases() []string {
	return []string{serialDS, policy, udp, services, podIP, podLinux, beta, density, dns}
}

func TestParseList(t *testing.T) {
	list := "The following spec names can be used with 'ginkgo run --focus/skip':\n" +
		"    ../node/pods.go:10: " + podIP + "\n    windows/dns.go:4: " + dns + "\n    windows/dns.go:9: " + dns + "\n\nW1124 a warning: with a colon\n"
	cases, err := ParseList(strings.NewReader(list))
	if diff := cmp.Diff([]string{podIP, dns}, cases); diff != "" || err != nil {
		t.Errorf("parsed list (error %v, -want +got):\n%s", err, diff)
	}
	if _, err := ParseList(strings.NewReader(strings.Repeat("    a:1: [sig-node] x\n", maxCases+1))); err == nil {
		t.Error("ParseList succeeded with too many cases")
	}
}

func TestSelect(t *testing.T) {
	for name, test := range map[string]struct {
		selection Selection
		want      []string
	}{
		"default":                  {Selection{}, []string{policy, services, podIP, density, dns}},
		"SIG":                      {Selection{Only: "node"}, []string{podIP}},
		"SIG with prefix":          {Selection{Only: "sig-windows"}, []string{density, dns}},
		"core":                     {Selection{Only: "core", Core: []string{podIP}}, []string{podIP}},
		"row":                      {Selection{Only: "pods", Rows: map[string]string{"pods": "Pods"}}, []string{podIP}},
		"regular expression":       {Selection{Only: `^\[sig-node\] Pods`}, []string{podIP, podLinux, beta}},
		"cases without verdict":    {Selection{Done: []string{podIP, density}}, []string{policy, services, dns}},
		"no cases without verdict": {Selection{Only: "node", Done: []string{podIP}}, nil},
	} {
		cases, err := Select(allCases(), test.selection)
		if diff := cmp.Diff(test.want, cases); diff != "" || err != nil {
			t.Errorf("%s: selected cases (error %v, -want +got):\n%s", name, err, diff)
		}
	}
	for name, s := range map[string]Selection{
		"no matching case": {Only: "no such case"}, "invalid expression": {Only: "("}, "unknown core case": {Only: "core", Core: []string{"[sig-node] gone"}},
	} {
		if cases, err := Select(allCases(), s); err == nil {
			t.Errorf("%s: selected %q, want an error", name, cases)
		}
	}
}

func TestBatches(t *testing.T) {
	batches := Batches([]string{density, podIP, beta, serialDS, dns}, 1)
	var order []string
	for _, b := range batches {
		order = append(order, b.Cases...)
		focus := regexp.MustCompile(b.Focus())
		for _, name := range append(allCases(), podIP+" [more]") {
			if matches := focus.MatchString("Kubernetes e2e suite " + name); matches != (name == b.Cases[0]) {
				t.Errorf("batch %q: focus matches %s: %t, want %t", b.Cases, name, matches, !matches)
			}
		}
	}
	if diff := cmp.Diff([]string{beta, dns, podIP, serialDS, density}, order); diff != "" {
		t.Errorf("order of batches (-want +got):\n%s", diff)
	}
	if whole := Batches([]string{podIP, beta, dns}, 10); len(whole) != 2 || len(whole[0].Cases) != 2 || whole[0].SIG != "node" || whole[0].Alone {
		t.Errorf("got batches %+v, want one for each SIG", whole)
	}
}

func report(cases ...string) string {
	return `<?xml version="1.0"?><testsuites tests="2"><testsuite name="Kubernetes e2e suite"><properties><property name="a" value="b"></property></properties>` +
		strings.Join(cases, "") + `</testsuite></testsuites>`
}

func testCase(name, status, inside string) string {
	return `<testcase name="` + name + `" status="` + status + `" time="1.5">` + inside + `</testcase>`
}

func TestParseReport(t *testing.T) {
	text := report(
		testCase("[SynchronizedBeforeSuite]", "passed", ""),
		testCase("[It] "+podIP, "passed", ""),
		testCase("[It] "+services, "failed", "<failure type=\"failed\">[FAILED] not\n  reachable</failure><system-err>much</system-err>"),
		testCase("[It] "+dns, "skipped", `<skipped message="skipped - Only supported on Windows"></skipped>`),
		testCase("[It] "+density, "skipped", `<skipped message="skipped"></skipped>`),
		testCase("[It] "+serialDS, "interrupted", `<error type="interrupted">Interrupted by User</error>`),
		testCase("[It] "+podLinux, "passed", ""))
	verdicts, err := ParseReport(strings.NewReader(text), []string{podIP, services, dns, density, serialDS, beta})
	want := []Verdict{
		{Case: podIP, State: Passed, Seconds: 1.5}, {Case: services, State: Failed, Seconds: 1.5, Message: "not reachable"},
		{Case: dns, State: Skipped, Seconds: 1.5, Message: "Only supported on Windows"}, {Case: density, State: NotRun, Seconds: 1.5},
		{Case: serialDS, State: NotRun}, {Case: beta, State: NotRun},
	}
	if diff := cmp.Diff(want, verdicts); diff != "" || err != nil {
		t.Errorf("verdicts (error %v, -want +got):\n%s", err, diff)
	}
}

func TestInvalidReportsAreRejected(t *testing.T) {
	for name, text := range map[string]string{
		"no XML":                    "{}",
		"truncated":                 report(testCase("[It] "+podIP, "passed", ""))[:150],
		"unknown status":            report(testCase("[It] "+podIP, "great", "")),
		"duplicate case":            report(testCase("[It] "+podIP, "failed", ""), testCase("[It] "+podIP, "passed", "")),
		"name that is too long":     report(testCase(strings.Repeat("x", maxName+1), "passed", "")),
		"failed start of the suite": report(testCase("[SynchronizedBeforeSuite]", "failed", "<failure>no nodes</failure>")),
		"invalid time":              strings.Replace(report(testCase("[It] "+podIP, "passed", "")), `"1.5"`, `"soon"`, 1),
	} {
		if verdicts, err := ParseReport(strings.NewReader(text), []string{podIP}); err == nil {
			t.Errorf("%s: got verdicts %v, want an error", name, verdicts)
		}
	}
	long := report(testCase("[It] "+podIP, "failed", "<failure>"+strings.Repeat("x", 10_000)+"</failure>"))
	verdicts, err := ParseReport(strings.NewReader(long), []string{podIP})
	if err != nil || len(verdicts[0].Message) > maxMessage+3 {
		t.Errorf("got a message of %d bytes (error %v), want at most %d", len(verdicts[0].Message), err, maxMessage+3)
	}
}

func TestCompare(t *testing.T) {
	expected := []Expectation{{Case: services, Cause: Lab, Why: "why"}, {Case: dns, Cause: Wine, Why: "why"}, {Case: density, Cause: Wine, Why: "why"}}
	for name, test := range map[string]struct {
		verdicts []Verdict
		wantErr  string // "" for success
		totals   string
	}{
		"as expected": {
			[]Verdict{{Case: podIP, State: Passed}, {Case: services, State: Failed}, {Case: beta, State: Skipped}},
			"", "passed: 1, failed as expected: 1, failed otherwise: 0, skipped by the suite: 1, not run: 0",
		},
		"case that was not run": {
			[]Verdict{{Case: density, State: NotRun}}, "1 cases were not run", "passed: 0, failed as expected: 0, failed otherwise: 0, skipped by the suite: 0, not run: 1",
		},
		"unexpected failure": {
			[]Verdict{{Case: podIP, State: Failed, Message: "no IP"}}, podIP + "\n  no IP", "passed: 0, failed as expected: 0, failed otherwise: 1, skipped by the suite: 0, not run: 0",
		},
		"expected failure that passes": {
			[]Verdict{{Case: dns, State: Passed}}, "remove it from the expected failures: " + dns, "passed: 1, failed as expected: 0, failed otherwise: 0, skipped by the suite: 0, not run: 0",
		},
	} {
		j := Compare(test.verdicts, expected)
		err := j.Err()
		if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) || j.Totals() != test.totals {
			t.Errorf("%s: got error %v and totals %q, want %q and %q", name, err, j.Totals(), test.wantErr, test.totals)
		}
	}
}

func TestParseExpectations(t *testing.T) {
	entry := func(name, cause, reason string) string {
		return "- case: '" + name + "'\n  cause: " + cause + "\n  why: " + reason + "\n"
	}
	good := entry(services, "lab", "pods share ports")
	list, err := ParseExpectations([]byte(good + entry(dns, "Wine", "ipconfig differs")))
	if err != nil || len(list) != 2 || list[0] != (Expectation{Case: services, Cause: Lab, Why: "pods share ports"}) {
		t.Errorf("got expectations %v (error %v), want two", list, err)
	}
	for name, text := range map[string]string{
		"unknown field": good + "  until: tomorrow\n", "duplicate case": good + good, "unknown cause": entry(dns, "weather", "it rains"),
		"no reason": entry(dns, "Wine", "''"), "long reason": entry(dns, "Wine", strings.Repeat("x", maxWhy+1)),
		"flaky case": entry(dns, "Wine", "it is Flaky"), "incomplete name": entry("DNS", "Wine", "differs"), "no list": "a: b",
	} {
		if list, err := ParseExpectations([]byte(text)); err == nil {
			t.Errorf("%s: got expectations %v, want an error", name, list)
		}
	}
}

func TestUpdateMergesRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result.json")
	none, err := ReadResult(path)
	if err != nil || len(none.Cases) != 0 {
		t.Fatalf("got result %v (error %v) without a file, want an empty one", none, err)
	}
	run := func(date string, verdicts ...Verdict) Result {
		return Result{Suite: "v1.36.3", Cluster: "v1.36.3", Where: "lab", Date: date, Cases: verdicts}
	}
	applying := []string{services, podIP, dns}
	first := none.Update(run("2026-11-24", Verdict{Case: podIP, State: Passed}, Verdict{Case: services, State: Failed}), applying)
	if diff := cmp.Diff([]string{services, podIP}, first.Done(first.Suite)); diff != "" {
		t.Errorf("cases with verdicts after the first run (-want +got):\n%s", diff)
	}
	if err := first.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := ReadResult(path)
	if diff := cmp.Diff(first, read); diff != "" || err != nil {
		t.Errorf("result that was written and read (error %v, -want +got):\n%s", err, diff)
	}
	second := read.Update(run("2026-11-25", Verdict{Case: podIP, State: NotRun}, Verdict{Case: services, State: Passed}), applying)
	want := []Verdict{{Case: services, State: Passed}, {Case: podIP, State: Passed}, {Case: dns, State: NotRun}}
	if diff := cmp.Diff(want, second.Cases); diff != "" || second.Date != "2026-11-25" {
		t.Errorf("verdicts after the second run, with date %s (-want +got):\n%s", second.Date, diff)
	}
	other := run("2026-11-26", Verdict{Case: dns, State: Passed})
	other.Suite = "v1.37.0"
	if diff := cmp.Diff([]string{dns}, second.Update(other, applying).Done(other.Suite)); diff != "" {
		t.Errorf("cases with verdicts after a run of another version (-want +got):\n%s", diff)
	}
	if done := second.Done(other.Suite); done != nil {
		t.Errorf("got verdicts on %q for another version, want none", done)
	}
}

func TestInvalidResultsAreRejected(t *testing.T) {
	for name, r := range map[string]Result{
		"unknown state":  {Cases: []Verdict{{Case: podIP, State: "fine"}}},
		"duplicate case": {Cases: []Verdict{{Case: podIP, State: Passed}, {Case: podIP, State: Passed}}},
	} {
		path := filepath.Join(t.TempDir(), "result.json")
		if err := r.Write(path); err != nil {
			t.Fatal(err)
		}
		if read, err := ReadResult(path); err == nil {
			t.Errorf("%s: got result %v, want an error", name, read)
		}
	}
}
