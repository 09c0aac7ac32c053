package win

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// hnsKey is the key of the Host Network Service below HKEY_LOCAL_MACHINE. hnsStateKey is its subkey with the values.
const (
	hnsKey      = scm.ServicesKey + "hns"
	hnsStateKey = "State"
)

// hnsState accesses the values of the Host Network Service in the registry.
type hnsState struct{}

// Get implements hostapi.HNSState.
func (hnsState) Get(ctx context.Context, name string) (number uint32, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	err = useHNSState(registry.QUERY_VALUE, false, func(k registry.Key) error {
		value, kind, err := k.GetIntegerValue(name)
		if errors.Is(err, registry.ErrUnexpectedType) || err == nil && kind != registry.DWORD {
			return hostapi.ErrNoNumber
		}
		number = uint32(value)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf(`reading value %s of HKLM\%s\%s: %w`, name, hnsKey, hnsStateKey, err)
	}
	return number, nil
}

// Set implements hostapi.HNSState.
func (hnsState) Set(ctx context.Context, name string, number uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := useHNSState(registry.SET_VALUE, true, func(k registry.Key) error { return k.SetDWordValue(name, number) })
	if err != nil {
		return fmt.Errorf(`setting value %s of HKLM\%s\%s: %w`, name, hnsKey, hnsStateKey, err)
	}
	return nil
}

// Remove implements hostapi.HNSState. It removes the key with its last value; Set creates a missing key.
func (hnsState) Remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	isEmpty := false
	err := useHNSState(registry.QUERY_VALUE|registry.SET_VALUE|registry.ENUMERATE_SUB_KEYS, false, func(k registry.Key) error {
		err := k.DeleteValue(name)
		if current, statErr := k.Stat(); statErr == nil {
			isEmpty = current.ValueCount == 0 && current.SubKeyCount == 0
		}
		return err
	})
	if err == nil && isEmpty {
		err = registry.DeleteKey(registry.LOCAL_MACHINE, hnsKey+`\`+hnsStateKey)
	}
	if err != nil && !errors.Is(err, hostapi.ErrNotFound) {
		return fmt.Errorf(`removing value %s of HKLM\%s\%s: %w`, name, hnsKey, hnsStateKey, err)
	}
	return nil
}

// useHNSState opens the key with the values, and creates it on request. It never creates the key of the service, which would look like an installed
// service.
func useHNSState(access uint32, create bool, use func(registry.Key) error) error {
	service, err := registry.OpenKey(registry.LOCAL_MACHINE, hnsKey, registry.CREATE_SUB_KEY|registry.WOW64_64KEY)
	if err != nil {
		return err
	}
	defer service.Close()
	var key registry.Key
	if create {
		key, _, err = registry.CreateKey(service, hnsStateKey, access|registry.WOW64_64KEY)
	} else {
		key, err = registry.OpenKey(service, hnsStateKey, access|registry.WOW64_64KEY)
	}
	if err != nil {
		return err
	}
	defer key.Close()
	return use(key)
}
