package wua

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/subprocess"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// Agent asks the Windows Update Agent in another process.
type Agent struct {
	// Arguments start that process from this program; Command if empty.
	Arguments []string
}

// Updates implements hostapi.UpdateAgent.
func (a Agent) Updates(ctx context.Context) (windowsupdate.Report, error) { return a.report(ctx) }

// Search implements hostapi.UpdateAgent.
func (a Agent) Search(ctx context.Context) (windowsupdate.Report, error) {
	return a.report(ctx, operationSearch)
}

// Download implements hostapi.UpdateAgent.
func (a Agent) Download(ctx context.Context, ids []string) (windowsupdate.Outcome, error) {
	return a.operate(ctx, operationDownload, ids)
}

// Install implements hostapi.UpdateAgent.
func (a Agent) Install(ctx context.Context, ids []string) (windowsupdate.Outcome, error) {
	return a.operate(ctx, operationInstall, ids)
}

func (a Agent) report(ctx context.Context, arguments ...string) (windowsupdate.Report, error) {
	output, err := a.run(ctx, arguments...)
	if err != nil {
		return windowsupdate.Report{}, err
	}
	return windowsupdate.Parse(output)
}

func (a Agent) operate(ctx context.Context, operation string, ids []string) (windowsupdate.Outcome, error) {
	if err := windowsupdate.CheckIDs(ids); err != nil {
		return windowsupdate.Outcome{}, err
	}
	output, err := a.run(ctx, append([]string{operation}, ids...)...)
	if err != nil {
		return windowsupdate.Outcome{}, err
	}
	return windowsupdate.ParseOutcome(output)
}

// run returns the output of the process with these further arguments.
func (a Agent) run(ctx context.Context, arguments ...string) ([]byte, error) {
	first := a.Arguments
	if len(first) == 0 {
		first = []string{Command}
	}
	output, err := subprocess.Call{
		What: "asking the Windows Update Agent", Arguments: slices.Concat(first, arguments), MaxOutput: windowsupdate.MaxBytes,
		Flags: windows.BELOW_NORMAL_PRIORITY_CLASS,
	}.Run(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, hostapi.ErrAgentSilent
	}
	return output, err
}

// Answer asks the agent for the parent of this process, writes the report or outcome as JSON, and returns the exit code. Arguments are those after
// Command; if they are invalid, the agent is not asked. The process exits when its input ends.
func Answer(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	r, err := parse(args)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(1)
	}()
	create, err := openCOM()
	if err != nil {
		create = func(string) (object, error) { return nil, err }
	}
	if err := json.NewEncoder(stdout).Encode(r.answer(create, hostSettings, time.Now())); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
