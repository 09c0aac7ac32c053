package settings

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
)

// clusterRead simulates a cluster. Its ID is the time at which it was read.
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

// TestReadServesOnlyEarlierRequests has joins request reads at different times. None gets a result that was read before its request.
func TestReadServesOnlyEarlierRequests(t *testing.T) {
	ask := []struct {
		at    time.Duration
		joins int32 // different for another configuration
		want  string
	}{
		{0, 0, "0s"},                      // begins at once
		{100 * time.Millisecond, 0, "3s"}, // a read is in progress, but began before
		{900 * time.Millisecond, 0, "3s"},
		{2 * time.Second, 0, "3s"},
		{3500 * time.Millisecond, 0, "6s"},
		{3600 * time.Millisecond, 7, "9s"}, // the result for another configuration is not shared
		{30 * time.Second, 0, "30s"},       // a single join does not wait
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

// TestAFailedReadingIsShared: if the cluster does not answer, waiting joins share the error, but not that of a canceled read.
func TestAFailedReadingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no answer")
		c, r := &clusterRead{began: time.Now(), err: broken}, NewRenderGroup()
		request := func(ctx context.Context) error {
			_, err := r.Do(ctx, v1alpha1.WindowsConfigSpec{}, 0, c.read)
			return err
		}
		stopped, stop := context.WithCancel(t.Context())
		go func() {
			if err := request(stopped); !errors.Is(err, context.Canceled) {
				t.Errorf("who was stopped got %v", err)
			}
		}()
		for range 3 {
			go func() {
				time.Sleep(100 * time.Millisecond)
				if err := request(t.Context()); !errors.Is(err, broken) {
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
