package win

import (
	"errors"

	"golang.org/x/sys/windows"
)

// died tells whether there is no such process any more. It is false when Windows does not say.
func died(pid uint32) bool {
	if pid == 0 {
		return false
	}
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, pid)
	if err != nil {
		return errors.Is(err, windows.ERROR_INVALID_PARAMETER)
	}
	p := process{h}
	defer p.close()
	return p.ended()
}

// process is the open process of a service, or nothing: of a stopped service, or of one that shares its process
// with others.
type process struct{ handle windows.Handle }

// process opens the process of a service. The handle stays that of this process, also when it has ended and its
// number is taken by another.
func (s service) process() (process, error) {
	for {
		status, err := s.status()
		if err != nil {
			return process{}, err
		}
		own := status.ServiceType&windows.SERVICE_WIN32_OWN_PROCESS != 0
		if status.CurrentState == windows.SERVICE_STOPPED || status.ProcessId == 0 || !own {
			return process{}, nil
		}
		h, err := windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_TERMINATE, false, status.ProcessId)
		if err != nil && !errors.Is(err, windows.ERROR_INVALID_PARAMETER) { // that one: no such process any more
			return process{}, err
		}
		// While the service still has this process, the number cannot have been given to another.
		if again, err := s.status(); err == nil && again.ProcessId == status.ProcessId {
			return process{h}, nil
		}
		process{h}.close()
	}
}

func (p process) close() {
	if p.handle != 0 {
		_ = windows.CloseHandle(p.handle)
	}
}

// ended tells whether the process is gone. No process is.
func (p process) ended() bool {
	if p.handle == 0 {
		return true
	}
	event, err := windows.WaitForSingleObject(p.handle, 0)
	return err == nil && event == windows.WAIT_OBJECT_0
}

// end ends the process by force.
func (p process) end() error {
	if p.handle == 0 {
		return errors.New("it has none of its own")
	}
	if err := windows.TerminateProcess(p.handle, 1); err != nil && !p.ended() {
		return err
	}
	return nil
}
