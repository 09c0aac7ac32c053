package windowsupdate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

const day = 24 * time.Hour

func now() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

func installed(kb string, class windowsupdate.Class, daysAgo int) windowsupdate.Operation {
	return windowsupdate.Operation{Date: now().AddDate(0, 0, -daysAgo), Title: kb, KB: kb, Class: class, Result: windowsupdate.ResultSucceeded}
}

func TestNewestUpdateIsOneThatChangesWindows(t *testing.T) {
	failed, removed := installed("KB5000002", windowsupdate.Security, 1), installed("KB5000003", windowsupdate.Security, 2)
	failed.Result, removed.Uninstall = windowsupdate.ResultFailed, true
	partial := installed("KB5000004", windowsupdate.Other, 5)
	partial.Result = windowsupdate.ResultPartial
	r := windowsupdate.Report{History: []windowsupdate.Operation{
		installed("KB5000001", windowsupdate.Security, 33), failed, removed, installed("KB2267602", windowsupdate.Definition, 0), installed("KB890830", windowsupdate.Other, 3), partial,
	}}
	if newest, found := r.Newest(); !found || newest.KB != "KB5000004" {
		t.Errorf("Newest() = %+v, %v", newest, found)
	}
	r.History = r.History[1:5]
	if newest, found := r.Newest(); found {
		t.Errorf("Newest() = %+v, want none", newest)
	}
}

func TestHostIsOverdue(t *testing.T) {
	current := func(edit func(*windowsupdate.Report)) windowsupdate.Report {
		r := windowsupdate.Report{
			Read: now(), WindowsInstalled: now().AddDate(-1, 0, 0), Searched: now().Add(-day), Total: 2,
			History: []windowsupdate.Operation{installed("KB5068787", windowsupdate.Security, 44)},
		}
		edit(&r)
		return r
	}
	failure := func(call string) []windowsupdate.Failure {
		return []windowsupdate.Failure{{Call: call, Code: 0x80240438}}
	}
	for name, test := range map[string]struct {
		edit            func(r *windowsupdate.Report)
		reason, message string
	}{
		"impossible search": {func(r *windowsupdate.Report) {
			r.Searched = now().AddDate(1, 0, 0)
			*r = r.Bounded()
		}, "", ""},
		"current":     {func(*windowsupdate.Report) {}, "", ""},
		"old update":  {func(r *windowsupdate.Report) { r.History[0].Date = now().Add(-45 * day) }, api.ReasonUpdatesOverdue, "KB5068787, was installed 45 days ago; 2 updates are pending"},
		"no update":   {func(r *windowsupdate.Report) { r.History = nil }, api.ReasonUpdatesOverdue, "no installed update, and this Windows was installed 365 days ago"},
		"new Windows": {func(r *windowsupdate.Report) { r.History, r.WindowsInstalled = nil, now().Add(-44*day) }, "", ""},
		"unknown history": {func(r *windowsupdate.Report) {
			r.History, r.Failures = nil, failure(windowsupdate.CallHistory)
		}, "", ""},
		"unknown pending": {func(r *windowsupdate.Report) {
			r.History[0].Date, r.Failures = now().Add(-99*day), failure(windowsupdate.CallPending)
		}, api.ReasonUpdatesOverdue, "99 days ago; the list of missing updates could not be read"},
		"old search": {func(r *windowsupdate.Report) { r.Searched, r.Server = now().Add(-14*day), "wsus" }, api.ReasonUpdateSearchOverdue, "14 days ago: it is unknown which updates are missing; have the host search for updates from WSUS wsus"},
		"no search": {func(r *windowsupdate.Report) { r.Searched, r.NoSearches = time.Time{}, true },
			api.ReasonUpdateSearchOverdue, "has never searched for updates successfully, because a policy of the host turns automatic updates off"},
		"no search yet": {func(r *windowsupdate.Report) { r.Searched, r.WindowsInstalled = time.Time{}, now().Add(-13*day) }, "", ""},
		"unknown search": {func(r *windowsupdate.Report) {
			r.Searched, r.Failures = time.Time{}, failure(windowsupdate.CallSearched)
		}, "", ""},
		"disabled":      {func(r *windowsupdate.Report) { *r = windowsupdate.Report{Read: now(), Disabled: true} }, api.ReasonUpdateServiceDisabled, "wuauserv"},
		"nothing known": {func(r *windowsupdate.Report) { *r = windowsupdate.Report{Read: now()} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := current(test.edit)
			reason, message := r.Overdue(now(), windowsupdate.Goal{})
			if isConclusive := len(r.Failures) == 0 || r.Failures[0].Call == windowsupdate.CallPending; r.IsConclusive(windowsupdate.Goal{}) != isConclusive {
				t.Errorf("IsConclusive() = %v with failures %v", !isConclusive, r.Failures)
			}
			if reason != test.reason || !strings.Contains(message, test.message) {
				t.Errorf("Overdue() = %q, %q, want %q, %q", reason, message, test.reason, test.message)
			}
		})
	}
}

