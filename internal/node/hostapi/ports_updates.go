package hostapi

import (
	"context"
	"errors"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// UpdateAgent is the Windows Update Agent of the host. Each call may take minutes, in which the agent uses a processor, and returns when ctx ends. An
// error means that nothing is known; ErrAgentSilent that the agent did not answer until ctx ended.
type UpdateAgent interface {
	// Updates returns what the agent knows from its last search, and from its history. It makes the agent contact no server, and changes nothing. What
	// the agent does not answer is in Failures of the report, which is within its bounds.
	Updates(ctx context.Context) (windowsupdate.Report, error)
	// Search is Updates after a search at the server that the host's policies name, or Microsoft's. A failed search is in Failures.
	Search(ctx context.Context) (windowsupdate.Report, error)
	// Download downloads pending updates, named by their IDs; what windowsupdate.CheckIDs rejects is an error. What is downloaded already is left alone.
	// Terms of use are accepted. It does not search. An update that is not pending has no result.
	Download(ctx context.Context, ids []string) (windowsupdate.Outcome, error)
	// Install installs downloaded updates without asking anybody, and restarts nothing. It does not search, and downloads nothing. An update that is
	// not pending, or not downloaded, has no result. When ctx ends, the agent may finish what it began.
	Install(ctx context.Context, ids []string) (windowsupdate.Outcome, error)
	// Uninstall removes the cumulative update that brought Windows to a revision of its build. reboot is true if that takes effect only after a restart,
	// even if an earlier call did it. If no installed update has this revision, it returns ErrNotFound. An error of Windows is a *FeatureError.
	Uninstall(ctx context.Context, build, revision int) (reboot bool, err error)
}

// ErrAgentSilent is returned by UpdateAgent if the agent did not answer in time. Its process was ended.
var ErrAgentSilent = errors.New("the Windows Update Agent did not answer in time")
