package acceptance

import (
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

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
