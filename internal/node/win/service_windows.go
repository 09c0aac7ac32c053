package win

import (
	"fmt"
	"syscall"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// service is an open service.
type service struct{ scm.Service }

// config is the declared part of QueryServiceConfig.
type config struct {
	kind, start      uint32
	command, account string
	dependsOn        []string
}

// config reads the configuration of a service by its name. Wine's SCM does not return the dependencies, but stores them in the
// registry like Windows' SCM.
func (s service) config(name string) (config, error) {
	buffer, err := scm.Answer(func(buffer *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig(s.Handle, (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(buffer)), size, needed)
	})
	if err != nil {
		return config{}, err
	}
	q := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buffer[0]))
	dependsOn := list(q.Dependencies)
	if dependsOn == nil {
		dependsOn = texts(scm.ServicesKey+name, "DependOnService")
	}
	return config{
		kind:      q.ServiceType,
		start:     q.StartType,
		command:   windows.UTF16PtrToString(q.BinaryPathName),
		account:   windows.UTF16PtrToString(q.ServiceStartName),
		dependsOn: dependsOn,
	}, nil
}

// list reads a list of strings that ends with an empty one.
func list(p *uint16) []string {
	var all []string
	for p != nil && *p != 0 {
		s := windows.UTF16PtrToString(p)
		all = append(all, s)
		p = (*uint16)(unsafe.Add(unsafe.Pointer(p), 2*(len(utf16.Encode([]rune(s)))+1)))
	}
	return all
}

// block encodes strings for Windows, the last followed by an empty one.
func block(all []string) []uint16 {
	var b []uint16
	for _, s := range all {
		b = append(append(b, utf16.Encode([]rune(s))...), 0)
	}
	return append(b, 0, 0)
}

func (s service) description() (string, error) {
	buffer, err := s.setting(windows.SERVICE_CONFIG_DESCRIPTION)
	if err != nil {
		return "", err
	}
	return windows.UTF16PtrToString((*windows.SERVICE_DESCRIPTION)(unsafe.Pointer(&buffer[0])).Description), nil
}

// setting reads the result of QueryServiceConfig2 at a level.
func (s service) setting(level uint32) ([]byte, error) {
	return scm.Answer(func(buffer *byte, size uint32, needed *uint32) error {
		return windows.QueryServiceConfig2(s.Handle, level, buffer, size, needed)
	})
}

// ended describes why a service is stopped.
func ended(status windows.SERVICE_STATUS_PROCESS) string {
	if syscall.Errno(status.Win32ExitCode) == windows.ERROR_SERVICE_SPECIFIC_ERROR {
		return fmt.Sprintf("it ended with code %d of its own (Win32 exit code %d)", status.ServiceSpecificExitCode, status.Win32ExitCode)
	}
	return "it ended with Win32 exit code " + numbered(syscall.Errno(status.Win32ExitCode))
}

// numbered formats a Windows error with its number, which is the same in every language.
func numbered(code syscall.Errno) string { return fmt.Sprintf("%d: %v", uint32(code), code) }
