package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/payload"
)

// Visit is one connection to a host for commands of WICD. A join is a visit; a host that has joined is visited by Stage, Restart and Leave. Each
// begins like a join and is repeatable.
type Visit struct {
	// Host connects to the host.
	Host Connector
	// Payload is the operator's payload; Content is the part of it that this host gets.
	Payload *payload.Payload
	Content payload.Manifest
	// Hostname is the hostname to set; empty keeps the current one.
	Hostname string
	// Observer receives progress reports.
	Observer Observer
	// Now is the clock.
	Now func() time.Time

	platform string // of the cluster, if the host's name depends on it
	host     Host
	home     string // full path of the home folder with a trailing backslash, if the shell starts elsewhere
	byFiles  bool   // send requests and content as files
	wicd     payload.File
	facts    wicdapi.Facts
	reached  netip.Addr
	slot     io.Closer
}

// Connector connects to one host.
type Connector interface {
	// Connect opens the connection. The host key is verified, or pinned at first contact, before Connect returns.
	Connect(ctx context.Context) (Host, error)
}

// Observer receives the progress of a visit.
type Observer interface {
	// Progress is called when a step begins, ends, or advances.
	Progress(Progress)
	// Altered is called with the files on the host that had been modified and were sent again.
	Altered(paths []string)
}

// connectSteps returns the steps that begin every visit.
func (v *Visit) connectSteps() []step {
	return []step{
		// The host answers at its address with the pinned key and accepts the operator's key.
		{StepConnect, 45 * time.Second, v.connect},
		// WICD is on the host and reports facts. It is sent only to a host without it.
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
	if wait := (*Rebooting)(nil); errors.As(err, &wait) || IsWindowsBusy(err) || errors.Is(err, ErrNoSlot) || errors.Is(err, ErrOccupied) {
		v.Observer.Progress(Progress{Step: s.name, State: v1alpha1.StepWaiting, Message: err.Error()})
		return err
	}
	v.Observer.Progress(Progress{Step: s.name, State: v1alpha1.StepFailed, Message: err.Error()})
	if u := (*Unsupported)(nil); errors.As(err, &u) {
		return err
	}
	return &StepError{Step: s.name, Err: err}
}

func (v *Visit) end() {
	if v.slot != nil {
		_ = v.slot.Close() // releasing a slot cannot fail
	}
	if v.host != nil {
		_ = v.host.Close() // the work is done or has failed already; a connection error changes nothing
	}
}

// visitTimeout limits all steps except the transfer of content.
const visitTimeout = 10 * time.Minute

// Stage sends the content of another version to the host, which keeps running its current version.
func (v *Visit) Stage(ctx context.Context, t Transfer) error {
	defer v.end()
	if err := v.connectAndVerify(ctx); err != nil {
		return err
	}
	return v.runStep(ctx, v.transferStep(t))
}

// Prepare sends content to a host that an image is made from, and has WICD do what is requested. It returns *Rebooting if the host restarts, and must be
// called again after that, with its boot ID as from.
func (v *Visit) Prepare(ctx context.Context, t Transfer, request wicdapi.PrepareRequest, from string) error {
	defer v.end()
	if err := v.connectAndVerify(ctx); err != nil {
		return err
	}
	if from != "" && v.facts.Host.BootID == from {
		return &Rebooting{Reason: "Windows has not shut down yet", BootID: from, Awaited: true}
	}
	if j := v.facts.Joined; j != nil {
		return &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: fmt.Sprintf(
			"the host is node %s of a cluster; only a host that is not a node can be prepared: remove it from the cluster, or use another host", j.Node)}
	}
	if unsupported := checkRuntime(v.facts, CheckInput{}); request.Containerd != nil && unsupported != nil {
		return unsupported
	}
	if err := v.runStep(ctx, v.transferStep(t)); err != nil {
		return err
	}
	return v.runStep(ctx, step{StepPrepare, 40 * time.Minute, func(ctx context.Context) error { // features take up to 15 minutes, the image 20
		var result wicdapi.PrepareResult
		if err := v.callWith(ctx, v.program(wicdapi.CommandPrepare), request, &result, StepPrepare); err != nil {
			return err
		}
		if result.Rebooting != "" {
			return &Rebooting{Reason: result.Rebooting, BootID: result.BootID}
		}
		return nil
	}})
}

// StepPrepare is the step that enables Windows features on a host that an image is made from, and pulls the sandbox image.
const StepPrepare = "Prepare"

// Restart restarts the host unless its boot ID has changed from bootID. It returns at once; the Node shows when the host is back with another boot
// ID.
func (v *Visit) Restart(ctx context.Context, bootID string) error {
	defer v.end()
	if err := v.connectAndVerify(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	request := wicdapi.RestartRequest{BootID: bootID, Comment: "Windows Machine Config Operator: node maintenance"}
	if err := v.callWith(ctx, v.program(wicdapi.CommandRestart), request, &wicdapi.RestartResult{}, StepInspect); err != nil {
		return fmt.Errorf("restarting the host: %w", err)
	}
	return nil
}

// InstallUpdates has WICD install Windows updates, or undo that, and returns at once with the state of the order, which the Node also shows. An order
// with the same name changes nothing.
func (v *Visit) InstallUpdates(ctx context.Context, request wicdapi.InstallUpdatesRequest) (windowsupdate.Installation, error) {
	defer v.end()
	if err := v.connectAndVerify(ctx); err != nil {
		return windowsupdate.Installation{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	var result wicdapi.InstallUpdatesResult
	if err := v.callWith(ctx, v.program(wicdapi.CommandInstallUpdates), request, &result, StepInspect); err != nil {
		return windowsupdate.Installation{}, fmt.Errorf("ordering the installation of updates: %w", err)
	}
	return result.Installation.Bounded(), nil
}

// Leave removes everything the operator installed from the host. cluster is the UID of namespace kube-system; a host that has joined another cluster since
// is left alone.
func (v *Visit) Leave(ctx context.Context, cluster string) (wicdapi.LeaveResult, error) {
	defer v.end()
	var result wicdapi.LeaveResult
	if err := v.connectAndVerify(ctx); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	if err := v.callWith(ctx, v.program(wicdapi.CommandLeave), wicdapi.LeaveRequest{Cluster: cluster}, &result, StepLeave); err != nil {
		return result, fmt.Errorf("removing the operator's services and files from the host: %w", err)
	}
	return result, nil
}

// StepLeave is the step that removes everything from a host.
const StepLeave = "Leave"

// connectAndVerify connects, and verifies that the operator's WICD answers.
func (v *Visit) connectAndVerify(ctx context.Context) error {
	for _, s := range v.connectSteps() {
		if err := v.runStep(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