func TestHostIsOverdueByGoal(t *testing.T) {
	goal := windowsupdate.Goal{
		Revisions: map[string]int{"20348": 4405, "26100": 7171},
		Days:      14,
		Of:        windowsupdate.Selection{Classes: []windowsupdate.Class{windowsupdate.Security}, Blocked: []string{"KB5070009"}},
	}
	pending := func(kb string, class windowsupdate.Class, daysAgo int) windowsupdate.Update {
		return windowsupdate.Update{ID: "5a1c7c1e-0000-4000-8000-000000000001", Title: kb, KBs: []string{kb}, Class: class, Published: now().AddDate(0, 0, -daysAgo)}
	}
	for name, test := range map[string]struct {
		edit            func(r *windowsupdate.Report)
		reason, message string
	}{
		"lowest revision": {func(r *windowsupdate.Report) { r.Revision = 4405 }, "", ""},
		"lower revision": {func(r *windowsupdate.Report) { r.Revision = 4404 },
			api.ReasonRevisionTooLow, "revision 4404 of build 20348; spec.windowsUpdates.minimumRevisions of WindowsConfig requires 4405"},
		"other build":      {func(r *windowsupdate.Report) { r.Build = 17763 }, "", ""},
		"unknown revision": {func(r *windowsupdate.Report) { r.Revision = 0 }, "", ""},
		"late": {func(r *windowsupdate.Report) { r.Pending[0].Published = now().AddDate(0, 0, -14) },
			api.ReasonUpdateDeadlinePassed, "KB5070001 was published 14 days ago and is not installed; spec.windowsUpdates.deadlineDays of WindowsConfig allows 14 days"},
		"two late ones": {func(r *windowsupdate.Report) {
			r.Pending = append(r.Pending, pending("KB5070002", windowsupdate.Security, 20), pending("KB5070003", windowsupdate.Security, 15))
		}, api.ReasonUpdateDeadlinePassed, "KB5070002"},
		"late and waits for a restart": {func(r *windowsupdate.Report) {
			r.Pending[0].Published, r.Pending[0].RestartPending = now().AddDate(0, 0, -15), true
		}, api.ReasonUpdateDeadlinePassed, "KB5070001"},
		"late but excluded": {func(r *windowsupdate.Report) {
			r.Pending = append(r.Pending, pending("KB5070009", windowsupdate.Security, 20), pending("KB5070008", windowsupdate.Other, 20))
		}, "", ""},
		"without a date": {func(r *windowsupdate.Report) { r.Pending[0].Published = time.Time{} }, "", ""},
	} {
		r := windowsupdate.Report{
			Read: now(), Build: 20348, Revision: 5000, Searched: now().Add(-day), Total: 1,
			Pending: []windowsupdate.Update{pending("KB5070001", windowsupdate.Security, 13)}, History: []windowsupdate.Operation{installed("KB5068787", windowsupdate.Security, 20)},
		}
		test.edit(&r)
		if reason, message := r.Overdue(now(), goal); reason != test.reason || !strings.Contains(message, test.message) {
			t.Errorf("%s: Overdue() = %q, %q, want %q, %q", name, reason, message, test.reason, test.message)
		}
		if reason, _ := r.Overdue(now(), windowsupdate.Goal{}); reason != "" {
			t.Errorf("%s: without a goal, Overdue() = %q", name, reason)
		}
		r.Failures = []windowsupdate.Failure{{Call: windowsupdate.CallPending}}
		if r.IsConclusive(goal) || !r.IsConclusive(windowsupdate.Goal{Revisions: goal.Revisions}) {
			t.Errorf("%s: without pending updates, a deadline was judged, or a revision was not", name)
		}
	}
}

func TestSelectionExplainsWhatItExcludes(t *testing.T) {
	s := windowsupdate.Selection{Classes: []windowsupdate.Class{windowsupdate.Security}, Approved: []string{"KB5070001", "KB5070002"}, Blocked: []string{"KB5070003"}}
	for name, test := range map[string]struct {
		update windowsupdate.Update
		want   string
	}{
		"approved":        {windowsupdate.Update{Class: windowsupdate.Security, KBs: []string{"KB5070001"}}, ""},
		"another class":   {windowsupdate.Update{Class: windowsupdate.Other, KBs: []string{"KB5070001"}}, "class other"},
		"without article": {windowsupdate.Update{Class: windowsupdate.Security}, "no KB number"},
		"blocked":         {windowsupdate.Update{Class: windowsupdate.Security, KBs: []string{"KB5070001", "KB5070003"}}, "blocked"},
		"not approved":    {windowsupdate.Update{Class: windowsupdate.Security, KBs: []string{"KB5070004"}}, "approved"},
		"interactive":     {windowsupdate.Update{Class: windowsupdate.Security, KBs: []string{"KB5070002"}, Interactive: true}, "prompt the user"},
	} {
		got := s.Excludes(test.update)
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: Excludes() = %q, want %q", name, got, test.want)
		}
		test.update.ID = "5a1c7c1e-0000-4000-8000-000000000001"
		if s.Selects(test.update) != (test.want == "") {
			t.Errorf("%s: Selects() does not agree with Excludes()", name)
		}
	}
}

