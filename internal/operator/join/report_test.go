package join_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// TestBusyWindowsIsNotFailure expects a soon retry while Windows is busy, and condition Stalled after a restart that did not help.
func TestBusyWindowsIsNotFailure(t *testing.T) {
	for code, test := range map[wicdapi.Code]struct {
		reason  string
		waits   bool
		stalled bool
	}{
		wicdapi.CodeWaitingForSetup:  {api.ReasonWaitingForWindowsSetup, true, false},
		wicdapi.CodeServicing:        {api.ReasonWindowsServicing, true, false},
		wicdapi.CodeRebootDidNotHelp: {api.ReasonRebootDidNotHelp, true, true},
		wicdapi.CodeDISMSilent:       {api.ReasonDISMNotAnswering, false, false},
		wicdapi.CodeContentAltered:   {api.ReasonContentAltered, false, false},
		wicdapi.CodeFailed:           {api.ReasonJoinFailed, false, false},
	} {
		err := error(&join.StepError{Step: join.StepConfigure, Err: &wicdapi.Error{Code: code, Message: "why"}})
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

// TestMissingFactStopsOnlyDependentStep: a host becomes a node without some facts, but its name and address are never guessed.
func TestMissingFactStopsOnlyDependentStep(t *testing.T) {
	for fact, joins := range map[string]bool{
		wicdapi.FactHostname: false, wicdapi.FactDomain: false, wicdapi.FactInterfaces: false, wicdapi.FactServices: false, wicdapi.FactFreeBytes: false,
		wicdapi.FactMemory: true, wicdapi.FactBootID: true,
	} {
		h := &cloudHost{facts: goodHost()}
		h.facts.Host.Unread = map[string]string{fact: "access is denied"}
		err := joinOn(h, "", "https://api.example:6443").Run(t.Context())
		if (err == nil) != joins || err != nil && !strings.Contains(err.Error(), "access is denied") {
			t.Errorf("without %s, the join ends with %v; want a node: %v", fact, err, joins)
		}
	}
	h := &cloudHost{facts: goodHost()}
	h.facts.Joined, h.facts.Host.Unread = &wicdapi.Joined{}, map[string]string{wicdapi.FactFreeBytes: "access is denied"}
	if err := joinOn(h, "", "https://api.example:6443").Run(t.Context()); err != nil {
		t.Errorf("a host that has joined needs free space: %v", err)
	}
}
