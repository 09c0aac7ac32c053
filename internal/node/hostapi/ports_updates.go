package hostapi

import (
	"context"
	"errors"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// UpdateAgent is the Windows Update Agent of the host.
type UpdateAgent interface {
	// Updates returns what the agent knows from its last search, and from its history. It makes the agent contact no server, and changes nothing. It
	// may take minutes, in which the agent uses a processor, and returns when ctx ends. What the agent does not answer is in Failures of the report,
	// which is within its bounds. An error means that nothing is known; ErrAgentSilent that the agent did not answer until ctx ended.
	Updates(ctx context.Context) (windowsupdate.Report, error)
}

// ErrAgentSilent is returned by UpdateAgent if the agent did not answer in time. Its process was ended.
var ErrAgentSilent = errors.New("the Windows Update Agent did not answer in time")
