package wua

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// inProcess is an environment variable that marks a process started to ask the agent, so that it does not start another one.
const inProcess = "WICD_WINDOWS_UPDATES"

const (
	// killedAfter is how long a killed process may hold its output open.
	killedAfter = 10 * time.Second
	// maxStderr limits what is reported of the process's standard error, in bytes.
	maxStderr = 2 << 10
)

// Agent asks the Windows Update Agent in another process.
type Agent struct {
	// Arguments start that process from this program; Command if empty.
	Arguments []string
}

// Updates implements hostapi.UpdateAgent.
func (a Agent) Updates(ctx context.Context) (windowsupdate.Report, error) {
	if os.Getenv(inProcess) != "" {
		return windowsupdate.Report{}, errors.New("this process was started to ask the Windows Update Agent, and must not start another process for it")
	}
	program, err := os.Executable()
	if err != nil {
		return windowsupdate.Report{}, err
	}
	arguments := a.Arguments
	if len(arguments) == 0 {
		arguments = []string{Command}
	}
	output, stderr := limited{limit: windowsupdate.MaxBytes}, limited{limit: maxStderr}
	cmd := exec.CommandContext(ctx, program, arguments...)
	if _, err := cmd.StdinPipe(); err != nil { // its end, with this process or the call, ends the other one
		return windowsupdate.Report{}, err
	}
	cmd.Env = append(os.Environ(), inProcess+"=1")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &stderr, killedAfter
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW | windows.BELOW_NORMAL_PRIORITY_CLASS}
	err = cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return windowsupdate.Report{}, hostapi.ErrAgentSilent
	case ctx.Err() != nil:
		return windowsupdate.Report{}, ctx.Err()
	case err != nil:
		return windowsupdate.Report{}, fmt.Errorf("asking the Windows Update Agent in another process: %w: %s", err, bytes.TrimSpace(stderr.buffer.Bytes()))
	case output.isCut:
		return windowsupdate.Report{}, fmt.Errorf("the process that asks the Windows Update Agent wrote more than %d bytes", output.limit)
	}
	return windowsupdate.Parse(output.buffer.Bytes())
}

// limited keeps the first bytes that are written to it, and discards the others, so that the writer does not block. The buffer is no embedded
// field: io.Copy would use its ReadFrom, which knows no limit.
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

// Answer asks the agent for the parent of this process, writes the report as JSON, and returns the exit code. The process exits when its input ends.
func Answer(stdin io.Reader, stdout io.Writer) int {
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(1)
	}()
	create, err := openCOM()
	if err != nil {
		create = func(string) (object, error) { return nil, err }
	}
	if json.NewEncoder(stdout).Encode(read(create, hostSettings(), time.Now())) != nil {
		return 1
	}
	return 0
}
