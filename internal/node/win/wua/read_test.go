package wua

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// fake is an object with these members. A list is what a method with an index returns, an error what a call returns.
type fake map[string]any

func (f fake) get(name string, arguments ...any) (any, error) {
	v, found := f[name]
	if !found {
		return nil, codeError(0x80020006)
	}
	switch v := v.(type) {
	case []any:
		if i := arguments[0].(int64); i < int64(len(v)) {
			return v[i], nil
		}
		return nil, codeError(0x80240007) // WU_E_INVALIDINDEX
	case func(arguments ...any) (any, error):
		return v(arguments...)
	case error:
		return nil, v
	}
	return v, nil
}

func (f fake) put(property string, value any) error {
	if err, ok := f["put "+property].(error); ok {
		return err
	}
	f["put "+property] = value
	return nil
}

func collection(items ...any) fake { return fake{"Count": int64(len(items)), "Item": items} }

// agent is a whole agent, with one pending update and one installed one.
type agent struct{ session, searcher, result, updates, update, history, entry, auto, system fake }

func newAgent() *agent {
	searched := time.Date(2026, 11, 28, 4, 0, 0, 0, time.UTC)
	a := &agent{
		update: fake{
			"Title": "2026-11 Cumulative Update (KB5070000)", "MsrcSeverity": "Critical", "IsDownloaded": true, "RebootRequired": false, "Deadline": nil,
			"Identity":             fake{"UpdateID": "5A1C7C1E-0000-4000-8000-000000000001", "RevisionNumber": int64(201)},
			"KBArticleIDs":         collection("5070000"),
			"Categories":           collection(fake{"CategoryID": "0fa1201d-4330-4fa8-8ae9-b877473b6441"}),
			"InstallationBehavior": fake{"RebootBehavior": int64(1), "CanRequestUserInput": true}, "LastDeploymentChangeTime": searched.AddDate(0, 0, -3),
		},
		entry: fake{
			"Title": "Update (KB5068787)", "Date": searched.AddDate(0, -1, 0), "Operation": int64(1), "ResultCode": int64(4), "HResult": int64(-2145123272),
		},
		auto:   fake{"Results": fake{"LastSearchSuccessDate": searched}},
		system: fake{"RebootRequired": true},
	}
	a.history = collection(a.entry)
	a.updates = collection(a.update)
	a.result = fake{"Updates": a.updates, "ResultCode": int64(2)}
	a.searcher = fake{"Search": a.result, "GetTotalHistoryCount": int64(1), "QueryHistory": a.history}
	a.session = fake{"CreateUpdateSearcher": a.searcher}
	return a
}

func (a *agent) create(class string) (object, error) {
	objects := map[string]fake{classSession: a.session, classAutoUpdate: a.auto, classSystemInfo: a.system}
	if objects[class] == nil {
		return nil, codeError(0x80040154)
	}
	return objects[class], nil
}

func (a *agent) read(s settings) windowsupdate.Report { return read(a.create, s, now(), false) }

func now() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

