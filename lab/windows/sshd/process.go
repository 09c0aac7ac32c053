package sshd

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// outputDelay is how long a descendant may keep the output of an exited command open.
const outputDelay = 10 * time.Second

// process is a command that runs.
type process struct {
	stdin io.WriteCloser
	// wait returns the exit code after the command has exited and its output was sent.
	wait func() (uint32, error)
	// kill kills the command and all its descendants. It must be called even after the command has exited.
	kill func()
}

// execute runs a command until it ends, or kills it when ctx ends. It returns the exit code.
func execute(ctx context.Context, cmd *exec.Cmd, stdin io.Reader, overlapped bool) (uint32, error) {
	start := startPiped
	if overlapped {
		start = startOverlapped
	}
	p, err := start(cmd)
	if err != nil {
		return 0, err
	}
	defer p.kill()
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	go func() {
		_, _ = io.CopyBuffer(p.stdin, stdin, make([]byte, copySize))
		_ = p.stdin.Close()
	}()
	return p.wait()
}

// startPiped starts a command with pipes as Go makes them.
func startPiped(cmd *exec.Cmd) (*process, error) {
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
		if cmd.ProcessState == nil {
			return 0, err
		}
		return uint32(cmd.ProcessState.ExitCode()), nil // whether its output was read to its end or not
	}
	return &process{stdin, wait, kill}, nil
}
