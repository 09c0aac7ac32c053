package storytest

import (
	"slices"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// In the original operator, a cache that lagged behind the last write let several nodes go out of service at once.
func TestStaleCacheDoesNotExceedBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 6, atMost(2))
		s.joined()
		for _, h := range s.hosts {
			s.requestReboot(h.name)
		}
		started := func() (names []string) {
			if _, err := s.fleet.Reconcile(s.ctx, reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			for _, h := range s.hosts {
				if s.fleet.Next(controllertest.Key(h.name)).Begin {
					names = append(names, h.name)
				}
			}
			return names
		}
		first := started()
		// The grants have not been recorded yet, and an action with a higher priority appears.
		s.must(s.client.Delete(s.ctx, s.instance("win-6")))
		if second := started(); len(first) != 2 || len(second) != 2 || slices.Contains(second, "win-6") {
			t.Errorf("first %q may begin, then %q; want the same two", first, second)
		}
		s.fleet.Done(controllertest.Key(first[0])) // the action was not needed after all
		if third := started(); len(third) != 2 || !slices.Contains(third, "win-6") {
			t.Errorf("after one action has ended, %q may begin, want win-6", third)
		}
	})
}
