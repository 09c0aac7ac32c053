// Package join turns a Windows host into a node. Read Job.steps from top to bottom to see how.
//
// Next decides, without side effects, what happens to an instance now. Job runs a join: its steps run in order over one connection. Each step is
// repeatable. The first failure ends the attempt, and the next attempt reuses what the host already has. The host performs the remaining work
// (certificates, the Node, readiness) on its own; Observe derives it from the Node.
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
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Host is a connection to a Windows host.
type Host interface {
	// Run runs one command in the host's default shell, starting in the user's home folder, and waits for it.
	Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error
	// Put writes a file below the user's home folder, completely or not at all. It skips a file that is already complete.
	Put(ctx context.Context, name string, content io.Reader, size int64) error
	// Files calls use with access to the host's files over SFTP.
	Files(ctx context.Context, use func(wicdapi.Files) error) error
	// Server returns the SSH server's version string and the address at which it was reached.
	Server() (version string, at netip.Addr)
	// Close closes the connection.
	Close() error
}

// Job is one join attempt: its input, the cluster, and what its steps have found out so far.
type Job struct {
	Visit
	Transfer
	// Cluster provides what only the cluster knows.
	Cluster Cluster
	// Namespace is the operator's namespace. Taints are set on the node when it registers.
	Namespace string
	Taints    []corev1.Taint
	// Retried is the user's last request to retry failed actions; empty if there was none.
	Retried string
	// Interface selects one of the host's interfaces; nil selects the one with the default route.
	Interface *v1alpha1.InstanceNetwork

	known        desired.Cluster
	unregistered bool // the cluster has no Node for the host
}

// Cluster provides what a join needs from the cluster. The methods are in the order in which a join calls them.
type Cluster interface {
	// Known returns what every node must know about the cluster. It is called before the host is contacted; an error means that no host can join now.
	Known(ctx context.Context) (desired.Cluster, error)
	// Identify returns what the cluster knows about a host with these facts. It returns *Unsupported if the host cannot be reached at the address
	// that it reports for its node, and *Rebooting while a requested restart has not happened yet.
	Identify(ctx context.Context, f wicdapi.Facts) (Identity, error)
	// Accept stores the facts of a host that was inspected and found supported, before anything on it is changed. It returns ErrOccupied for an
	// undrained node that another program configured or that has another version.
	Accept(ctx context.Context, f wicdapi.Facts) error
	// Desired returns the desired state of the host.
	Desired(ctx context.Context) (Want, error)
	// Token creates a token for this join that is valid for minutes.
	Token(ctx context.Context) (string, error)
}

// Identity is what the cluster knows about a host by its name.
type Identity struct {
	// TakenBy names the object that already has the name of the host's node; empty if there is none.
	TakenBy string
	// Unregistered reports that the cluster has no Node for the host.
	Unregistered bool
	// NamePattern is the regular expression that the host's name must match; empty allows any name.
	NamePattern string
}

// Want is the desired state of a node, and what the node must know about the cluster.
type Want struct {
	Cluster desired.Cluster
	Node    desired.Node
	Secrets desired.Secrets
	// Serial is the serial number with which Node was signed.
	Serial int64
}

// Progress describes the state of a step.
type Progress struct {
	Step    string
	State   v1alpha1.StepState
	Message string
}

// Names of the steps. The host performs the last two on its own.
const (
	StepConnect   = "Connect"
	StepInspect   = "Inspect"
	StepCheck     = "Check"
	StepTransfer  = "Transfer"
	StepConfigure = "Configure"
	StepRegister  = "Register"
	StepReady     = "Ready"
)

// step is one repeatable part of a join, with a deadline.
type step struct {
	name     string
	deadline time.Duration
	do       func(context.Context) error
}

// steps returns the steps that turn a Windows host into a node. The deadlines allow for the slowest supported link and machine.
func (j *Job) steps() []step {
	return append(j.connectSteps(), []step{
		// The host can become a node, and reaches the API server. The host has not been changed yet.
		{StepCheck, time.Minute, j.check},
		j.transferStep(j.Transfer),
		// WICD configures the host and starts its services. It may have to restart the host first.
		{StepConfigure, 15 * time.Minute, j.configure},
		// From here the host works alone: the kubelet requests its certificate and registers the Node (Register), WICD writes the network
		// configuration and reports the version (Ready).
	}...)
}

// StepNames returns the steps as status.steps lists them.
func StepNames() []string {
	var names []string
	for _, s := range (&Job{}).steps() {
		names = append(names, s.name)
	}
	return append(names, StepRegister, StepReady)
}

// Run runs the join. It returns *Unready, *Unsupported, *Rebooting, ErrNoSlot, or the *StepError of the step that failed.
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

// ErrNoSlot means that the maximum number of hosts is already joining.
var ErrNoSlot = errors.New("waiting for a join slot (spec.rollout.maxConcurrentJoins)")

// ErrOccupied means that the node must be drained before the operator takes it over.
var ErrOccupied = errors.New("the host is already a node of another operator or version; it joins once the rollout has drained it")

// Rebooting means that the host restarts to continue its join.
type Rebooting struct {
	// Reason is the change that requires the restart, or what a restart that was ordered has not done yet.
	Reason string
	// BootID is the host's boot ID before the restart.
	BootID string
	// Awaited means that an earlier attempt restarted the host; Unanswered, that the host does not answer meanwhile.
	Awaited, Unanswered bool
}

// Restarting interprets err, with which an attempt on a host that an earlier attempt restarted has ended; from is the boot ID before the restart. A
// restarting host is unreachable for a while, which is no failure. A host that rejects the login, or presents another key, is not restarting.
func Restarting(err error, from string) error {
	var u *Unreachable
	if !errors.As(err, &u) || needsUser(u) || u.Reason == api.ReasonAuthenticationFailed {
		return err
	}
	return &Rebooting{Reason: "not reachable yet", BootID: from, Awaited: true, Unanswered: true}
}

// Error implements error.
func (r *Rebooting) Error() string { return "host is restarting: " + r.Reason }

// Unready means that the cluster cannot accept any host at present. The host was not contacted.
type Unready struct{ Err error }

// Error implements error.
func (u *Unready) Error() string { return u.Err.Error() }

// Unwrap returns the problem with the cluster.
func (u *Unready) Unwrap() error { return u.Err }

// StepError reports which step failed.
type StepError struct {
	Step string
	Err  error
}

// Error implements error.
func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", e.Step, e.Err) }

// Unwrap returns the cause of the failure.
func (e *StepError) Unwrap() error { return e.Err }
