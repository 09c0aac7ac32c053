package wua

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// The agent's service, its policies (https://learn.microsoft.com/windows/deployment/update/waas-wu-settings), and the key with the time at which
// Windows was installed.
const (
	service    = "wuauserv"
	policyKey  = `SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate`
	currentKey = `SOFTWARE\Microsoft\Windows NT\CurrentVersion`
)

// hostSettings reads the settings of this Windows.
func hostSettings() (s settings) {
	s.isDisabled = isDisabled(service)
	usesServer := false
	s.err = readKey(policyKey+`\AU`, func(k registry.Key) {
		off, _, _ := k.GetIntegerValue("NoAutoUpdate")
		uses, _, _ := k.GetIntegerValue("UseWUServer")
		s.noAutoUpdate, usesServer = off == 1, uses == 1
	})
	if usesServer { // otherwise, Windows ignores the server
		s.err = errors.Join(s.err, readKey(policyKey, func(k registry.Key) { s.server, _, _ = k.GetStringValue("WUServer") }))
	}
	_ = readKey(currentKey, func(k registry.Key) {
		if seconds, _, err := k.GetIntegerValue("InstallDate"); err == nil && seconds > 0 {
			s.installed = time.Unix(int64(seconds), 0)
		}
	})
	return s
}

// readKey reads a key below HKEY_LOCAL_MACHINE. An absent one is not an error.
func readKey(path string, read func(registry.Key)) error {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if errors.Is(err, registry.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer key.Close()
	read(key)
	return nil
}

// isDisabled reports whether a service is disabled. One whose settings cannot be read is not.
func isDisabled(name string) bool {
	m, err := scm.Connect(0)
	if err != nil {
		return false
	}
	defer m.Close()
	s, err := m.Open(name, windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return false
	}
	defer s.Close()
	config, err := scm.Answer(func(buffer *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig(s.Handle, (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(buffer)), size, needed)
	})
	return err == nil && (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&config[0])).StartType == windows.SERVICE_DISABLED
}
