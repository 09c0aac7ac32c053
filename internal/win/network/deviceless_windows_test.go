package network

import (
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/windows/registry"
)

// TestStaticAddressesAreKeptAndNotAgain uses a key of its own in place of that of the Host Network Service.
func TestStaticAddressesAreKeptAndNotAgain(t *testing.T) {
	const path = `SOFTWARE\wmco-test-hns`
	if changed, err := keepStaticBelow(path, true); changed || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the service: %v, %v", changed, err)
	}
	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS|registry.WOW64_64KEY)
	if err != nil {
		t.Skipf("administrators only: %v", err)
	}
	t.Cleanup(func() {
		_ = registry.DeleteKey(key, "State")
		_ = key.Close()
		_ = registry.DeleteKey(registry.LOCAL_MACHINE, path)
	})
	for i, test := range []struct{ keep, changed bool }{{false, false}, {true, true}, {true, false}, {false, true}, {false, false}} {
		if changed, err := keepStaticBelow(path, test.keep); err != nil || changed != test.changed {
			t.Errorf("call %d, %v: changed %v, %v, want %v", i, test.keep, changed, err, test.changed)
		}
	}
}
