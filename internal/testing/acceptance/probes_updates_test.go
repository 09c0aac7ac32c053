package acceptance

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestDefinitionsAreInstalled has a simulated agent with and without pending definitions, busy, and with faults.
func TestDefinitionsAreInstalled(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*sim.Updates)
		want Verdict
	}{
		"pending":              {func(*sim.Updates) {}, Confirmed},
		"search fails":         {func(u *sim.Updates) { u.SearchCode = 0x8024402c }, Untried},
		"agent is busy":        {func(u *sim.Updates) { u.Busy = true }, Untried},
		"restart comes first":  {func(u *sim.Updates) { u.RestartFirst = true }, Untried},
		"installation fails":   {func(u *sim.Updates) { u.Offers = []sim.Offer{definitions(0, 0x80070643)} }, Refuted},
		"download fails":       {func(u *sim.Updates) { u.Offers = []sim.Offer{definitions(0x80240fff, 0)} }, Refuted},
		"service is disabled":  {func(u *sim.Updates) { u.Edit = func(r *windowsupdate.Report) { r.Disabled = true } }, Untried},
		"nothing is published": {func(u *sim.Updates) { u.Edit = func(r *windowsupdate.Report) { r.Pending = nil } }, Untried},
	} {
		t.Run(name, func(t *testing.T) {
			w := sim.NewWindows(sim.WindowsOptions{Root: t.TempDir(), NoQuirks: "an agent that is busy after a start has a case of its own"})
			w.EditUpdates(test.edit)
			var a Answer
			a.setVerdict(tryUpdatesInstall(t.Context(), &session{Machine: Machine{Host: w.Host()}}))
			if a.Verdict != test.want {
				t.Errorf("%s, %s; want %s", a.Verdict, a.Seen, test.want)
			}
		})
	}
}

// definitions are those that each simulated computer has found, with results of their download and installation.
func definitions(download, install uint32) sim.Offer {
	u := windowsupdate.Update{
		ID: "5a1c7c1e-0000-4000-8000-000000000001", Revision: 201, Title: "Security Intelligence Update - KB2267602", KBs: []string{"KB2267602"},
		Class: windowsupdate.Definition, Restart: windowsupdate.RestartNever,
	}
	return sim.Offer{Update: u, DownloadCode: download, Code: install}
}

func TestAnswerOfUpdateAgentIsJudged(t *testing.T) {
	for name, test := range map[string]struct {
		report windowsupdate.Report
		want   Verdict
	}{
		"all answered": {windowsupdate.Report{Searched: time.Now(), History: []windowsupdate.Operation{{Title: "x"}}}, Confirmed},
		"a failure":    {windowsupdate.Report{History: []windowsupdate.Operation{{}}, Failures: []windowsupdate.Failure{{Call: windowsupdate.CallPending, Code: 0x80004001}}}, Refuted},
		"disabled":     {windowsupdate.Report{Disabled: true}, Untried},
		"no history":   {windowsupdate.Report{Searched: time.Now()}, Untried},
	} {
		var a Answer
		a.setVerdict(checkUpdates(test.report))
		if a.Verdict != test.want {
			t.Errorf("%s: %s, %s; want %s", name, a.Verdict, a.Seen, test.want)
		}
	}
}
