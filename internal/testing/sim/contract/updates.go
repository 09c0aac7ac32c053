package contract

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// UpdatesFixture is the Windows Update Agent for one test. The fixture cleans up after the test.
type UpdatesFixture struct {
	Agent hostapi.UpdateAgent
	// Configure sets the policies of the host: a WSUS by its URL, or none, and whether automatic updates are off. It is nil if a test cannot do that;
	// NoPolicies is the reason.
	Configure  func(t *testing.T, server string, isOff bool)
	NoPolicies string
	// Disable disables the agent's service; nil if a test cannot, and NoDisabling is the reason.
	Disable     func(t *testing.T)
	NoDisabling string
	// Offer makes an update with this title, article and class pending; nil if a test cannot, and NoUpdates is the reason.
	Offer     func(t *testing.T, title, kb string, class windowsupdate.Class)
	NoUpdates string
	// Serve adds an update to the agent's server, which applies to the host; nil if a test cannot, and NoServer is the reason. RestartFirst makes the
	// agent need a restart before it installs; it is nil if Serve is.
	Serve        func(t *testing.T, u windowsupdate.Update)
	RestartFirst func(t *testing.T)
	NoServer     string
	// Cumulative installs a cumulative update, and returns build and revision of Windows with it; nil if a test cannot, and NoCumulative is the reason.
	Cumulative   func(t *testing.T) (build, revision int)
	NoCumulative string
}

// UpdateAgent checks the contract of hostapi.UpdateAgent.
func UpdateAgent(t *testing.T, fixture func(t *testing.T) UpdatesFixture) {
	run(t, fixture, []test[UpdatesFixture]{
		{"ReportIsBoundedAndNew", reportIsBoundedAndNew},
		{"PolicyServerIsReportedByItsHost", policyServerIsReportedByItsHost},
		{"DisabledServiceIsReported", disabledServiceIsReported},
		{"PendingUpdateIsReported", pendingUpdateIsReported},
		{"SearchFindsUpdatesOfServer", searchFindsUpdatesOfServer},
		{"InvalidIDsAreRefused", invalidIDsAreRefused},
		{"UnknownUpdateHasNoResult", unknownUpdateHasNoResult},
		{"DownloadedUpdateIsInstalled", downloadedUpdateIsInstalled},
		{"InstalledUpdateWaitsForRestart", installedUpdateWaitsForRestart},
		{"NothingIsInstalledBeforeRestart", nothingIsInstalledBeforeRestart},
		{"UnknownUpdateIsNotUninstalled", unknownUpdateIsNotUninstalled},
		{"UninstallingTwiceIsHarmless", uninstallingTwiceIsHarmless},
		{"CanceledQuestionFails", canceledQuestionFails},
		{"SilentAgentIsReported", silentAgentIsReported},
	})
}

func unknownUpdateIsNotUninstalled(t *testing.T, f UpdatesFixture) {
	if reboot, err := f.Agent.Uninstall(deadline(t), 1, 1); reboot || !errors.Is(err, hostapi.ErrNotFound) {
		t.Errorf("Uninstall() = %v, %v, want ErrNotFound", reboot, err)
	}
}

func uninstallingTwiceIsHarmless(t *testing.T, f UpdatesFixture) {
	if f.Cumulative == nil {
		t.Skip(f.NoCumulative)
	}
	build, revision := f.Cumulative(t)
	for range 2 {
		if reboot, err := f.Agent.Uninstall(deadline(t), build, revision); !reboot || err != nil {
			t.Errorf("Uninstall() = %v, %v, want a restart", reboot, err)
		}
	}
}

func mustAsk(t *testing.T, f UpdatesFixture) windowsupdate.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // a busy Windows needs minutes
	defer cancel()
	r, err := f.Agent.Updates(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func reportIsBoundedAndNew(t *testing.T, f UpdatesFixture) {
	before := time.Now()
	r := mustAsk(t, f)
	if r.Read.Before(before.Add(-time.Second)) || r.Read.After(time.Now().Add(time.Second)) {
		t.Errorf("the report is of %s, asked at %s", r.Read, before)
	}
	if diff := cmp.Diff(r.Bounded(), r, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the report is not within its bounds (-bounded +got):\n%s", diff)
	}
	for _, u := range r.Pending {
		if u.Title == "" {
			t.Errorf("an update has no title: %+v", u)
		}
	}
}

func policyServerIsReportedByItsHost(t *testing.T, f UpdatesFixture) {
	if f.Configure == nil {
		t.Skip(f.NoPolicies)
	}
	for _, step := range []struct {
		server string
		isOff  bool
		want   string
	}{
		{"", false, ""}, {"https://user:secret@wsus.example.com:8531/path?x=secret", true, "wsus.example.com"}, {"not a URL", false, "invalid"},
		{"http://" + strings.Repeat("x", 300), false, "invalid"}, {"", false, ""},
	} {
		f.Configure(t, step.server, step.isOff)
		if r := mustAsk(t, f); r.Server != step.want || r.NoSearches != step.isOff {
			t.Errorf("with WSUS %.40q, the server is %q and NoSearches %v, want %q and %v", step.server, r.Server, r.NoSearches, step.want, step.isOff)
		}
	}
}

func disabledServiceIsReported(t *testing.T, f UpdatesFixture) {
	if f.Disable == nil {
		t.Skip(f.NoDisabling)
	}
	if mustAsk(t, f).Disabled {
		t.Error("the service is reported as disabled at first")
	}
	f.Disable(t)
	if r := mustAsk(t, f); !r.Disabled || len(r.Pending) > 0 || len(r.History) > 0 {
		t.Errorf("with a disabled service, the report is %+v", r)
	}
}

func pendingUpdateIsReported(t *testing.T, f UpdatesFixture) {
	if f.Offer == nil {
		t.Skip(f.NoUpdates)
	}
	f.Offer(t, strings.Repeat("long ", 2048)+"\x1b[31m", "KB5070000", windowsupdate.Security)
	r := mustAsk(t, f)
	i := slices.IndexFunc(r.Pending, func(u windowsupdate.Update) bool { return slices.Equal(u.KBs, []string{"KB5070000"}) })
	if i < 0 || r.Pending[i].Class != windowsupdate.Security || len(r.Pending[i].Title) > 256 || r.Total < len(r.Pending) {
		t.Errorf("the pending updates are %d %+v", r.Total, r.Pending)
	}
}
