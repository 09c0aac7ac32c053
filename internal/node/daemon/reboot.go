package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/configure"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// restartDelay leaves time to send the answer.
const restartDelay = 10 * time.Second

// Restart restarts the host, unless it has restarted since the decision. While Windows completes its setup, features or updates after a start, it
// returns an error.
func Restart(ctx context.Context, s *wicdapi.Session, h hostapi.Host) (wicdapi.RestartResult, error) {
	var r wicdapi.RestartRequest
	if err := s.Request(&r); err != nil {
		return wicdapi.RestartResult{}, err
	}
	if r.BootID == "" {
		return wicdapi.RestartResult{}, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: "bootID is empty; the boot ID of the host when the restart was decided is needed"}
	}
	boot, err := h.NextStart.Boot(ctx)
	if err != nil {
		return wicdapi.RestartResult{}, fmt.Errorf("reading the boot ID of the host: %w", err)
	}
	if boot != r.BootID {
		return wicdapi.RestartResult{BootID: boot}, nil
	}
	unfinished, err := h.NextStart.Unfinished(ctx)
	if err != nil {
		return wicdapi.RestartResult{}, fmt.Errorf("reading what Windows has not completed: %w", err)
	}
	if err := configure.AwaitWindows(unfinished, "the host is restarted"); err != nil {
		return wicdapi.RestartResult{}, err
	}
	if err := h.System.Reboot(ctx, r.Comment, restartDelay); err != nil {
		return wicdapi.RestartResult{}, fmt.Errorf("restarting the host: %w", err)
	}
	state.Note(h.Disk, wicdapi.JournalEntry{Time: time.Now().UTC(), Step: "restart", Change: "restarting: " + r.Comment})
	return wicdapi.RestartResult{BootID: boot, Restarting: true}, nil
}
