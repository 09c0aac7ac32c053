package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/configure"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/host"
)

// restartDelay leaves time to send the answer.
const restartDelay = 10 * time.Second

// Restart restarts the host, unless it has restarted since the decision. While Windows completes its setup, features or updates after a start, it
// returns an error.
func Restart(ctx context.Context, s *agent.Session, h host.Host) (agent.RestartResult, error) {
	var r agent.RestartRequest
	if err := s.Request(&r); err != nil {
		return agent.RestartResult{}, err
	}
	if r.BootID == "" {
		return agent.RestartResult{}, &agent.Error{Code: agent.CodeRequestInvalid, Message: "bootID is empty; the boot ID of the host when the restart was decided is needed"}
	}
	boot, err := h.NextStart.Boot(ctx)
	if err != nil {
		return agent.RestartResult{}, fmt.Errorf("reading the boot ID of the host: %w", err)
	}
	if boot != r.BootID {
		return agent.RestartResult{BootID: boot}, nil
	}
	unfinished, err := h.NextStart.Unfinished(ctx)
	if err != nil {
		return agent.RestartResult{}, fmt.Errorf("reading what Windows has not completed: %w", err)
	}
	if err := configure.AwaitWindows(unfinished, "the host is restarted"); err != nil {
		return agent.RestartResult{}, err
	}
	if err := h.System.Reboot(ctx, r.Comment, restartDelay); err != nil {
		return agent.RestartResult{}, fmt.Errorf("restarting the host: %w", err)
	}
	state.Note(h.Disk, agent.JournalEntry{Time: time.Now().UTC(), Step: "restart", Change: "restarting: " + r.Comment})
	return agent.RestartResult{BootID: boot, Restarting: true}, nil
}
