package sshd

import (
	"errors"
	"fmt"
	"io"
	"os/exec"

	"golang.org/x/crypto/ssh"
)

// process is a command that runs.
type process struct {
	stdin io.WriteCloser
	// wait returns its exit code when it has ended and its output was sent.
	wait func() (uint32, error)
	// kill ends it with all its descendants. It must be called, also after the command has ended.
	kill func()
}

// start starts a command whose output goes to a channel.
func start(cmd *exec.Cmd, ch ssh.Channel, q Quirks) (*process, error) {
	if q.OverlappedPipes {
		return startOverlapped(cmd, ch)
	}
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	cmd.WaitDelay = outputDelay
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("creating a pipe for the command: %w", err)
	}
	kill, err := startTree(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting the command: %w", err)
	}
	wait := func() (uint32, error) {
		err := cmd.Wait()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			return uint32(exit.ExitCode()), nil
		case errors.Is(err, exec.ErrWaitDelay): // a process that it left behind holds its output
			return 0, nil
		case q.RunsOn && cmd.ProcessState != nil: // its output no longer had a reader
			return uint32(cmd.ProcessState.ExitCode()), nil
		}
		return 0, err
	}
	return &process{stdin, wait, kill}, nil
}
