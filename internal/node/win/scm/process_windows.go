package scm

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Died reports whether a process no longer exists. It is false if that is unknown.
func Died(pid uint32) bool {
	if pid == 0 {
		return false
	}
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, pid)
	if err != nil {
		return errors.Is(err, windows.ERROR_INVALID_PARAMETER)
	}
	p := Process{h}
	defer p.Close()
	return p.Ended()
}

// Process is the open process of a service; empty for a stopped service, or one that shares its process.
type Process struct{ Handle windows.Handle }

// Process opens the process of a service. The handle keeps referring to it even after it has exited and another process has its ID.
func (s Service) Process() (Process, error) {
	for {
		status, err := s.Status()
		if err != nil {
			return Process{}, err
		}
		own := status.ServiceType&windows.SERVICE_WIN32_OWN_PROCESS != 0
		if status.CurrentState == windows.SERVICE_STOPPED || status.ProcessId == 0 || !own {
			return Process{}, nil
		}
		h, err := windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_TERMINATE, false, status.ProcessId)
		if err != nil && !errors.Is(err, windows.ERROR_INVALID_PARAMETER) { // the process no longer exists
			return Process{}, err
		}
		// While the service still has this process, its ID cannot belong to another.
		if again, err := s.Status(); err == nil && again.ProcessId == status.ProcessId {
			return Process{h}, nil
		}
		Process{h}.Close()
	}
}

// Close closes the process.
func (p Process) Close() {
	if p.Handle != 0 {
		_ = windows.CloseHandle(p.Handle)
	}
}

// Ended reports whether the process has exited. It is true without a process.
func (p Process) Ended() bool {
	if p.Handle == 0 {
		return true
	}
	event, err := windows.WaitForSingleObject(p.Handle, 0)
	return err == nil && event == windows.WAIT_OBJECT_0
}

// End kills the process.
func (p Process) End() error {
	if p.Handle == 0 {
		return errors.New("the service has no process of its own")
	}
	if err := windows.TerminateProcess(p.Handle, 1); err != nil && !p.Ended() {
		return err
	}
	return nil
}
