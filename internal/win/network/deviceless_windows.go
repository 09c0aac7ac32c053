package network

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/windows/registry"
)

// hnsKey is the key of the Host Network Service below HKEY_LOCAL_MACHINE. The value is that of the original operator's prerequisites:
// https://github.com/openshift/windows-machine-config-operator/blob/master/docs/byoh-instance-pre-requisites.md
const (
	hnsKey     = `SYSTEM\CurrentControlSet\Services\hns`
	deviceLess = "DeviceLessNicDisabled"
)

// KeepStatic has the Host Network Service, from its next start on, make no adapters without a device, or make them as before. A Windows
// without the service is fs.ErrNotExist.
func KeepStatic(keep bool) (changed bool, err error) { return keepStaticBelow(hnsKey, keep) }

func keepStaticBelow(path string, keep bool) (changed bool, err error) {
	service, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.CREATE_SUB_KEY|registry.WOW64_64KEY)
	if errors.Is(err, registry.ErrNotExist) {
		return false, fmt.Errorf(`HKLM\%s: %w`, path, fs.ErrNotExist)
	}
	if err != nil {
		return false, fmt.Errorf(`opening HKLM\%s: %w`, path, err)
	}
	defer service.Close()
	state, _, err := registry.CreateKey(service, "State", registry.QUERY_VALUE|registry.SET_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return false, fmt.Errorf(`opening HKLM\%s\State: %w`, path, err)
	}
	defer state.Close()
	now, _, err := state.GetIntegerValue(deviceLess)
	isSet := err == nil && now != 0
	switch {
	case isSet == keep:
		return false, nil
	case keep:
		err = state.SetDWordValue(deviceLess, 1)
	default:
		err = state.DeleteValue(deviceLess)
	}
	if err != nil {
		return false, fmt.Errorf(`setting %s of HKLM\%s\State: %w`, deviceLess, path, err)
	}
	return true, nil
}
