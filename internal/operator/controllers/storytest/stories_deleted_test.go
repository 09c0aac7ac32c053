package storytest

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A transfer may take an hour. Deleting the instance ends its join at once.
func TestStoryDeletedInstanceEndsItsJoin(t *testing.T) {
	runStory(t, "deleted-during-transfer", 1, atMost(1), func(s *story) {
		s.announce(s.hosts...)
		_, err := s.settings.Reconcile(s.ctx, reconcile.Request{})
		s.must(err)
		s.hosts[0].hangs = true
		done := make(chan error, 1)
		go func() {
			_, err := s.instances.Reconcile(s.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "win-1"}})
			done <- err
		}()
		synctest.Wait()
		select {
		case err := <-done:
			s.t.Fatalf("the join does not hang: %v\n%s", err, s.summary())
		default:
		}
		before := s.instance("win-1")
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.record("win-1 is removed while it receives content")
		s.instances.Deletions().Update(s.ctx, ctrlevent.UpdateEvent{ObjectOld: before, ObjectNew: s.instance("win-1")}, nil)
		synctest.Wait()
		select {
		case err := <-done:
			s.must(err)
		default:
			s.t.Fatal("the join continues")
		}
		s.hosts[0].hangs = false
		s.until("win-1 has left", time.Minute, func() bool { return len(s.allInstances()) == 0 })
	})
}
