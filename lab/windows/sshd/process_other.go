//go:build !windows

package sshd

import (
	"errors"
	"os/exec"
	"syscall"
)

// systemFolder replaces that of Windows.
const systemFolder = "/"

// systemShell returns a command of /bin/sh, for tests of this package on other systems.
func systemShell(line string) *exec.Cmd { return exec.Command("/bin/sh", "-c", line) }

// startTree starts a command in its own process group, which kill ends.
func startTree(cmd *exec.Cmd) (kill func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }, nil
}

func startOverlapped(*exec.Cmd) (*process, error) { return nil, errors.ErrUnsupported }
