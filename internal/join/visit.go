package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/payload"
)

// Visit is one connection to a host, and what WICD is asked for over it. A join is one; a host that has joined is visited for three
// things: Stage, Restart and Leave. Each begins as a join does, and may be repeated.
type Visit struct {
	// Host is connected to.
	Host Connector
	// Payload is what the operator carries; Content is the part of it that this host gets.
	Payload *payload.Payload
	Content payload.Manifest
	// Hostname is the name that the host shall have; empty for the one it has.
	Hostname string
	// Observer is told how it goes.
	Observer Observer
	// Now is the clock.
	Now func() time.Time

	platform string // of the cluster, where the host's name depends on it
	host     Host
	home     string // the full name of the home folder, with a backslash at its end, where the shell begins elsewhere
	byFiles  bool   // requests and content go as files
	facts    agent.Facts
	reached  netip.Addr
	slot     io.Closer
}

// Connector reaches one host.
type Connector interface {
	// Connect opens the connection; the host key is checked, or pinned at first contact, before it returns.
	Connect(ctx context.Context) (Host, error)
}

// Observer is told how a visit goes.
type Observer interface {
	// Progress is told when a step begins, ends, or moves on.
	Progress(Progress)
	// Altered is told of files on the host that did not have their content any more and were sent again.
	Altered(paths []string)
}

// arrival is how each visit begins.
func (v *Visit) arrival() []step {
	return []step{
		// The host answers at its address with the key we know, and accepts ours.
		{StepConnect, 45 * time.Second, v.connect},
		// WICD is on the host and says what the host is. Only a host without WICD is sent it: the one transfer.
		{StepInspect, 5 * time.Minute, v.inspect},
	}
}

func (v *Visit) runStep(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.deadline, fmt.Errorf("not done after %s", s.deadline))
	defer cancel()
	v.Observer.Progress(Progress{Step: s.name, State: v1alpha1.StepRunning})
	err := s.do(ctx)
	if err == nil {
		v.Observer.Progress(Progress{Step: s.name, State: v1alpha1.StepDone})
		return nil
	}
	if wait := (*Rebooting)(nil); errors.As(err, &wait) || isWindowsBusy(err) || errors.Is(err, ErrNoSlot) || errors.Is(err, ErrOccupied) {
		v.Observer.Progress(Progress{Step: s.name, State: v1alpha1.StepWaiting, Message: err.Error()})
		return err
	}
	v.Observer.Progress(Progress{Step: s.name, State: v1alpha1.StepFailed, Message: err.Error()})
	if u := (*Unsupported)(nil); errors.As(err, &u) {
		return err
	}
	return &StepError{Step: s.name, Err: err}
}

// end gives everything back, whatever happened.
func (v *Visit) end() {
	if v.slot != nil {
		_ = v.slot.Close() // it gives a place back, which cannot fail
	}
	if v.host != nil {
		_ = v.host.Close() // the work is done or failed already; a broken connection changes nothing
	}
}

// visitTimeout bounds everything but the transfer of content.
const visitTimeout = 10 * time.Minute

// Stage brings the content of another version to the host, which goes on with the one it has.
func (v *Visit) Stage(ctx context.Context, t Transfer) error {
	defer v.end()
	if err := v.connectAndVerify(ctx); err != nil {
		return err
	}
	return v.runStep(ctx, step{StepTransfer, time.Hour, func(ctx context.Context) error { return v.transfer(ctx, t) }})
}

// Restart tells the host to start anew, unless it did since it had the boot ID. It returns at once: that the host is back, and
// with another boot ID, is seen at its Node.
func (v *Visit) Restart(ctx context.Context, bootID string) error {
	defer v.end()
	if err := v.connectAndVerify(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	wicd, err := v.wicd()
	if err != nil {
		return err
	}
	request := agent.RestartRequest{BootID: bootID, Comment: "Windows Machine Config Operator: node maintenance"}
	if err := v.callWith(ctx, v.program(wicd, agent.CommandRestart), request, &agent.RestartResult{}, StepInspect); err != nil {
		return fmt.Errorf("restarting the host: %w", err)
	}
	return nil
}

// Leave takes everything of ours off the host. cluster is the UID of namespace kube-system: a host that has joined another
// one since is left alone.
func (v *Visit) Leave(ctx context.Context, cluster string) (agent.LeaveResult, error) {
	defer v.end()
	var result agent.LeaveResult
	if err := v.connectAndVerify(ctx); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	wicd, err := v.wicd()
	if err != nil {
		return result, err
	}
	err = v.callWith(ctx, v.program(wicd, agent.CommandLeave), agent.LeaveRequest{Cluster: cluster}, &result, StepLeave)
	if err != nil {
		return result, fmt.Errorf("taking the host's services and files off: %w", err)
	}
	return result, nil
}

// StepLeave is the step in which a host leaves.
const StepLeave = "Leave"

// connectAndVerify connects, and makes sure that our WICD answers.
func (v *Visit) connectAndVerify(ctx context.Context) error {
	for _, s := range v.arrival() {
		if err := v.runStep(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