func TestUpdatesAreClassified(t *testing.T) {
	for name, test := range map[string]struct {
		categories, kbs []string
		want            windowsupdate.Class
	}{
		"security":                   {[]string{"other", "0FA1201D-4330-4FA8-8AE9-B877473B6441"}, nil, windowsupdate.Security},
		"critical, in braces":        {[]string{"{E6CF1350-C01B-414D-A61F-263D14D133B4}"}, nil, windowsupdate.Critical},
		"definition":                 {[]string{"e0789628-ce08-4437-be74-2495b842f43b"}, nil, windowsupdate.Definition},
		"platform of Defender":       {[]string{"8c3fcc84-7410-4a95-8b89-a166a0190486"}, []string{"KB4052623"}, windowsupdate.Definition},
		"definition by its article":  {nil, []string{"KB2267602"}, windowsupdate.Definition},
		"rollup":                     {[]string{"28bc880e-0592-4cbf-8f95-c79b17911d5f"}, []string{"KB890830"}, windowsupdate.Other},
		"nothing known of an update": {nil, []string{""}, windowsupdate.Other},
	} {
		if got := windowsupdate.ClassOf(test.categories, test.kbs); got != test.want {
			t.Errorf("%s: class %s, want %s", name, got, test.want)
		}
	}
}

func TestErrorsAreDescribed(t *testing.T) {
	for code, want := range map[uint32]string{
		0x80240438: "0x80240438 (there is no route or network connectivity to the update server)", 0x80240999: "0x80240999", 0x5: "0x00000005",
	} {
		if got := windowsupdate.Describe(code); got != want {
			t.Errorf("Describe(%#x) = %q, want %q", code, got, want)
		}
	}
	if got := (windowsupdate.Failure{Call: "X"}).String(); got != "X failed" {
		t.Errorf("a failure without a code is %q", got)
	}
}

// checkSummary expects that a summary fits the annotation, and is read as it was written.
func checkSummary(t *testing.T, r windowsupdate.Report, failure error) {
	t.Helper()
	want := r.Summary(failure)
	text := want.Format()
	got, err := windowsupdate.ParseSummary(text)
	if err != nil {
		t.Fatalf("summary %s is rejected: %v", text, err)
	}
	if got.Format() != text {
		t.Errorf("a summary changes:\n%s\n%s", text, got.Format())
	}
}

func TestSummaryFitsAnnotation(t *testing.T) {
	largest := absurd()
	largest.Server = strings.Repeat("x", 253)
	largest.Searched, largest.Restart, largest.NoSearches, largest.Total = now(), true, true, 1<<30
	for i := range largest.Failures {
		largest.Failures[i].Code = 0x80240438
	}
	largest.History = []windowsupdate.Operation{installed("KB50687871", windowsupdate.Security, 3)}
	largest = largest.Bounded()
	checkSummary(t, largest, errors.New(strings.Repeat("\x1b<ü\n", 9999)))
	checkSummary(t, windowsupdate.Report{}, errors.New("x"))
	got := windowsupdate.Report{
		Read: now(), Searched: now(), Total: 3, Restart: true, Pending: []windowsupdate.Update{{Class: windowsupdate.Security}, {Class: windowsupdate.Security}},
		Failures: []windowsupdate.Failure{{Call: windowsupdate.CallHistory, Code: 0x80070005}},
	}.Summary(nil).Format()
	want := `{"source":"Microsoft","searched":"2026-11-29T12:00:00Z","total":3,"pending":{"security":2},` +
		`"blocked":"installed updates wait for a restart; IUpdateSearcher.QueryHistory failed with 0x80070005 (access is denied)"}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// FuzzSummary expects that each summary that is accepted is bounded, and is accepted again without a change.
func FuzzSummary(f *testing.F) {
	f.Add(`{"source":"Microsoft","searched":"2026-11-29T12:00:00Z","kb":"KB5068787","total":3,"pending":{"security":2,"x":-1},"blocked":"\u001b["}`)
	f.Add(`{"total":-1,"newest":"0001-01-01T00:00:00Z"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := windowsupdate.ParseSummary(text)
		if err != nil {
			return
		}
		again, err := windowsupdate.ParseSummary(s.Format())
		if err == nil && again.Format() != s.Format() {
			t.Errorf("a summary changes:\n%s\n%s", s.Format(), again.Format())
		}
		if strings.ContainsAny(s.Source+s.Blocked, "\x1b\n") {
			t.Errorf("control characters remain in %q", s.Source+s.Blocked)
		}
	})
}
