package settings

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/join"
)

// clusterRead is a cluster whose name is when it was read.
type clusterRead struct {
	began time.Time
	times int
	err   error
}

// read takes a second.
func (c *clusterRead) read(ctx context.Context) (join.Want, error) {
	c.times++
	want := join.Want{}
	want.Cluster.ID = time.Since(c.began).String()
	select {
	case <-time.After(time.Second):
		return want, c.err
	case <-ctx.Done():
		return join.Want{}, ctx.Err()
	}
}

// TestAReadingServesWhoAskedBeforeItBegan has joins ask at different times. None gets what was read before it asked.
func TestAReadingServesWhoAskedBeforeItBegan(t *testing.T) {
	ask := []struct {
		at    time.Duration
		joins int32 // makes another configuration
		want  string
	}{
		{0, 0, "0s"},                      // begins at once
		{100 * time.Millisecond, 0, "3s"}, // a reading is under way, but began before
		{900 * time.Millisecond, 0, "3s"},
		{2 * time.Second, 0, "3s"},
		{3500 * time.Millisecond, 0, "6s"},
		{3600 * time.Millisecond, 7, "9s"}, // another's configuration is not shared
		{30 * time.Second, 0, "30s"},       // whoever is alone does not wait
	}
	synctest.Test(t, func(t *testing.T) {
		c, r := &clusterRead{began: time.Now()}, NewRenderGroup()
		for _, a := range ask {
			go func() {
				time.Sleep(a.at)
				config := v1alpha1.WindowsConfigSpec{Rollout: v1alpha1.RolloutSpec{MaxConcurrentJoins: a.joins}}
				got, err := r.Do(t.Context(), config, 3*time.Second, c.read)
				if err != nil || got.Cluster.ID != a.want {
					t.Errorf("who asked at %s got what was read at %s (%v), want %s", a.at, got.Cluster.ID, err, a.want)
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.times != 5 {
			t.Errorf("the cluster was read %d times for %d joins, want 5", c.times, len(ask))
		}
	})
}

// TestAFailedReadingIsShared has a cluster that does not answer: what one found out, the others need not. But who was stopped
// found out nothing.
func TestAFailedReadingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no answer")
		c, r := &clusterRead{began: time.Now(), err: broken}, NewRenderGroup()
		ask := func(ctx context.Context) error {
			_, err := r.Do(ctx, v1alpha1.WindowsConfigSpec{}, 0, c.read)
			return err
		}
		stopped, stop := context.WithCancel(t.Context())
		go func() {
			if err := ask(stopped); !errors.Is(err, context.Canceled) {
				t.Errorf("who was stopped got %v", err)
			}
		}()
		for range 3 {
			go func() {
				time.Sleep(100 * time.Millisecond)
				if err := ask(t.Context()); !errors.Is(err, broken) {
					t.Errorf("got %v, want %v", err, broken)
				}
			}()
		}
		time.Sleep(500 * time.Millisecond)
		stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.times != 2 {
			t.Errorf("the cluster was read %d times, want once by who was stopped and once for the three others", c.times)
		}
	})
}
