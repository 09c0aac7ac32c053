package main

import "C"

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hcs"
)

// process is a handle to a process of a compute system.
type process struct {
	pid    uint32
	handle windows.Handle
	system string
	pipes  pipes // of the creator
}

// pipes are the caller's ends of a process's standard input and outputs in HCS_PROCESS_INFORMATION; 0 if not requested.
type pipes struct{ in, out, err windows.Handle }

// information is Windows' HCS_PROCESS_INFORMATION.
type information struct {
	pid, reserved uint32
	pipes         pipes
}

func (s *system) create(document string) (*process, error) {
	p, err := hcs.ParseParameters(document)
	if err != nil {
		return nil, err
	}
	program, err := s.program(p)
	if err != nil {
		return nil, err
	}
	var ends stdio
	defer ends.closeChild()
	if err := ends.open(p); err != nil {
		ends.closeParent()
		return nil, err
	}
	environment := p.Block(s.Host, "WINEDEBUG="+guestapi.DriveTag+filepath.Base(s.Root))
	started, err := start(program, p.CommandLine, p.WorkingDirectory, environment, ends.child)
	if err != nil {
		ends.closeParent()
		return nil, err
	}
	defer windows.CloseHandle(started.Thread)
	err = windows.AssignProcessToJobObject(s.job.handle, started.Process)
	if err == nil {
		_, err = windows.ResumeThread(started.Thread)
	}
	if err != nil {
		_ = windows.TerminateProcess(started.Process, killed)
		_ = windows.CloseHandle(started.Process)
		ends.closeParent()
		return nil, fmt.Errorf("putting the process into its job: %w", err)
	}
	return &process{pid: started.ProcessId, handle: started.Process, system: s.ID, pipes: ends.parent}, nil
}

// program returns the host's path of the program in a command line.
func (s *system) program(p hcs.Parameters) (string, error) {
	args, err := windows.DecomposeCommandLine(p.CommandLine)
	if err != nil || len(args) == 0 {
		return "", fmt.Errorf("splitting %q: %w", p.CommandLine, hcs.InvalidJSON)
	}
	for _, path := range p.Candidates(args[0]) {
		if found := hcs.Inside(s.Root, path, isFile); isFile(found) {
			return found, nil
		}
	}
	return "", fmt.Errorf("finding program %s: %w", args[0], hcs.FileNotFound)
}

// stdio are both ends of a process's standard input and outputs.
type stdio struct {
	parent pipes
	child  [3]windows.Handle
}

func (s *stdio) open(p hcs.Parameters) error {
	for i, end := range []struct {
		wanted bool
		parent *windows.Handle
	}{{p.CreateStdInPipe, &s.parent.in}, {p.CreateStdOutPipe, &s.parent.out}, {p.CreateStdErrPipe, &s.parent.err}} {
		var err error
		if !end.wanted {
			s.child[i], err = inherited("NUL", windows.GENERIC_READ|windows.GENERIC_WRITE)
		} else {
			*end.parent, s.child[i], err = pipe(i == 0)
		}
		if err != nil {
			return fmt.Errorf("opening standard input and outputs: %w", err)
		}
	}
	if p.EmulateConsole && s.parent.err == 0 { // one terminal has both outputs
		_ = windows.CloseHandle(s.child[2])
		self := windows.CurrentProcess()
		return windows.DuplicateHandle(self, s.child[1], self, &s.child[2], 0, true, windows.DUPLICATE_SAME_ACCESS)
	}
	return nil
}

func (s *stdio) closeChild() { closeAll(s.child[:]...) }

func (s *stdio) closeParent() { closeAll(s.parent.in, s.parent.out, s.parent.err) }

func closeAll(all ...windows.Handle) {
	for _, handle := range all {
		if handle != 0 && handle != windows.InvalidHandle {
			_ = windows.CloseHandle(handle)
		}
	}
}

