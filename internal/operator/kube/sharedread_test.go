package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// clusterRead simulates a cluster, of which the time at which it was read is known.
type clusterRead struct {
	began time.Time
	times int
	err   error
}

// read takes a second.
func (c *clusterRead) read(ctx context.Context) (string, error) {
	c.times++
	at := time.Since(c.began).String()
	select {
	case <-time.After(time.Second):
		return at, c.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// TestReadServesOnlyEarlierRequests requests reads at different times. No caller gets a result that was read before its request.
func TestReadServesOnlyEarlierRequests(t *testing.T) {
	callers := []struct {
		at   time.Duration
		key  int
		want string
	}{
		{0, 0, "0s"},                      // begins at once
		{100 * time.Millisecond, 0, "3s"}, // a read is in progress, but began before
		{900 * time.Millisecond, 0, "3s"},
		{2 * time.Second, 0, "3s"},
		{3500 * time.Millisecond, 0, "6s"},
		{3600 * time.Millisecond, 7, "9s"}, // the result for another key is not shared
		{30 * time.Second, 0, "30s"},       // a single caller does not wait
	}
	synctest.Test(t, func(t *testing.T) {
		c, r := &clusterRead{began: time.Now()}, NewSharedRead[int, string]()
		for _, a := range callers {
			go func() {
				time.Sleep(a.at)
				got, err := r.Do(t.Context(), a.key, 3*time.Second, c.read)
				if err != nil || got != a.want {
					t.Errorf("the caller at %s got the read of %s (%v), want %s", a.at, got, err, a.want)
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.times != 5 {
			t.Errorf("the cluster was read %d times for %d callers, want 5", c.times, len(callers))
		}
	})
}

// TestFailedReadIsShared: if the cluster does not answer, waiting callers share the error, but not that of a canceled read.
func TestFailedReadIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no answer")
		c, r := &clusterRead{began: time.Now(), err: broken}, NewSharedRead[int, string]()
		request := func(ctx context.Context) error {
			_, err := r.Do(ctx, 0, 0, c.read)
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
