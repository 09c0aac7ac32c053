package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
)

// A host that has joined is visited for three things: Stage, Restart and Leave. Each begins as a join does, and may be repeated.

// visitTimeout bounds everything but the transfer of content.
const visitTimeout = 10 * time.Minute

// Stage brings the content of another version to the host, which goes on with the one it has. Slot bounds how many do so.
func (j *Job) Stage(ctx context.Context) error {
	defer j.end()
	if err := j.arrive(ctx); err != nil {
		return err
	}
	return j.runStep(ctx, step{StepTransfer, time.Hour, (*Job).transfer})
}

// Restart tells the host to start anew, unless it did since it had the boot ID. It returns at once: that the host is back, and
// with another boot ID, is seen at its Node.
func (j *Job) Restart(ctx context.Context, bootID string) error {
	defer j.end()
	if err := j.arrive(ctx); err != nil {
		return err
	}
	if j.facts.Host.BootID != bootID {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	err := j.host.Run(ctx, restartCommand, nil, nil)
	var exit interface{ ExitStatus() int }
	if errors.As(err, &exit) && (exit.ExitStatus() == alreadyRestarting || exit.ExitStatus() == restartScheduled) {
		return nil
	}
	return err
}

// restartCommand restarts Windows after ten seconds, so that the command can answer; services are told to stop. The reason
// planned, operating system, reconfiguration (p:2:4) is what Windows notes in its log.
const restartCommand = `shutdown.exe /r /t 10 /d p:2:4 /c "Windows Machine Config Operator: node maintenance"`

// What shutdown.exe ends with when a restart is under way (ERROR_SHUTDOWN_IN_PROGRESS) or scheduled (ERROR_SHUTDOWN_IS_SCHEDULED).
const (
	alreadyRestarting = 1115
	restartScheduled  = 1190
)

// Leave takes everything of ours off the host. cluster is the UID of namespace kube-system: a host that has joined another
// one since is left alone.
func (j *Job) Leave(ctx context.Context, cluster string) (agent.LeaveResult, error) {
	defer j.end()
	var result agent.LeaveResult
	if err := j.arrive(ctx); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	wicd, err := j.wicd()
	if err != nil {
		return result, err
	}
	err = j.callWith(ctx, wicd.program(agent.CommandLeave), agent.LeaveRequest{Cluster: cluster}, &result, StepLeave)
	if err != nil {
		return result, fmt.Errorf("taking the host's services and files off: %w", err)
	}
	return result, nil
}

// StepLeave is the step in which a host leaves.
const StepLeave = "Leave"

// arrive connects, and makes sure that our WICD answers.
func (j *Job) arrive(ctx context.Context) error {
	for _, s := range steps()[:2] {
		if err := j.runStep(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
