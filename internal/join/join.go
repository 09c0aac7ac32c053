// Package join turns a Windows host into a node. Read Steps from top to bottom to see how.
//
// Next decides, purely, what happens to an instance now. Job carries a join out: its steps run in order over one
// connection, each may be repeated, and the first that fails ends the join until the next attempt, which finds
// what the last one left and goes on from there. What follows the steps (certificates, the Node, Ready) the
// host does by itself; Observe reads it off the Node.
package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/payload"
)

// Host is a connection to a Windows host.
type Host interface {
	// Run runs one command in the host's default shell, starting in the user's home, until it ends.
	Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error
	// Put writes a file below the user's home: whole or not at all. A complete one is left as it is.
	Put(ctx context.Context, name string, content io.Reader, size int64) error
	// Close ends the connection.
	Close() error
}

// Job is one attempt at a join: what it needs, and what its steps found out so far.
type Job struct {
	// Connect opens the connection; the host key is checked, or pinned at first contact, before it returns.
	Connect func(ctx context.Context) (Host, error)
	// Payload is what the operator carries; Content is the part of it that this host gets.
	Payload *payload.Payload
	Content payload.Manifest
	// PodNetwork tells the cluster's network before the host is looked at. Its error means that the cluster can take no host now.
	PodNetwork func(ctx context.Context) (desired.ClusterNetwork, error)
	// ProveAddress returns nil when the host can be reached at the address that it names for its node, *Unsupported when it cannot.
	ProveAddress func(ctx context.Context, nodeIP string) error
	// NameTakenBy names who else has the node name of a host with these facts, or returns "".
	NameTakenBy func(ctx context.Context, node string, f agent.Facts) (string, error)
	// Learned is called once the host was inspected and found supported, before anything on it is changed. It
	// returns *Rebooting while a host that was told to restart has not done so.
	Learned func(ctx context.Context, f agent.Facts) error
	// Slot takes one of the places for joining hosts, and gives it back by calling release. It does not wait:
	// without a free place it returns ErrNoSlot.
	Slot func() (release func(), err error)
	// Pace, where it is set, is asked before so many bytes of content are sent, and returns when they may be.
	Pace func(ctx context.Context, bytes int) error
	// Desired renders what the host must have.
	Desired func(ctx context.Context) (Want, error)
	// Namespace is the operator's, Taints are put on the node when it registers.
	Namespace string
	Taints    []corev1.Taint
	// Token makes a token for this join that is valid for minutes.
	Token func(ctx context.Context) (string, error)
	// Altered is told of files on the host that did not have their content any more and were sent again.
	Altered func(paths []string)
	// Interface chooses one of the host's interfaces; nil leaves it to the default route.
	Interface *v1alpha1.InstanceNetwork
	// Hostname is the name that the host shall have; empty for the one it has.
	Hostname string
	// Occupied says whether the host is a node already that somebody else configured, and that was not drained.
	Occupied func(f agent.Facts) bool
	// Register says whether the cluster has no Node of the host; it is asked after NameTakenBy.
	Register func() bool
	// Progress is told when a step begins, ends, or moves on.
	Progress func(Progress)
	// Now is the clock.
	Now func() time.Time

	podNetwork desired.ClusterNetwork
	host       Host
	facts      agent.Facts
	release    func()
}

// Want is what every node of a cluster must have, and what it must know of the cluster.
type Want struct {
	Cluster desired.Cluster
	Node    desired.Node
	Secrets desired.Secrets
	// Serial is the one with which Node was signed.
	Serial int64
}

// Progress says how a step goes.
type Progress struct {
	Step    string
	State   v1alpha1.StepState
	Message string
}

// The names of the steps, and of the two that the host does by itself.
const (
	StepConnect   = "Connect"
	StepInspect   = "Inspect"
	StepCheck     = "Check"
	StepTransfer  = "Transfer"
	StepConfigure = "Configure"
	StepRegister  = "Register"
	StepReady     = "Ready"
)

// step is one part of a join: it may be repeated, and has a deadline.
type step struct {
	name     string
	deadline time.Duration
	do       func(*Job, context.Context) error
}

