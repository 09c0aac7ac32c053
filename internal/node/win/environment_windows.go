package win

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// machineEnvironment is the key below HKEY_LOCAL_MACHINE with the environment of the machine.
const machineEnvironment = `SYSTEM\CurrentControlSet\Control\Session Manager\Environment`

// environment is the environment of the machine.
type environment struct {
	// timeout limits notifying all windows of a change.
	timeout time.Duration
}

// Set implements hostapi.Environment. The values are REG_SZ: in a REG_EXPAND_SZ, Windows would interpret the percent-encoded characters of a proxy URL
// as names of variables.
func (e environment) Set(ctx context.Context, variables map[string]string, managed []string) (changed []string, err error) {
	err = errors.Join(ctx.Err(), hostapi.CheckVariables(variables))
	if err == nil {
		changed, err = write(variables, managed)
	}
	if len(changed) > 0 {
		e.notify(ctx)
	}
	if err != nil {
		return changed, fmt.Errorf("setting the environment of the machine: %w", err)
	}
	return changed, nil
}

func write(variables map[string]string, managed []string) (changed []string, err error) {
	const access = registry.QUERY_VALUE | registry.SET_VALUE | registry.WOW64_64KEY
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, machineEnvironment, access)
	if err != nil {
		return nil, fmt.Errorf(`opening HKLM\%s: %w`, machineEnvironment, err)
	}
	defer key.Close()
	wanted := slices.Sorted(maps.Keys(variables))
	var errs error
	note := func(name string, isChanged bool, err error) {
		if isChanged {
			changed = append(changed, name)
		}
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("variable %s: %w", name, err))
		}
	}
	for _, name := range wanted {
		isChanged, err := set(key, name, variables[name])
		note(name, isChanged, err)
	}
	for _, name := range managed {
		if !isNamed(name, wanted) {
			isChanged, err := remove(key, name)
			note(name, isChanged, err)
		}
	}
	slices.Sort(changed)
	return changed, errs
}

func set(key registry.Key, name, value string) (changed bool, err error) {
	if now, kind, err := key.GetStringValue(name); err == nil && kind == registry.SZ && now == value {
		return false, nil
	}
	err = key.SetStringValue(name, value)
	return err == nil, err
}

func remove(key registry.Key, name string) (changed bool, err error) {
	err = key.DeleteValue(name)
	if errors.Is(err, registry.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// notify notifies all windows of this session that the environment changed, so that programs started from them get the new one. None of the product's
// programs depends on it. Windows' timeout is for each window, so this one limits all.
func (e environment) notify(ctx context.Context) {
	const (
		broadcast      = 0xffff // HWND_BROADCAST
		settingChanged = 0x1a   // WM_SETTINGCHANGE
		abortIfHung    = 2      // SMTO_ABORTIFHUNG
		milliseconds   = 500
	)
	what, err := windows.UTF16PtrFromString("Environment")
	send := windows.NewLazySystemDLL("user32.dll").NewProc("SendMessageTimeoutW")
	if err != nil || send.Find() != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = send.Call(broadcast, settingChanged, 0, uintptr(unsafe.Pointer(what)), abortIfHung, milliseconds, 0)
	}()
	select {
	case <-done:
	case <-time.After(e.timeout):
	case <-ctx.Done():
	}
}

// ownEnvironment is the value of a service's key with its environment: REG_MULTI_SZ with lines NAME=value.
const ownEnvironment = "Environment"

// ownVariables reads the environment of a service, nil if it has none. An absent service is hostapi.ErrNotFound.
func ownVariables(service string) (map[string]string, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, scm.ServicesKey+service, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return nil, fmt.Errorf(`opening HKLM\%s%s: %w`, scm.ServicesKey, service, err)
	}
	defer key.Close()
	lines, _, err := key.GetStringsValue(ownEnvironment)
	switch {
	case errors.Is(err, registry.ErrNotExist):
		return nil, nil
	case errors.Is(err, registry.ErrUnexpectedType):
		return parse([]string{"(no list)"}), nil
	case err != nil:
		return nil, fmt.Errorf(`reading %s of HKLM\%s%s: %w`, ownEnvironment, scm.ServicesKey, service, err)
	}
	return parse(lines), nil
}

// setOwnVariables makes the environment of a service equal to the variables; it writes nothing if it already is. The variables may contain passwords:
// call closeKey first.
func setOwnVariables(service string, variables map[string]string) (changed bool, err error) {
	now, err := ownVariables(service)
	if err != nil || maps.Equal(now, variables) {
		return false, err
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, scm.ServicesKey+service, registry.SET_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return false, fmt.Errorf(`opening HKLM\%s%s: %w`, scm.ServicesKey, service, err)
	}
	defer key.Close()
	if len(variables) == 0 {
		err = key.DeleteValue(ownEnvironment)
	} else {
		err = key.SetStringsValue(ownEnvironment, lines(variables))
	}
	if err != nil {
		return false, fmt.Errorf(`writing %s of HKLM\%s%s: %w`, ownEnvironment, scm.ServicesKey, service, err)
	}
	return true, nil
}

// Rights to a key: full control for SYSTEM and Administrators, nothing inherited, no other account.
const (
	onlyOwnRights = "D:P"
	keyRights     = "(A;CI;KA;;;SY)(A;CI;KA;;;BA)"
)

// closeKey denies users of the host access to the key of a service, which Windows grants by default. It must be called before the key gets a secret:
// a user who opened the key earlier could still read it.
func closeKey(service string) error {
	const access = registry.QUERY_VALUE | registry.WOW64_64KEY | windows.READ_CONTROL | windows.WRITE_DAC
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, scm.ServicesKey+service, access)
	if err != nil {
		return fmt.Errorf(`opening HKLM\%s%s: %w`, scm.ServicesKey, service, err)
	}
	defer key.Close()
	if rightsOf(key) == keyRights {
		return nil
	}
	descriptor, err := windows.SecurityDescriptorFromString(onlyOwnRights + keyRights)
	if err != nil {
		return err
	}
	rights, _, err := descriptor.DACL()
	if err != nil {
		return err
	}
	const what = windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	if err := windows.SetSecurityInfo(windows.Handle(key), windows.SE_REGISTRY_KEY, what, nil, nil, rights, nil); err != nil {
		return fmt.Errorf(`closing HKLM\%s%s: %w`, scm.ServicesKey, service, err)
	}
	return nil
}

// rightsOf returns the rights to a key that inherits none, empty for any other key.
func rightsOf(key registry.Key) string {
	descriptor, err := windows.GetSecurityInfo(windows.Handle(key), windows.SE_REGISTRY_KEY, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return ""
	}
	return rightsAfter(descriptor, onlyOwnRights)
}

// lines returns variables in Windows' form, sorted.
func lines(variables map[string]string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		all = append(all, name+"="+variables[name])
	}
	return all
}

// parse parses lines; nil if there are none. An invalid or duplicate line gets a name that no variable has, so that the result
// differs from every declaration.
func parse(lines []string) map[string]string {
	var variables map[string]string
	for _, line := range lines {
		if variables == nil {
			variables = map[string]string{}
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || isNamed(name, slices.Collect(maps.Keys(variables))) {
			name, value = "", line
		}
		variables[name] = value
	}
	return variables
}
