package win

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/network"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// maxListeners is how many listeners are returned.
const maxListeners = 64

// listeners returns the programs that listen on ports that a node may need.
func listeners() (found []wicdapi.Listener, err error) {
	sockets, err := network.Sockets()
	if err != nil {
		return nil, fmt.Errorf("listing listening programs: %w", err)
	}
	for _, s := range sockets {
		if desired.MayListen(s.UDP, s.At.Port()) && len(found) < maxListeners {
			found = append(found, wicdapi.Listener{UDP: s.UDP, Port: s.At.Port(), Address: s.At.Addr(), PID: s.PID, Program: programOf(s.PID)})
		}
	}
	return found, nil
}

// programOf returns the path of a process's program; empty if Windows does not return it, as for its own processes.
func programOf(pid uint32) string {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return ""
	}
	p := scm.Process{Handle: h}
	defer p.Close()
	return image(p)
}

// hasPipe reports whether a program has created a named pipe, without connecting to it. golang.org/x/sys lacks the call.
func hasPipe(name string) (bool, error) {
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return false, err
	}
	const atMost = 1 // ms; 0 would select the default of the pipe's owner
	call := windows.NewLazySystemDLL("kernel32.dll").NewProc("WaitNamedPipeW")
	isFree, _, err := call.Call(uintptr(unsafe.Pointer(text)), atMost)
	switch {
	case isFree != 0, errors.Is(err, windows.ERROR_SEM_TIMEOUT), errors.Is(err, windows.ERROR_PIPE_BUSY):
		return true, nil
	case errors.Is(err, windows.ERROR_FILE_NOT_FOUND):
		return false, nil
	}
	return false, fmt.Errorf("checking for pipe %s: %w", name, err)
}
