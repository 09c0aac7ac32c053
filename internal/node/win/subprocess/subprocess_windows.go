package subprocess

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

const (
	// marker is an environment variable that marks such a process, so that it does not start another one.
	marker = "WICD_SUBPROCESS"
	// killedAfter is how long the process may take to end when it was asked to, and then hold its output open.
	killedAfter = 10 * time.Second
	// maxStderr limits what is reported of the process's standard error, in bytes.
	maxStderr = 2 << 10
)

// Call is a call that another process makes.
type Call struct {
	// What is what it does, for messages, such as "running DISM".
	What string
	// Arguments are those of the process. The program must recognize them before it does anything else.
	Arguments []string
	// MaxOutput limits the output, in bytes.
	MaxOutput int
	// Flags are creation flags, such as a priority.
	Flags uint32
}

// Run starts the process, and returns its output. Its standard input is closed when ctx or this process ends: it must then exit; if ctx ended, it is killed a
// moment later.
func (c Call) Run(ctx context.Context) ([]byte, error) {
	if os.Getenv(marker) != "" {
		return nil, fmt.Errorf("%s: this process was started for one call, and must not start another process", c.What)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	output, stderr := limited{limit: c.MaxOutput}, limited{limit: maxStderr}
	cmd := exec.CommandContext(ctx, program, c.Arguments...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdout, cmd.Stderr = &output, &stderr
	cmd.Cancel, cmd.WaitDelay = stdin.Close, killedAfter
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW | c.Flags}
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%s in another process: %w: %s", c.What, err, bytes.TrimSpace(stderr.buffer.Bytes()))
	case output.isCut:
		return nil, fmt.Errorf("%s in another process: it wrote more than %d bytes", c.What, c.MaxOutput)
	}
	return output.buffer.Bytes(), nil
}

// limited keeps the first bytes that are written to it, and discards the others, so that the writer does not block. The buffer is not embedded:
// io.Copy would use its ReadFrom, which has no limit.
type limited struct {
	buffer bytes.Buffer
	limit  int
	isCut  bool
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.limit-l.buffer.Len())]
	l.isCut = l.isCut || len(kept) < len(p)
	_, _ = l.buffer.Write(kept)
	return len(p), nil
}
