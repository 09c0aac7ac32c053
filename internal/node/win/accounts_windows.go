package win

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// Keys below HKEY_LOCAL_MACHINE: the plugins of Container Credential Guard are subkeys of the first, by their class IDs
// (https://learn.microsoft.com/windows/win32/api/ccgplugins/nf-ccgplugins-iccgdomainauthcredentials-getpasswordcredentials).
const (
	credentialPlugins = `SYSTEM\CurrentControlSet\Control\CCG\COMClasses`
	classIDs          = `SOFTWARE\Classes\CLSID`
)

// accounts is what this Windows has for group Managed Service Accounts.
type accounts struct{}

// Domain implements hostapi.Accounts.
func (accounts) Domain(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var name *uint16
	var kind uint32
	if err := windows.NetGetJoinInformation(nil, &name, &kind); err != nil {
		return "", fmt.Errorf("NetGetJoinInformation: %w", err)
	}
	if name == nil {
		return "", nil
	}
	defer func() { _ = windows.NetApiBufferFree((*byte)(unsafe.Pointer(name))) }()
	if kind != windows.NetSetupDomainName {
		return "", nil
	}
	return windows.UTF16PtrToString(name), nil
}

// Plugins implements hostapi.Accounts.
func (accounts) Plugins(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, credentialPlugins, registry.ENUMERATE_SUB_KEYS|registry.WOW64_64KEY)
	if errors.Is(err, registry.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf(`opening HKLM\%s: %w`, credentialPlugins, err)
	}
	defer key.Close()
	names, err := key.ReadSubKeyNames(4 * hostapi.MaxPlugins) // other subkeys may be among them
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf(`reading HKLM\%s: %w`, credentialPlugins, err)
	}
	var plugins []string
	for _, name := range names {
		id := strings.ToUpper(name)
		if guid, err := windows.GUIDFromString(id); err == nil && guid.String() == id && exists(classIDs+`\`+id) {
			plugins = append(plugins, id)
		}
	}
	slices.Sort(plugins)
	return plugins[:min(len(plugins), hostapi.MaxPlugins)], nil
}
