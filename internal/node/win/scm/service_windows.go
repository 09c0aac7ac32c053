package scm

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// Service is an open service. While it is open, it exists even if it is deleted.
type Service struct{ Handle windows.Handle }

// Close closes the service.
func (s Service) Close() { _ = windows.CloseServiceHandle(s.Handle) }

// Status returns the status of a service. A service whose process has died is stopped; Windows' SCM takes a moment to notice that, Wine's never does.
func (s Service) Status() (windows.SERVICE_STATUS_PROCESS, error) {
	var status windows.SERVICE_STATUS_PROCESS
	var needed uint32
	err := windows.QueryServiceStatusEx(s.Handle, windows.SC_STATUS_PROCESS_INFO,
		(*byte)(unsafe.Pointer(&status)), uint32(unsafe.Sizeof(status)), &needed)
	if err == nil && status.CurrentState != windows.SERVICE_STOPPED && Died(status.ProcessId) {
		status.CurrentState = windows.SERVICE_STOPPED
		status.Win32ExitCode = uint32(windows.ERROR_PROCESS_ABORTED)
	}
	return status, err
}