// pipe creates a pipe. The caller can use one end with completion ports; a child inherits the other.
func pipe(childReads bool) (parent, child windows.Handle, err error) {
	var id windows.GUID
	if id, err = windows.GenerateGUID(); err != nil {
		return 0, 0, err
	}
	name := `\\.\pipe\wmco-lab-` + id.String()
	const size = 64 << 10
	parent, err = windows.CreateNamedPipe(windows.StringToUTF16Ptr(name), windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED,
		windows.PIPE_TYPE_BYTE, 1, size, size, 0, nil)
	if err != nil {
		return 0, 0, err
	}
	access := uint32(windows.GENERIC_WRITE)
	if childReads {
		access = windows.GENERIC_READ
	}
	if child, err = inherited(name, access); err != nil {
		_ = windows.CloseHandle(parent)
		return 0, 0, err
	}
	return parent, child, nil
}

// inherited opens a device for a child.
func inherited(name string, access uint32) (windows.Handle, error) {
	sa := &windows.SecurityAttributes{InheritHandle: 1}
	sa.Length = uint32(unsafe.Sizeof(*sa))
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE
	return windows.CreateFile(windows.StringToUTF16Ptr(name), access, share, sa, windows.OPEN_EXISTING, 0, 0)
}

// start creates a suspended process that inherits only its standard input and outputs.
func start(program, line, dir string, environment []string, std [3]windows.Handle) (windows.ProcessInformation, error) {
	var started windows.ProcessInformation
	list, err := windows.NewProcThreadAttributeList(1)
	if err != nil {
		return started, fmt.Errorf("preparing the process: %w", err)
	}
	defer list.Delete()
	err = list.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&std[0]), uintptr(len(std))*unsafe.Sizeof(std[0]))
	if err != nil {
		return started, fmt.Errorf("preparing the process: %w", err)
	}
	si := windows.StartupInfoEx{ProcThreadAttributeList: list.List()}
	si.Cb, si.Flags = uint32(unsafe.Sizeof(si)), windows.STARTF_USESTDHANDLES
	si.StdInput, si.StdOutput, si.StdErr = std[0], std[1], std[2]
	// No console: Wine would start a process for each. No process group: its processes would ignore control events.
	const flags = windows.CREATE_SUSPENDED | windows.CREATE_UNICODE_ENVIRONMENT | windows.EXTENDED_STARTUPINFO_PRESENT | windows.DETACHED_PROCESS
	block := windows.StringToUTF16(strings.Join(environment, "\x01") + "\x01\x01")
	for i, unit := range block {
		if unit == 1 {
			block[i] = 0
		}
	}
	err = windows.CreateProcess(windows.StringToUTF16Ptr(program), windows.StringToUTF16Ptr(line), nil, nil, true, flags, &block[0],
		windows.StringToUTF16Ptr(cmp.Or(dir, `C:\`)), &si.StartupInfo, &started)
	if err != nil {
		return started, fmt.Errorf("starting %s in %s: %w", line, dir, numbered(err))
	}
	return started, nil
}

// numbered preserves Windows' error number.
func numbered(err error) error {
	if number, ok := err.(syscall.Errno); ok {
		return fmt.Errorf("%w: %v", hcs.Result(0x80070000|uint32(number)), err)
	}
	return err
}

func (s *system) open(pid uint32) (*process, error) {
	handle, err := windows.OpenProcess(windows.PROCESS_ALL_ACCESS, false, pid)
	if err != nil {
		return nil, hcs.ProcessStopped
	}
	p := &process{pid: pid, handle: handle, system: s.ID}
	if !s.contains(handle) {
		_ = windows.CloseHandle(handle)
		return nil, hcs.ProcessStopped
	}
	return p, nil
}

// exit returns the exit code of a process that has exited.
func (p *process) exit() (code uint32, ended bool) {
	if state, err := windows.WaitForSingleObject(p.handle, 0); err != nil || state != windows.WAIT_OBJECT_0 {
		return 0, false
	}
	_ = windows.GetExitCodeProcess(p.handle, &code)
	return code, true
}

func (p *process) terminate() error {
	if _, ended := p.exit(); ended {
		return hcs.ProcessStopped
	}
	return windows.TerminateProcess(p.handle, killed)
}

// signal sends an event to the control handlers of a process as Windows does: in a new thread of the process.
func (p *process) signal(options string) error {
	if _, ended := p.exit(); ended {
		return hcs.NoElement
	}
	event, terminate, err := hcs.SignalOf(options)
	if err != nil {
		return err
	}
	if terminate {
		return p.terminate()
	}
	if err := controlRoutine.Find(); err != nil {
		return err
	}
	thread, _, err := createRemoteThread.Call(uintptr(p.handle), 0, 0, controlRoutine.Addr(), uintptr(event), 0, 0)
	if thread == 0 {
		return fmt.Errorf("sending event %d to process %d: %w", event, p.pid, err)
	}
	return windows.CloseHandle(windows.Handle(thread))
}

//export HcsCreateProcess
func HcsCreateProcess(handle uintptr, parameters *uint16, info unsafe.Pointer, created *uintptr, details **uint16) uint32 {
	return onSystem(handle, "HcsCreateProcess "+text(parameters), func(s *system) error {
		p, err := s.create(text(parameters))
		if err != nil {
			return err
		}
		*(*information)(info) = information{pid: p.pid, pipes: p.pipes}
		handles.add(created, p)
		logf("process %d of %s is %s", p.pid, s.ID, text(parameters))
		return nil
	})
}

//export HcsOpenProcess
func HcsOpenProcess(handle uintptr, pid uint32, opened *uintptr, details **uint16) uint32 {
	return onSystem(handle, fmt.Sprintf("HcsOpenProcess %d", pid), func(s *system) error {
		p, err := s.open(pid)
		if err == nil {
			handles.add(opened, p)
		}
		return err
	})
}

// onProcess runs a call on a process.
func onProcess(handle uintptr, name string, do func(*process) error) uint32 {
	p, err := find[*process](handle)
	if err != nil {
		return result(err, "%s", name)
	}
	return result(do(p), "%s %d of %s", name, p.pid, p.system)
}

//export HcsCloseProcess
func HcsCloseProcess(handle uintptr) uint32 {
	return onProcess(handle, "HcsCloseProcess", func(p *process) error {
		handles.remove(handle)
		return windows.CloseHandle(p.handle)
	})
}

//export HcsTerminateProcess
func HcsTerminateProcess(handle uintptr, details **uint16) uint32 {
	return onProcess(handle, "HcsTerminateProcess", (*process).terminate)
}

//export HcsSignalProcess
func HcsSignalProcess(handle uintptr, options *uint16, details **uint16) uint32 {
	return onProcess(handle, "HcsSignalProcess "+text(options), func(p *process) error { return p.signal(text(options)) })
}

//export HcsGetProcessInfo
func HcsGetProcessInfo(handle uintptr, info unsafe.Pointer, details **uint16) uint32 {
	return onProcess(handle, "HcsGetProcessInfo", func(p *process) error {
		*(*information)(info) = information{pid: p.pid, pipes: p.pipes}
		return nil
	})
}

//export HcsGetProcessProperties
func HcsGetProcessProperties(handle uintptr, properties, details **uint16) uint32 {
	return onProcess(handle, "HcsGetProcessProperties", func(p *process) error {
		code, ended := p.exit()
		status, err := hcs.ProcessStatus(p.pid, ended, code)
		setText(properties, status)
		logf("process %d: ended %v, exit code %d", p.pid, ended, code)
		return err
	})
}

// HcsModifyProcess accepts requests to close the standard input or to resize the console, without an effect.
//
//export HcsModifyProcess
func HcsModifyProcess(handle uintptr, request *uint16, details **uint16) uint32 {
	return onProcess(handle, "HcsModifyProcess "+text(request), func(*process) error { return nil })
}
