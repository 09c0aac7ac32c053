package sshd

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// pipeSize is the buffer size of a command's pipes (contrib/win32/win32compat/fileio.c of Win32-OpenSSH, fileio_pipe).
const pipeSize = 4 << 10

// pipe is a pipe whose two ends are open for overlapped calls. The command inherits its end as a handle, because with an
// *os.File synchronous writes of the shell would hang (https://go.dev/issue/80979).
type pipe struct {
	server  *os.File
	command windows.Handle
}

// newPipe creates a pipe with the access rights of its two ends.
func newPipe(serverAccess, commandAccess uint32) (pipe, error) {
	id, err := windows.GenerateGUID()
	if err != nil {
		return pipe{}, fmt.Errorf("naming a pipe: %w", err)
	}
	text := `\\.\pipe\lab-sshd-` + id.String()
	name, err := windows.UTF16PtrFromString(text)
	if err != nil {
		return pipe{}, fmt.Errorf("naming a pipe: %w", err)
	}
	server, err := windows.CreateNamedPipe(name, serverAccess|windows.FILE_FLAG_OVERLAPPED, windows.PIPE_TYPE_BYTE|windows.PIPE_WAIT, 1, pipeSize, pipeSize, 0, nil)
	if err != nil {
		return pipe{}, fmt.Errorf("creating %s: %w", text, err)
	}
	client, err := windows.CreateFile(name, commandAccess, 0, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED, 0)
	if err != nil {
		_ = windows.CloseHandle(server)
		return pipe{}, fmt.Errorf("opening %s: %w", text, err)
	}
	return pipe{os.NewFile(uintptr(server), text), client}, nil
}

// streams are the pipes of a command: its input, its output and its error output.
type streams [3]pipe

func newStreams() (*streams, error) {
	var s streams
	for i := range s {
		serverAccess, commandAccess := uint32(windows.PIPE_ACCESS_INBOUND), uint32(windows.GENERIC_WRITE)
		if i == 0 {
			serverAccess, commandAccess = windows.PIPE_ACCESS_OUTBOUND, windows.GENERIC_READ
		}
		var err error
		if s[i], err = newPipe(serverAccess, commandAccess); err != nil {
			s.closeCommandEnds()
			s.closeServerEnds()
			return nil, err
		}
	}
	return &s, nil
}

func (s *streams) closeServerEnds() {
	for _, p := range s {
		_ = p.server.Close() // has no effect on pipes that were not created
	}
}

func (s *streams) closeCommandEnds() {
	for _, p := range s {
		_ = windows.CloseHandle(p.command)
	}
}

// send copies the command's output. It closes the returned channel when all output was sent, or sending failed.
func (s *streams) send(stdout, stderr io.Writer) <-chan struct{} {
	sent := make(chan struct{})
	var copies sync.WaitGroup
	for i, to := range map[int]io.Writer{1: stdout, 2: stderr} {
		copies.Go(func() {
			_, _ = io.Copy(to, s[i].server)
			_ = s[i].server.Close()
		})
	}
	go func() {
		copies.Wait()
		close(sent)
	}()
	return sent
}

// startOverlapped starts a command with pipes like those of OpenSSH for Windows.
func startOverlapped(cmd *exec.Cmd) (*process, error) {
	s, err := newStreams()
	if err != nil {
		return nil, err
	}
	var started *os.Process
	kill, err := startInJob(func(flags uint32) (pid int, err error) {
		attributes := &syscall.ProcAttr{Dir: cmd.Dir, Env: cmd.Environ(), Sys: &syscall.SysProcAttr{CreationFlags: flags}}
		if cmd.SysProcAttr != nil {
			attributes.Sys.CmdLine = cmd.SysProcAttr.CmdLine
		}
		for _, p := range s {
			attributes.Files = append(attributes.Files, uintptr(p.command))
		}
		pid, handle, err := syscall.StartProcess(cmd.Path, cmd.Args, attributes)
		if err != nil {
			return 0, err
		}
		defer func() { _ = syscall.CloseHandle(syscall.Handle(handle)) }()
		started, err = os.FindProcess(pid)
		return pid, err
	})
	s.closeCommandEnds()
	if err != nil {
		s.closeServerEnds()
		return nil, fmt.Errorf("starting the command: %w", err)
	}
	sent := s.send(cmd.Stdout, cmd.Stderr)
	wait := func() (uint32, error) {
		defer s.closeServerEnds()
		state, err := started.Wait()
		if err != nil {
			return 0, fmt.Errorf("waiting for the command: %w", err)
		}
		select {
		case <-sent:
		case <-time.After(outputDelay): // a descendant still holds the output open
		}
		return uint32(state.ExitCode()), nil
	}
	return &process{s[0].server, wait, kill}, nil
}
