package scm

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/windows"
)

// ServicesKey is the key below HKEY_LOCAL_MACHINE with a key for each service.
const ServicesKey = `SYSTEM\CurrentControlSet\Services\`

// Manager is a connection to the SCM.
type Manager struct{ Handle windows.Handle }

// Connect opens a connection with the access rights (SC_MANAGER_*) in addition to that of opening services.
func Connect(access uint32) (Manager, error) {
	h, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT|access)
	if err != nil {
		return Manager{}, fmt.Errorf("connecting to the service control manager: %w", err)
	}
	return Manager{h}, nil
}

// Close ends the connection.
func (m Manager) Close() { _ = windows.CloseServiceHandle(m.Handle) }

// Open opens a service. A missing one is fs.ErrNotExist.
func (m Manager) Open(name string, access uint32) (Service, error) {
	n, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return Service{}, err
	}
	h, err := windows.OpenService(m.Handle, n, access)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		err = fmt.Errorf("there is no such service: %w", fs.ErrNotExist)
	}
	return Service{h}, err
}

// Entry is a service in the SCM's list.
type Entry struct {
	Name   string
	Status windows.SERVICE_STATUS_PROCESS
}

// Services lists all services that are programs. Hosts with many sessions have hundreds, which take more than one page.
func (m Manager) Services() ([]Entry, error) {
	buffer := make([]byte, 256<<10) // the SCM accepts no larger one
	return pages(func(resume *uint32) (page []Entry, more bool, err error) {
		var count, needed uint32
		err = windows.EnumServicesStatusEx(m.Handle, windows.SC_ENUM_PROCESS_INFO, windows.SERVICE_WIN32,
			windows.SERVICE_STATE_ALL, &buffer[0], uint32(len(buffer)), &needed, &count, resume, nil)
		more = errors.Is(err, windows.ERROR_MORE_DATA)
		if err != nil && !more {
			return nil, false, err
		}
		for _, e := range unsafe.Slice((*windows.ENUM_SERVICE_STATUS_PROCESS)(unsafe.Pointer(&buffer[0])), count) {
			page = append(page, Entry{Name: windows.UTF16PtrToString(e.ServiceName), Status: e.ServiceStatusProcess})
		}
		return page, more, nil
	})
}
