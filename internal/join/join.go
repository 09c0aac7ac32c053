// Package join turns a Windows host into a node. Read Job.steps from top to bottom to see how.
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
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// Host is a connection to a Windows host.
type Host interface {
	// Run runs one command in the host's default shell, starting in the user's home, until it ends.
	Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error
	// Put writes a file below the user's home: whole or not at all. A complete one is left as it is.
	Put(ctx context.Context, name string, content io.Reader, size int64) error
	// Files calls use with the files of the host, by SFTP.
	Files(ctx context.Context, use func(agent.Files) error) error
	// Server is how the SSH server identifies itself, and where it was reached.
	Server() (version string, at netip.Addr)
	// Close ends the connection.
	Close() error
}

// Job is one attempt at a join: what the host is to become, whom to ask, and what its steps found out so far.
type Job struct {
	Visit
	Transfer
	// Cluster answers what only the cluster knows.
	Cluster Cluster
	// Namespace is the operator's, Taints are put on the node when it registers.
	Namespace string
	Taints    []corev1.Taint
	// Retried says when the user last asked to try again what failed; empty for never.
	Retried string
	// Interface chooses one of the host's interfaces; nil leaves it to the default route.
	Interface *v1alpha1.InstanceNetwork

	known        desired.Cluster
	unregistered bool // the cluster has no Node of the host
}

// Cluster is what a join asks of the cluster, in the order in which it does.
type Cluster interface {
	// Known is what every node must know of the cluster, before the host is looked at. Its error means that the cluster can take no host now.
	Known(ctx context.Context) (desired.Cluster, error)
	// Identify says what the cluster knows of a host with these facts. It returns *Unsupported where the host cannot be reached at the
	// address that it names for its node, and *Rebooting while a host that was told to restart has not done so.
	Identify(ctx context.Context, f agent.Facts) (Identity, error)
	// Accept keeps what the host is, once it was inspected and found supported, before anything on it is changed. It returns ErrOccupied
	// for a node that somebody else configured, or that has another version, and that was not drained.
	Accept(ctx context.Context, f agent.Facts) error
	// Desired renders what the host must have.
	Desired(ctx context.Context) (Want, error)
	// Token makes a token for this join that is valid for minutes.
	Token(ctx context.Context) (string, error)
}

// Identity is what the cluster knows of a host by its name.
type Identity struct {
	// TakenBy names who else has the name of the host's node; empty for nobody.
	TakenBy string
	// Unregistered says that the cluster has no Node of the host.
	Unregistered bool
	// NamePattern is the regular expression that the name of the host must match; empty where it may have any.
	NamePattern string
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
	do       func(context.Context) error
}

// steps is how a Windows host becomes a node. Deadlines are for the slowest link and machine we want to serve.
func (j *Job) steps() []step {
	return append(j.arrival(), []step{
		// The host can become a node, and reaches the API server. Nothing of it was changed so far.
		{StepCheck, time.Minute, j.check},
		// The host has all content, each file verified by its hash. Only what is missing is sent.
		{StepTransfer, 60 * time.Minute, func(ctx context.Context) error { return j.transfer(ctx, j.Transfer) }},
		// WICD makes the host what it must be and starts its services. It may have to restart the host first.
		{StepConfigure, 15 * time.Minute, j.configure},
		// From here the host works alone: the kubelet asks for its certificate and registers the Node (Register),
		// WICD writes the network configuration and reports the version (Ready).
	}...)
}

// StepNames lists the steps as status.steps shows them.
func StepNames() []string {
	var names []string
	for _, s := range (&Job{}).steps() {
		names = append(names, s.name)
	}
	return append(names, StepRegister, StepReady)
}

// Run carries the join out. Its error says what stands in the way: *Unready, *Unsupported, *Rebooting, ErrNoSlot, or the
// *StepError of the step that failed.
func (j *Job) Run(ctx context.Context) (err error) {
	defer j.end()
	if j.known, err = j.Cluster.Known(ctx); err != nil {
		return &Unready{Err: err}
	}
	j.platform = j.known.Network.Platform
	j.Content = desired.OnPlatform(j.Content, j.platform)
	for _, s := range j.steps() {
		if err := j.runStep(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoSlot means that as many hosts as allowed are joining already.
var ErrNoSlot = errors.New("as many hosts as rollout.maxConcurrentJoins allows are joining; this one waits its turn")

// ErrOccupied means that pods have to leave the node before it is taken over.
var ErrOccupied = errors.New("the host is a node already, of another operator or with another version; it is drained in its turn, and then taken over")

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
