//go:build !windows

package sshd

import (
	"os/exec"
	"syscall"
)

// systemShell is what lets this package be tested anywhere.
func systemShell(line string) *exec.Cmd { return exec.Command("/bin/sh", "-c", line) }

// startTree starts a command in a process group of its own, which kill ends.
func startTree(cmd *exec.Cmd) (kill func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }, nil
}
