package join_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/join"
)

// TestWindowsThatIsBusyIsNoFailure: a host whose Windows goes on by itself is tried again soon, one that a restart did not help is the user's.
func TestWindowsThatIsBusyIsNoFailure(t *testing.T) {
	for code, test := range map[agent.Code]struct {
		reason  string
		waits   bool
		stalled bool
	}{
		agent.CodeWaitingForSetup:  {api.ReasonWaitingForWindowsSetup, true, false},
		agent.CodeServicing:        {api.ReasonWindowsServicing, true, false},
		agent.CodeRebootDidNotHelp: {api.ReasonRebootDidNotHelp, true, true},
		agent.CodeContentAltered:   {api.ReasonContentAltered, false, false},
		agent.CodeFailed:           {api.ReasonJoinFailed, false, false},
	} {
		err := error(&join.StepError{Step: join.StepConfigure, Err: &agent.Error{Code: code, Message: "why"}})
		after, waits := join.Retry(err)
		if join.Reason(err) != test.reason || waits != test.waits || waits && after < 10*time.Second {
			t.Errorf("%s: reason %s, tried again after %s (%v); want %s, %v", code, join.Reason(err), after, waits, test.reason, test.waits)
		}
		var st v1alpha1.WindowsInstanceStatus
		join.Report(&st, 1, true, err)
		configured := meta.FindStatusCondition(st.Conditions, api.ConditionConfigured)
		if configured == nil || configured.Reason != test.reason {
			t.Errorf("%s: condition Configured is %+v, want reason %s", code, configured, test.reason)
		}
		if stalled := meta.FindStatusCondition(st.Conditions, api.ConditionStalled); (stalled != nil) != test.stalled {
			t.Errorf("%s: condition Stalled is %+v, want one: %v", code, stalled, test.stalled)
		}
	}
	if _, waits := join.Retry(errors.New("any other")); waits {
		t.Error("any other failure is tried again at once")
	}
}
