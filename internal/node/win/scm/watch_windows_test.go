package scm

import (
	"context"
	"testing"
	"time"
)

func TestWatchRejectsTooManyServices(t *testing.T) {
	if _, err := NewChanges().Watch(t.Context(), make([]string, maxWatched+1)); err == nil {
		t.Error("no error")
	}
}

func TestWatchPollsOnlyForMissingServices(t *testing.T) {
	const recheckInterval, reopenInterval = 2 * time.Second, 30 * time.Second
	for name, test := range map[string]struct {
		services []*watched
		opened   time.Duration // before
		want     time.Duration
	}{
		"all exist":          {[]*watched{{handle: 1}, {handle: 2}}, 0, reopenInterval},
		"one is missing":     {[]*watched{{handle: 1}, {}}, 0, recheckInterval},
		"opened earlier":     {[]*watched{{handle: 1}}, 20 * time.Second, 10 * time.Second},
		"opened long before": {[]*watched{{handle: 1}}, time.Hour, 0},
	} {
		w := &watcher{recheck: recheckInterval, reopenAfter: reopenInterval, opened: time.Now().Add(-test.opened), services: test.services}
		if got := w.waitTime(); got > test.want || got < test.want-5*time.Second {
			t.Errorf("%s: waits for %v, want %v", name, got, test.want)
		}
	}
}

func TestWatchedServicesStayReachable(t *testing.T) {
	c := NewChanges()
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := c.Watch(ctx, []string{"wicd-absent", "wicd-absent-2"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range changes {
	}
	if len(c.kept) != 2 {
		t.Errorf("%d services are kept, want 2", len(c.kept))
	}
}
