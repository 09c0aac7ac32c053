package sshd

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// systemFolder is where Windows is.
const systemFolder = `C:\windows`

// systemShell returns a command of cmd.exe, the default shell on Windows. Like OpenSSH for Windows, it encloses the line in
// quotes to preserve the quotes inside.
func systemShell(line string) *exec.Cmd {
	cmd := exec.Command(`C:\windows\system32\cmd.exe`)
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /c "` + line + `"`}
	return cmd
}

// startTree starts a command in a job object.
func startTree(cmd *exec.Cmd) (kill func(), err error) {
	return startInJob(func(flags uint32) (pid int, err error) {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.CreationFlags |= flags
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
}

// startInJob starts a process, with these flags, in a job object, so that kill ends it with all its descendants. It runs only once it is in
// the job.
func startInJob(start func(flags uint32) (pid int, err error)) (kill func(), err error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("creating a job object: %w", err)
	}
	release := sync.OnceFunc(func() {
		_ = windows.TerminateJobObject(job, 1)
		_ = windows.CloseHandle(job)
	})
	pid, err := start(windows.CREATE_SUSPENDED)
	if err == nil {
		err = enterJob(job, uint32(pid))
		if p, found := os.FindProcess(pid); err != nil && found == nil {
			_ = p.Kill()
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// enterJob adds a suspended process to a job and resumes it.
func enterJob(job windows.Handle, pid uint32) error {
	process, err := windows.OpenProcess(windows.PROCESS_ALL_ACCESS, false, pid)
	if err != nil {
		return fmt.Errorf("opening the process: %w", err)
	}
	defer windows.CloseHandle(process)
	if err := windows.AssignProcessToJobObject(job, process); err != nil {
		return fmt.Errorf("assigning the process to a job: %w", err)
	}
	return resume(pid)
}

// resume resumes the only thread of a suspended process.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("listing threads: %w", err)
	}
	defer windows.CloseHandle(snapshot)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("opening the thread: %w", err)
		}
		defer windows.CloseHandle(thread)
		if _, err := windows.ResumeThread(thread); err != nil {
			return fmt.Errorf("resuming the thread: %w", err)
		}
		return nil
	}
	return fmt.Errorf("finding the thread of process %d: %w", pid, err)
}
