package win

import (
	"errors"
	"testing"

	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

// mustHaveHNSKey creates the key of the service for a test, if Windows has none.
func mustHaveHNSKey(t *testing.T) {
	t.Helper()
	key, existed, err := registry.CreateKey(registry.LOCAL_MACHINE, hnsKey, registry.ALL_ACCESS)
	if err != nil {
		t.Fatal(err)
	}
	key.Close()
	t.Cleanup(func() {
		_ = hnsState{}.Remove(t.Context(), contract.HNSValue)
		if !existed {
			_ = registry.DeleteKey(registry.LOCAL_MACHINE, hnsKey+`\`+hnsStateKey)
			_ = registry.DeleteKey(registry.LOCAL_MACHINE, hnsKey)
		}
	})
}

func TestHNSStateKeepsTheContract(t *testing.T) {
	contract.HNSState(t, func(t *testing.T) contract.HNSStateFixture {
		f := contract.HNSStateFixture{State: mustHost(t).HNSState}
		if _, err := registry.OpenKey(registry.LOCAL_MACHINE, hnsKey, registry.QUERY_VALUE); errors.Is(err, registry.ErrNotExist) && t.Name() == "TestHNSStateKeepsTheContract/NoServiceIsMade" {
			f.Without = func(*testing.T) {}
			return f
		}
		mustHaveHNSKey(t)
		return f
	})
}

func TestValueOfOtherTypeIsNoNumber(t *testing.T) {
	mustHaveHNSKey(t)
	err := useHNSState(registry.SET_VALUE, true, func(k registry.Key) error { return k.SetStringValue(contract.HNSValue, "1") })
	if err != nil {
		t.Fatal(err)
	}
	if n, err := (hnsState{}).Get(t.Context(), contract.HNSValue); !errors.Is(err, hostapi.ErrNoNumber) {
		t.Errorf("Get() = %d, %v, want %v", n, err, hostapi.ErrNoNumber)
	}
	if err := (hnsState{}).Remove(t.Context(), contract.HNSValue); err != nil {
		t.Error(err)
	}
}
