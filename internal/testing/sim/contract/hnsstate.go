package contract

import (
	"context"
	"errors"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// HNSValue is the registry value that the tests use. The fixture removes it.
const HNSValue = "WICDContract"

// HNSStateFixture are the values of a Host Network Service for one test.
type HNSStateFixture struct {
	State hostapi.HNSState
	// Without removes the service from Windows; nil if that cannot be tested.
	Without func(t *testing.T)
}

// HNSState checks the contract of hostapi.HNSState.
func HNSState(t *testing.T, fixture func(t *testing.T) HNSStateFixture) {
	t.Run("NumbersAreKept", func(t *testing.T) { numbersAreKept(t, fixture(t).State) })
	t.Run("CallsEndWithTheirContext", func(t *testing.T) {
		f := fixture(t)
		ctx := canceled(t)
		_, err := f.State.Get(ctx, HNSValue)
		for _, err := range []error{err, f.State.Set(ctx, HNSValue, 1), f.State.Remove(ctx, HNSValue)} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a canceled call returned %v", err)
			}
		}
	})
	t.Run("NoServiceIsMade", func(t *testing.T) {
		f := fixture(t)
		if f.Without == nil {
			t.Skip("a test must not take a service from a real Windows")
		}
		f.Without(t)
		for range 2 {
			if err := f.State.Set(deadline(t), HNSValue, 1); !errors.Is(err, hostapi.ErrNotFound) {
				t.Errorf("Set() without the service = %v, want %v", err, hostapi.ErrNotFound)
			}
		}
		if err := f.State.Remove(deadline(t), HNSValue); err != nil {
			t.Error(err)
		}
	})
}

func numbersAreKept(t *testing.T, s hostapi.HNSState) {
	expect := func(want uint32, wantErr error) {
		t.Helper()
		if got, err := s.Get(deadline(t), HNSValue); got != want || !errors.Is(err, wantErr) {
			t.Errorf("Get() = %d, %v, want %d, %v", got, err, want, wantErr)
		}
	}
	expect(0, hostapi.ErrNotFound)
	for _, number := range []uint32{1, 0, 1<<32 - 1} {
		if err := s.Set(deadline(t), HNSValue, number); err != nil {
			t.Fatal(err)
		}
		expect(number, nil)
	}
	for range 2 {
		if err := s.Remove(deadline(t), HNSValue); err != nil {
			t.Fatal(err)
		}
		expect(0, hostapi.ErrNotFound)
	}
}
