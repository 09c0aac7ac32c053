package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// A wall clock that jumps ahead makes whatever was written down before look older than it is.
func TestStoryClockJumpsWhileANodeIsVerified(t *testing.T) {
	tell(t, "clock-jumps-while-verified", 2, atMost(1), func(s *story) {
		s.settled(1)
		s.until("win-1 is verified", time.Hour, func() bool {
			now := s.instance("win-1").Status.Maintenance
			return now != nil && now.Step == v1alpha1.MaintenanceVerify && s.hosts[0].goesTo == s.version
		})
		i := s.instance("win-1")
		i.Status.Maintenance.StepStartedAt = metav1.NewTime(i.Status.Maintenance.StepStartedAt.Add(-20 * time.Minute))
		s.must(s.client.Status().Update(s.ctx, i))
		s.hosts[0].goesAt = s.hosts[0].goesAt.Add(2 * time.Minute)
		s.say("the operator's clock jumps by 20 minutes")
		s.until("all have the version", time.Hour, func() bool {
			if f := s.instance("win-1").Status.Failure; f != nil {
				s.t.Fatalf("the upgrade failed: %+v", f)
			}
			return s.at(s.version) == 2
		})
	})
}

func TestStepsAreMeasuredByAClockThatNobodySets(t *testing.T) {
	var up time.Duration
	w := stopwatch{up: func() time.Duration { return up }}
	id := types.NamespacedName{Name: "win-1"}
	step := func(name v1alpha1.MaintenanceStep, since time.Duration) v1alpha1.Maintenance {
		return v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Step: name, StepStartedAt: metav1.NewTime(time.Now().Add(-since))}
	}
	is := func(what string, m v1alpha1.Maintenance, want time.Duration) {
		t.Helper()
		if ran := w.ran(id, m, time.Hour); ran.Round(time.Second) != want {
			t.Errorf("%s it has taken %s, want %s", what, ran, want)
		}
	}
	verify := step(v1alpha1.MaintenanceVerify, 0)
	w.start(id, verify)
	up = time.Minute
	is("after a minute", verify, time.Minute)
	is("after a jump ahead", step(v1alpha1.MaintenanceVerify, 5*time.Hour), time.Minute)
	is("after a jump back", step(v1alpha1.MaintenanceVerify, -5*time.Hour), time.Minute)
	is("seen for the first time, as after a restart,", step(v1alpha1.MaintenanceDrain, 10*time.Minute), 10*time.Minute)
	up += time.Minute
	is("and a minute later", step(v1alpha1.MaintenanceDrain, 10*time.Minute), 11*time.Minute)
	is("seen for the first time after a jump", step(v1alpha1.MaintenanceAct, 5*time.Hour), 30*time.Minute)
	w.start(id, step(v1alpha1.MaintenanceAct, 5*time.Hour))
	is("when it began anew", step(v1alpha1.MaintenanceAct, 5*time.Hour), 0)
	w.forget(id)
	if len(w.laps) > 0 {
		t.Error("what is over is remembered")
	}
}