// Steps is how a Windows host becomes a node. Deadlines are for the slowest link and machine we want to serve.
func steps() []step {
	return []step{
		// The host answers at its address with the key we know, and accepts ours.
		{StepConnect, 45 * time.Second, (*Job).connect},
		// WICD is on the host and says what the host is. Only a host without WICD is sent it: the one transfer.
		{StepInspect, 5 * time.Minute, (*Job).inspect},
		// The host can become a node. Nothing of it was changed so far.
		{StepCheck, 30 * time.Second, (*Job).check},
		// The host has all content, each file verified by its hash. Only what is missing is sent.
		{StepTransfer, 60 * time.Minute, (*Job).transfer},
		// WICD makes the host what it must be and starts its services. It may have to restart the host first.
		{StepConfigure, 15 * time.Minute, (*Job).configure},
		// From here the host works alone: the kubelet asks for its certificate and registers the Node (Register),
		// WICD writes the network configuration and reports the version (Ready).
	}
}

// StepNames lists the steps as status.steps shows them.
func StepNames() []string {
	var names []string
	for _, s := range steps() {
		names = append(names, s.name)
	}
	return append(names, StepRegister, StepReady)
}

// Run carries the join out. Its error says what stands in the way: *Unready, *Unsupported, *Rebooting, ErrNoSlot, or the
// *StepError of the step that failed.
func (j *Job) Run(ctx context.Context) (err error) {
	defer j.end()
	if j.podNetwork, err = j.PodNetwork(ctx); err != nil {
		return &Unready{Err: err}
	}
	for _, s := range steps() {
		if err := j.runStep(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (j *Job) runStep(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.deadline, fmt.Errorf("not done after %s", s.deadline))
	defer cancel()
	j.Progress(Progress{Step: s.name, State: v1alpha1.StepRunning})
	err := s.do(j, ctx)
	if err == nil {
		j.Progress(Progress{Step: s.name, State: v1alpha1.StepDone})
		return nil
	}
	if wait := (*Rebooting)(nil); errors.As(err, &wait) || errors.Is(err, ErrNoSlot) || errors.Is(err, ErrOccupied) {
		j.Progress(Progress{Step: s.name, State: v1alpha1.StepWaiting, Message: err.Error()})
		return err
	}
	j.Progress(Progress{Step: s.name, State: v1alpha1.StepFailed, Message: err.Error()})
	if u := (*Unsupported)(nil); errors.As(err, &u) {
		return err
	}
	return &StepError{Step: s.name, Err: err}
}

// end gives everything back, whatever happened.
func (j *Job) end() {
	if j.release != nil {
		j.release()
	}
	if j.host != nil {
		_ = j.host.Close() // the work is done or failed already; a broken connection changes nothing
	}
}

// ErrNoSlot means that as many hosts as allowed are joining already.
var ErrNoSlot = errors.New("as many hosts as rollout.maxConcurrentJoins allows are joining; this one waits its turn")

// ErrOccupied means that pods have to leave the node before it is taken over.
var ErrOccupied = errors.New("the host is a node that another operator configured; it is drained, and then taken over")

// Rebooting means that the host restarts to go on with its join.
type Rebooting struct {
	// Reason says what needs the restart.
	Reason string
	// BootID of the host before it.
	BootID string
	// Awaited says that an attempt before this one restarted the host, and Away that it does not answer meanwhile.
	Awaited, Away bool
}

// Restarting is what an attempt that ended with err means for a host that an attempt before restarted, when its boot ID was from: it is
// away for a while, which is no failure. A host that lets nobody in, or is another one, is not restarting.
func Restarting(err error, from string) error {
	var u *Unreachable
	if !errors.As(err, &u) || isUsersTurn(u) || u.Reason == api.ReasonAuthenticationFailed {
		return err
	}
	return &Rebooting{Reason: "it does not answer yet", BootID: from, Awaited: true, Away: true}
}

// Error makes Rebooting an error.
func (r *Rebooting) Error() string { return "the host restarts: " + r.Reason }

// Unready means that the cluster can take no host as it is. The host was not looked at.
type Unready struct{ Err error }

// Error makes Unready an error.
func (u *Unready) Error() string { return u.Err.Error() }

// Unwrap returns what is wrong with the cluster.
func (u *Unready) Unwrap() error { return u.Err }

// StepError says which step failed.
type StepError struct {
	Step string
	Err  error
}

// Error makes StepError an error.
func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", e.Step, e.Err) }

// Unwrap returns why the step failed.
func (e *StepError) Unwrap() error { return e.Err }
