package instance

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

func TestStepsAreTimedByMonotonicClock(t *testing.T) {
	var uptime time.Duration
	w := stopwatch{uptime: func() time.Duration { return uptime }}
	id := types.NamespacedName{Name: "win-1"}
	step := func(name v1alpha1.MaintenanceStep, since time.Duration) v1alpha1.Maintenance {
		return v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Step: name, StepStartedAt: metav1.NewTime(time.Now().Add(-since))}
	}
	expect := func(when string, m v1alpha1.Maintenance, want time.Duration) {
		t.Helper()
		if ran := w.elapsed(id, m, time.Hour); ran.Round(time.Second) != want {
			t.Errorf("%s: elapsed %s, want %s", when, ran, want)
		}
	}
	verify := step(v1alpha1.MaintenanceVerify, 0)
	w.start(id, verify)
	uptime = time.Minute
	expect("after a minute", verify, time.Minute)
	expect("after a jump ahead", step(v1alpha1.MaintenanceVerify, 5*time.Hour), time.Minute)
	expect("after a jump back", step(v1alpha1.MaintenanceVerify, -5*time.Hour), time.Minute)
	expect("seen for the first time, as after a restart,", step(v1alpha1.MaintenanceDrain, 10*time.Minute), 10*time.Minute)
	uptime += time.Minute
	expect("and a minute later", step(v1alpha1.MaintenanceDrain, 10*time.Minute), 11*time.Minute)
	expect("seen for the first time after a jump", step(v1alpha1.MaintenanceAct, 5*time.Hour), 30*time.Minute)
	w.start(id, step(v1alpha1.MaintenanceAct, 5*time.Hour))
	expect("when it began anew", step(v1alpha1.MaintenanceAct, 5*time.Hour), 0)
	w.forget(id)
	if len(w.laps) > 0 {
		t.Error("an ended maintenance is still recorded")
	}
}
