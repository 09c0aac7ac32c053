package contract

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// IDs of updates: one that the tests serve, and one that no server has.
const servedUpdate, unknownUpdate = "5a1c7c1e-0000-4000-8000-00000000c0de", "5a1c7c1e-0000-4000-8000-00000000dead"

// updateOperation is Download or Install of an agent.
type updateOperation func(ctx context.Context, ids []string) (windowsupdate.Outcome, error)

func operationsOf(f UpdatesFixture) map[string]updateOperation {
	return map[string]updateOperation{"Download": f.Agent.Download, "Install": f.Agent.Install}
}

// mustOperate downloads or installs updates. It repeats an installation while the agent is busy.
func mustOperate(t *testing.T, operate updateOperation, ids ...string) windowsupdate.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // as mustAsk
	defer cancel()
	var o windowsupdate.Outcome
	eventually(t, "the agent is no longer busy", func() bool {
		var err error
		if o, err = operate(ctx, ids); err != nil {
			t.Fatal(err)
		}
		return o.Failure == nil || o.Failure.Code != windowsupdate.CodeInProgress
	})
	return o
}

func mustSearch(t *testing.T, f UpdatesFixture) windowsupdate.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r, err := f.Agent.Search(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range r.Failures {
		t.Error(failure)
	}
	return r
}

// serve adds an update to the server, and skips the test if it cannot.
func serve(t *testing.T, f UpdatesFixture, restart windowsupdate.Restart) {
	t.Helper()
	if f.Serve == nil {
		t.Skip(f.NoServer)
	}
	f.Serve(t, windowsupdate.Update{
		ID: servedUpdate, Revision: 2, Title: "2026-12 Cumulative Update (KB5070001)", KBs: []string{"KB5070001"}, Class: windowsupdate.Security, Restart: restart,
	})
}

func pendingOf(r windowsupdate.Report) (windowsupdate.Update, bool) {
	i := slices.IndexFunc(r.Pending, func(u windowsupdate.Update) bool { return u.ID == servedUpdate })
	if i < 0 {
		return windowsupdate.Update{}, false
	}
	return r.Pending[i], true
}

func searchFindsUpdatesOfServer(t *testing.T, f UpdatesFixture) {
	serve(t, f, windowsupdate.RestartAlways)
	if _, found := pendingOf(mustAsk(t, f)); found {
		t.Error("an update is pending before the search")
	}
	for what, r := range map[string]windowsupdate.Report{"Search": mustSearch(t, f), "Updates": mustAsk(t, f)} {
		u, found := pendingOf(r)
		if !found || u.Revision != 2 || u.Restart != windowsupdate.RestartAlways || u.Downloaded || u.RestartPending || r.Total != len(r.Pending) {
			t.Errorf("after the search, %s has %d %+v", what, r.Total, r.Pending)
		}
	}
}

func invalidIDsAreRefused(t *testing.T, f UpdatesFixture) {
	many := slices.Repeat([]string{unknownUpdate}, windowsupdate.MaxSelected+1)
	for name, operate := range operationsOf(f) {
		for _, ids := range [][]string{nil, {""}, {unknownUpdate, "KB5070001"}, {strings.ToUpper(unknownUpdate)}, {"{" + unknownUpdate + "}"}, many} {
			if o, err := operate(deadline(t), ids); err == nil {
				t.Errorf("%s(%.80q) = %+v", name, ids, o)
			}
		}
	}
}

// unknownUpdateHasNoResult on any Windows, with an agent that answers or fails.
func unknownUpdateHasNoResult(t *testing.T, f UpdatesFixture) {
	for name, operate := range operationsOf(f) {
		if o := mustOperate(t, operate, unknownUpdate); len(o.Results) > 0 || o.Restart || o.RestartFirst {
			t.Errorf("%s has %+v", name, o)
		}
	}
}

