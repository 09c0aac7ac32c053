package contract

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

// AdaptersFixture are the network interfaces of a host for one test.
type AdaptersFixture struct {
	Adapters hostapi.Adapters
	// CannotRestore reports that Windows does not let the test change settings; nil if it always does.
	CannotRestore func(error) bool
}

// Adapters checks the contract of hostapi.Adapters.
func Adapters(t *testing.T, fixture func(t *testing.T) AdaptersFixture) {
	t.Run("CurrentSettingsAreRestoredWithoutChange", func(t *testing.T) { currentSettingsAreRestored(t, fixture(t)) })
	t.Run("OnlyTheInterfaceWithTheAddressIsChanged", func(t *testing.T) {
		f := fixture(t)
		if err := f.Adapters.Restore(deadline(t), netip.MustParseAddr("203.0.113.99"), hostnetwork.Loss{MTU: 1400}); err == nil {
			t.Error("an interface without the address was changed")
		}
	})
	t.Run("CallsEndWithTheirContext", func(t *testing.T) {
		f := fixture(t)
		_, err := f.Adapters.Adapters(canceled(t))
		for _, err := range []error{err, f.Adapters.Restore(canceled(t), netip.MustParseAddr("203.0.113.99"), hostnetwork.Loss{})} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a canceled call returned %v", err)
			}
		}
	})
}

func currentSettingsAreRestored(t *testing.T, f AdaptersFixture) {
	before, err := f.Adapters.Adapters(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(before, func(a hostnetwork.Adapter) bool { return len(a.Addresses) > 0 })
	if at < 0 {
		t.Skip("no interface has an IPv4 address")
	}
	a := before[at]
	err = f.Adapters.Restore(deadline(t), a.Addresses[0].Prefix.Addr(), hostnetwork.Loss{Addresses: a.Addresses[:1], MTU: a.MTU})
	if err != nil && f.CannotRestore != nil && f.CannotRestore(err) {
		t.Skip(err)
	}
	after, errAfter := f.Adapters.Adapters(deadline(t))
	if err != nil || errAfter != nil {
		t.Fatal(err, errAfter)
	}
	if now := after[at]; !slices.Equal(now.Addresses, a.Addresses) || !slices.Equal(now.DNS, a.DNS) || now.MTU != a.MTU || now.Metric != a.Metric {
		t.Errorf("%+v, was %+v", now, a)
	}
}
