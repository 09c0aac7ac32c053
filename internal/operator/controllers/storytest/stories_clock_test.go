package storytest

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// A wall clock that jumps ahead makes earlier timestamps look older than they are. The upgrade must not fail because of that.
func TestStoryClockJumpsWhileANodeIsVerified(t *testing.T) {
	runStory(t, "clock-jumps-while-verified", 2, atMost(1), func(s *story) {
		s.settled(1)
		s.until("win-1 is verified", time.Hour, func() bool {
			now := s.instance("win-1").Status.Maintenance
			return now != nil && now.Step == v1alpha1.MaintenanceVerify && s.hosts[0].targetVersion == s.version
		})
		i := s.instance("win-1")
		i.Status.Maintenance.StepStartedAt = metav1.NewTime(i.Status.Maintenance.StepStartedAt.Add(-20 * time.Minute))
		s.must(s.client.Status().Update(s.ctx, i))
		s.hosts[0].upgradeAt = s.hosts[0].upgradeAt.Add(2 * time.Minute)
		s.record("the operator's clock jumps by 20 minutes")
		s.until("all have the version", time.Hour, func() bool {
			if f := s.instance("win-1").Status.Failure; f != nil {
				s.t.Fatalf("the upgrade failed: %+v", f)
			}
			return s.at(s.version) == 2
		})
	})
}
