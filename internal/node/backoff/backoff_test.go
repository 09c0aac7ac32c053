package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
)

func TestPausesDoubleUpToTheLimit(t *testing.T) {
	b := backoff.Between(2*time.Second, 15*time.Second)
	for i, want := range []time.Duration{2, 4, 8, 15, 15, 15} {
		want *= time.Second
		if got := b.Next(); got < want || got > want+want/2 {
			t.Errorf("pause %d is %v, want from %v to half as much again", i, got, want)
		}
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := backoff.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Sleep() = %v after %v", err, time.Since(began))
		}
		if err := backoff.Sleep(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	})
}