func downloadedUpdateIsInstalled(t *testing.T, f UpdatesFixture) {
	serve(t, f, windowsupdate.RestartNever)
	if o := mustOperate(t, f.Agent.Download, servedUpdate); len(o.Results) > 0 {
		t.Errorf("before a search, the download has %+v", o)
	}
	mustSearch(t, f)
	if o := mustOperate(t, f.Agent.Install, servedUpdate); len(o.Results) > 0 || o.Failure != nil {
		t.Errorf("before the download, the installation has %+v", o)
	}
	for range 2 {
		if r, found := mustOperate(t, f.Agent.Download, unknownUpdate, servedUpdate, servedUpdate).Of(servedUpdate); !found || !r.Succeeded() {
			t.Errorf("the download: %+v, found %v", r, found)
		}
	}
	if u, found := pendingOf(mustAsk(t, f)); !found || !u.Downloaded {
		t.Errorf("after the download: %+v, found %v", u, found)
	}
	o := mustOperate(t, f.Agent.Install, unknownUpdate, servedUpdate, servedUpdate)
	if r, found := o.Of(servedUpdate); !found || !r.Succeeded() || r.Code != 0 || len(o.Results) != 1 || o.Restart {
		t.Errorf("the installation has %+v", o)
	}
	r := mustSearch(t, f)
	if u, found := pendingOf(r); found {
		t.Errorf("after the installation, %+v is pending", u)
	}
	if len(r.History) == 0 || r.History[0].KB != "KB5070001" || r.History[0].Result != windowsupdate.ResultSucceeded {
		t.Errorf("the history is %+v", r.History)
	}
	if o := mustOperate(t, f.Agent.Install, servedUpdate); len(o.Results) > 0 {
		t.Errorf("a second installation has %+v", o)
	}
}

func installedUpdateWaitsForRestart(t *testing.T, f UpdatesFixture) {
	serve(t, f, windowsupdate.RestartAlways)
	mustSearch(t, f)
	mustOperate(t, f.Agent.Download, servedUpdate)
	for range 2 { // the second one installs nothing
		o := mustOperate(t, f.Agent.Install, servedUpdate)
		if r, found := o.Of(servedUpdate); !found || !r.Succeeded() || !o.Restart || o.RestartFirst {
			t.Errorf("the installation has %+v", o)
		}
		r := mustAsk(t, f)
		if u, found := pendingOf(r); !found || !u.RestartPending || !r.Restart {
			t.Errorf("after the installation, the report has restart %v and %+v, found %v", r.Restart, u, found)
		}
	}
	if r, found := mustOperate(t, f.Agent.Download, servedUpdate).Of(servedUpdate); !found || !r.Succeeded() {
		t.Errorf("a download after it: %+v, found %v", r, found)
	}
}

func nothingIsInstalledBeforeRestart(t *testing.T, f UpdatesFixture) {
	serve(t, f, windowsupdate.RestartNever)
	mustSearch(t, f)
	mustOperate(t, f.Agent.Download, servedUpdate)
	f.RestartFirst(t)
	if o := mustOperate(t, f.Agent.Install, servedUpdate); !o.RestartFirst || len(o.Results) > 0 || o.Failure != nil {
		t.Errorf("the outcome is %+v", o)
	}
	if u, found := pendingOf(mustAsk(t, f)); !found || !u.Downloaded || u.RestartPending {
		t.Errorf("afterwards: %+v, found %v", u, found)
	}
}

// errorsOf calls all methods of an agent, and returns their errors by name.
func errorsOf(ctx context.Context, f UpdatesFixture) map[string]error {
	_, updates := f.Agent.Updates(ctx)
	_, search := f.Agent.Search(ctx)
	_, download := f.Agent.Download(ctx, []string{unknownUpdate})
	_, install := f.Agent.Install(ctx, []string{unknownUpdate})
	return map[string]error{"Updates": updates, "Search": search, "Download": download, "Install": install}
}

func canceledQuestionFails(t *testing.T, f UpdatesFixture) {
	for name, err := range errorsOf(canceled(t), f) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled %s returned %v", name, err)
		}
	}
}

func silentAgentIsReported(t *testing.T, f UpdatesFixture) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	for name, err := range errorsOf(ctx, f) {
		if !errors.Is(err, hostapi.ErrAgentSilent) {
			t.Errorf("%s without an answer in time returned %v", name, err)
		}
	}
}