func TestAgentIsReadOffline(t *testing.T) {
	a := newAgent()
	got := a.read(settings{server: "https://wsus.example.com:8531/", noAutoUpdate: true})
	want := windowsupdate.Report{
		Read: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Searched: time.Date(2026, 11, 28, 4, 0, 0, 0, time.UTC), Server: "wsus.example.com", NoSearches: true,
		Restart: true, Total: 1,
		Pending: []windowsupdate.Update{{
			ID: "5a1c7c1e-0000-4000-8000-000000000001", Revision: 201, Title: "2026-11 Cumulative Update (KB5070000)", KBs: []string{"KB5070000"},
			Class: windowsupdate.Security, Severity: "Critical", Downloaded: true, Restart: windowsupdate.RestartAlways, Interactive: true,
			Published: time.Date(2026, 11, 25, 4, 0, 0, 0, time.UTC),
		}},
		History: []windowsupdate.Operation{{
			Date: time.Date(2026, 10, 28, 4, 0, 0, 0, time.UTC), Title: "Update (KB5068787)", KB: "KB5068787", Class: windowsupdate.Other,
			Result: windowsupdate.ResultFailed, Code: 0x80240438,
		}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if a.searcher["put Online"] != false {
		t.Errorf("the searcher's Online is %v, want false", a.searcher["put Online"])
	}
}

func TestFailedPartsAreReported(t *testing.T) {
	unreachable := codeError(0x80240438)
	for name, test := range map[string]struct {
		edit func(a *agent)
		want []windowsupdate.Failure
	}{
		"search fails":             {func(a *agent) { a.searcher["Search"] = unreachable }, []windowsupdate.Failure{{Call: windowsupdate.CallPending, Code: 0x80240438}}},
		"history fails":            {func(a *agent) { a.searcher["QueryHistory"] = unreachable }, []windowsupdate.Failure{{Call: windowsupdate.CallHistory, Code: 0x80240438}}},
		"result is nothing":        {func(a *agent) { a.searcher["Search"] = nil }, []windowsupdate.Failure{{Call: windowsupdate.CallPending}}},
		"count is a text":          {func(a *agent) { a.updates["Count"] = "7" }, []windowsupdate.Failure{{Call: windowsupdate.CallPending}}},
		"dates are unknown":        {func(a *agent) { a.auto["Results"] = fake{} }, []windowsupdate.Failure{{Call: windowsupdate.CallSearched, Code: 0x80020006}}},
		"no information of system": {func(a *agent) { a.system = nil }, []windowsupdate.Failure{{Call: windowsupdate.CallRestart, Code: 0x80040154}}},
		"searcher is online": {func(a *agent) { a.searcher["put Online"] = unreachable }, []windowsupdate.Failure{
			{Call: windowsupdate.CallHistory, Code: 0x80240438}, {Call: windowsupdate.CallPending, Code: 0x80240438},
		}},
		"no agent": {func(a *agent) { *a = agent{} }, []windowsupdate.Failure{
			{Call: windowsupdate.CallSearched, Code: 0x80040154}, {Call: windowsupdate.CallRestart, Code: 0x80040154},
			{Call: windowsupdate.CallHistory, Code: 0x80040154}, {Call: windowsupdate.CallPending, Code: 0x80040154},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent()
			test.edit(a)
			if diff := cmp.Diff(test.want, a.read(settings{}).Failures); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSearchPrecedesReport: the first search is online, the one for the report is not.
func TestSearchPrecedesReport(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(a *agent)
		want    []windowsupdate.Failure
		pending int
	}{
		"succeeds":             {func(*agent) {}, nil, 1},
		"succeeds with errors": {func(a *agent) { a.result["ResultCode"] = int64(3) }, nil, 1},
		"fails": {func(a *agent) {
			a.searcher["Search"] = func(...any) (any, error) {
				if a.searcher["put Online"] == true {
					return nil, codeError(0x80240438)
				}
				return a.result, nil
			}
		}, []windowsupdate.Failure{{Call: windowsupdate.CallOnline, Code: 0x80240438}}, 1},
		"returns a failure": {func(a *agent) { a.result["ResultCode"] = int64(4) }, []windowsupdate.Failure{{Call: windowsupdate.CallOnline}}, 1},
		"returns nothing": {func(a *agent) { a.searcher["Search"] = nil }, []windowsupdate.Failure{
			{Call: windowsupdate.CallOnline}, {Call: windowsupdate.CallPending},
		}, 0},
		"result is a text":          {func(a *agent) { a.result["ResultCode"] = "2" }, []windowsupdate.Failure{{Call: windowsupdate.CallOnline}}, 1},
		"searcher has no servers":   {func(a *agent) { a.searcher["put Online"] = codeError(0x80020006) }, nil, 0},
		"session makes no searcher": {func(a *agent) { delete(a.session, "CreateUpdateSearcher") }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent()
			var searches []any
			test.edit(a)
			if search := a.searcher["Search"]; search != nil {
				a.searcher["Search"] = func(arguments ...any) (any, error) {
					searches = append(searches, a.searcher["put Online"])
					return fake{"Search": search}.get("Search", arguments...)
				}
			}
			r, ok := request{operation: operationSearch}.answer(a.create, func() settings { return settings{} }, now()).(windowsupdate.Report)
			if !ok || len(r.Pending) != test.pending {
				t.Fatalf("the report is %+v", r)
			}
			if test.pending == 0 && len(r.Failures) < 2 || test.pending == 1 && !slices.Equal(searches, []any{true, false}) {
				t.Errorf("searches were online: %v; failures %v", searches, r.Failures)
			}
			if diff := cmp.Diff(test.want, r.Failures); test.want != nil && diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
			if a.searcher["put ServerSelection"] != nil {
				t.Error("a server was selected")
			}
		})
	}
}

// TestHostileAgentIsBounded: what the agent returns may come from its server.
func TestHostileAgentIsBounded(t *testing.T) {
	a := newAgent()
	a.update["Title"], a.update["KBArticleIDs"] = strings.Repeat("x", 10<<10), fake{"Count": int64(1 << 40), "Item": make([]any, 1<<10)}
	a.update["Identity"], a.update["Categories"] = "no object", fake{"Count": int64(-1)}
	var many []any
	for range 5000 {
		many = append(many, a.update)
	}
	a.updates["Count"], a.updates["Item"] = int64(5000), many
	a.update["LastDeploymentChangeTime"] = "soon"
	a.searcher["GetTotalHistoryCount"] = int64(1 << 31)
	a.history["Count"] = int64(1)
	r := a.read(settings{server: "://", err: errors.New("denied")})
	if len(r.Pending) != windowsupdate.MaxPending || r.Total != 5000 || len(r.Pending[0].Title) > 256 || len(r.Pending[0].KBs) > 0 || r.Server != "invalid" {
		t.Errorf("the report has %d of %d updates, the first %+v, from %q", len(r.Pending), r.Total, r.Pending[0], r.Server)
	}
	if diff := cmp.Diff([]windowsupdate.Failure{{Call: windowsupdate.CallPolicy}}, r.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestDisabledAgentIsNotAsked(t *testing.T) {
	r := read(func(string) (object, error) { t.Error("the agent was asked"); return nil, errors.New("x") }, settings{isDisabled: true}, time.Now(), true)
	if !r.Disabled || len(r.Failures) > 0 {
		t.Errorf("the report is %+v", r)
	}
}
