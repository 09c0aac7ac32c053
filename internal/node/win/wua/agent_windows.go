package wua

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
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
func (a Agent) Updates(ctx context.Context) (windowsupdate.Report, error) {
	arguments := a.Arguments
	if len(arguments) == 0 {
		arguments = []string{Command}
	}
	output, err := subprocess.Call{
		What: "asking the Windows Update Agent", Arguments: arguments, MaxOutput: windowsupdate.MaxBytes, Flags: windows.BELOW_NORMAL_PRIORITY_CLASS,
	}.Run(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return windowsupdate.Report{}, hostapi.ErrAgentSilent
	}
	if err != nil {
		return windowsupdate.Report{}, err
	}
	return windowsupdate.Parse(output)
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
