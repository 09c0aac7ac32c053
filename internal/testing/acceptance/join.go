package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

// JoinOptions are the options of Join.
type JoinOptions struct {
	Options // Only is not used
	// Files is the folder that make acceptance JOIN=1 builds next to the program: the control plane, the operator and its payload.
	Files string
	// User is the user that the operator logs in as. It must be an administrator.
	User string
	// Image is the image of the pod, including its registry. Default: the sandbox image.
	Image string
	// ImagePort is the port at which the image answers HTTP requests, or 0 if it does not.
	ImagePort uint16
	// Mirror is the host and port of a registry without TLS that serves the images, for machines that cannot reach the original registries.
	Mirror string
	// Network is the pod network: Flannel or OVN.
	Network string
}

// The pod networks.
const (
	Flannel = "flannel"
	OVN     = "ovn"
)

// joining is the state of a join of this machine to a control plane that runs on it.
type joining struct {
	*session
	options JoinOptions
	config  controlplane.Config
	// address is the address at which the operator reaches this machine.
	address string
	api     apiServer
	before  remnants
	// credentials belong to the control plane. key is the line that authorizes the operator at an SSH server.
	credentials controlplane.Credentials
	key         string
	running     running
	// ownSSH is set if this program runs the SSH server. restartRequested is when it requested a restart.
	ownSSH           bool
	restartRequested time.Time
	// internet is the transport to registries of images.
	internet http.RoundTripper
	// imageServer is the address that serves the included images; empty if there are none.
	imageServer string
	// report is the report of the run, which continues after a restart.
	report *Report
	// partsBefore lists the parts of the node that were present before its restart.
	partsBefore []string
	// failed is the ID of the first required step that failed.
	failed string
}

// joinSteps returns the steps of a join, in order. Each needs those before it.
func joinSteps(j *joining) []Line {
	steps := []Line{
		{
			ID: "control-plane", Title: "Control plane on Windows", Claim: "etcd, kube-apiserver, kube-controller-manager and kube-scheduler work on this Windows",
			Changes: "starts them on 127.0.0.1 with their own certificates", Try: j.startControlPlane,
		},
		{
			ID: "operator", Title: "Operator", Claim: "the operator works with the permissions that deploy/ grants to its ServiceAccount",
			Changes: "applies deploy/ and starts the operator as a process on this machine", Try: j.startOperator,
		},
		{
			ID: "ssh", Title: "SSH", Claim: "the operator logs in with an administrator's key",
			Changes: "adds a key to " + keysFile + " if an OpenSSH server is running; otherwise starts its own SSH server", Try: j.announce,
		},
		{
			ID: "node-ready", Title: "Node", Claim: "this machine becomes a Ready node with the pod network that --network selects",
			Changes: "creates services, firewall rules, environment variables, a network of the Host Network Service, and folders " +
				desired.Root + ", " + desired.Logs + " and " + desired.ContainerdData, Try: j.awaitNode,
		},
		{
			ID: "pod", Title: "Pod", Claim: "a pod runs on the node with an address from the node's range",
			Changes: "starts a pod", Try: j.runPod,
		},
		{
			ID: "traffic", Title: "Pod traffic", Claim: "this machine and a pod reach two pods and their Service",
			Changes: "with --image-port: starts two more pods and a Service of type NodePort", Try: j.tryTraffic,
		},
		{
			ID: "restarted", Title: "Node restart", Claim: "after a restart of Windows, the node is Ready again with its services, network and pod",
			Changes: "with --restart-allowed: restarts Windows", Try: j.restartNode,
		},
		{
			ID: "leave", Title: "Leaving", Claim: "the operator removes everything except journal and logs from a host that is no longer listed",
			Changes: "removes the node", Try: j.leave,
		},
	}
	steps = slices.Insert(steps, slices.IndexFunc(steps, func(l Line) bool { return l.ID == "restarted" }), j.serviceSteps()...)
	for i := range steps {
		steps[i].Try = j.inOrder(steps[i])
	}
	return steps
}

// inOrder returns a step that is skipped after one of the first steps failed. A missing sandbox image or a failed later step does not skip the
// following steps: the node can still leave.
func (j *joining) inOrder(l Line) func(context.Context, *session) (string, error) {
	return func(ctx context.Context, s *session) (string, error) {
		if j.failed != "" {
			return "", untriedErrorf("it requires step %s, which did not succeed", j.failed)
		}
		seen, err := l.Try(ctx, s)
		if err != nil && slices.Contains([]string{"control-plane", "operator", "ssh", "node-ready"}, l.ID) && !errors.Is(err, errNoSandboxImage) {
			j.failed = l.ID
		}
		return seen, err
	}
}

// Join makes this machine a node of a control plane that runs on it, runs a pod, removes the node, and undoes the remaining changes. Each step is a
// line of the report. Changes of an earlier run are undone first, unless that run restarted Windows: then it continues. The errors are those of Run,
// and ErrRestarting.
func Join(ctx context.Context, m Machine, o JoinOptions) (Report, error) {
	s, release, err := open(ctx, m, o.Options)
	if err != nil {
		return refuse(ctx, m, o.Options, err)
	}
	defer release()
	after, err := s.resumed(ctx)
	if err != nil {
		return Report{}, errors.Join(err, s.undoAll(ctx))
	}
	var r Report
	if after != nil {
		r = after.Report
	} else if r, err = s.begin(ctx, o.Options); err != nil {
		return r, err
	}
	s.recorded = func(f Fact) {
		r.Facts = append(r.Facts, f)
		_ = o.report(r) // the error returns with the report after the line
	}
	j, err := s.prepareOrResume(ctx, o, &r, after)
	switch {
	case errors.Is(err, ErrRestarting):
		err = errors.Join(o.report(r), err)
	case errors.Is(err, errStopped):
		err = errors.Join(s.end(ctx, &r, o.Options, nil), s.failedUndo(&r), s.close())
	case err != nil:
		err = errors.Join(s.end(ctx, &r, o.Options, err), s.failedUndo(&r), s.close())
	default:
		err = j.run(ctx, &r)
	}
	return r, err
}

// run runs the steps that have no answer yet.
func (j *joining) run(ctx context.Context, r *Report) error {
	s, o := j.session, j.options
	lines := joinSteps(j)
	s.printf("%s\n", joinPlan(lines))
	for _, l := range lines {
		if r.hasAnswer(l.ID) {
			continue
		}
		if ctx.Err() != nil || s.journal.failure != nil {
			break
		}
		a := s.try(ctx, l)
		if a.Verdict == "" {
			return errors.Join(o.Options.report(*r), ErrRestarting)
		}
		r.Lines = append(r.Lines, a)
		if err := o.Options.report(*r); err != nil {
			return errors.Join(err, s.failedUndo(r))
		}
	}
	s.addLogs(context.WithoutCancel(ctx), r) // undoing removes them
	if err := errors.Join(s.journal.failure, s.failedUndo(r)); err != nil {
		return errors.Join(err, o.Options.report(*r))
	}
	return errors.Join(s.end(ctx, r, o.Options, context.Cause(ctx)), s.close())
}

// hasAnswer reports whether a step was tried before a restart.
func (r Report) hasAnswer(id string) bool {
	return slices.ContainsFunc(r.Lines, func(a Answer) bool { return a.ID == id })
}

// prepareOrResume starts a join, or continues it after a restart.
func (s *session) prepareOrResume(ctx context.Context, o JoinOptions, r *Report, after *resumption) (*joining, error) {
	if after != nil && after.Moment == asNode {
		return s.resumeNode(ctx, o, r, after)
	}
	if after != nil {
		l := containersLine()
		l.Try = func(ctx context.Context, s *session) (string, error) {
			return s.awaitContainers(ctx, after.RestartRequested)
		}
		r.Lines = append(r.Lines, s.try(ctx, l))
		s.record(ctx, query{"containers-hns", hnsDocuments})
		if r.count(Refuted) > 0 {
			return nil, fmt.Errorf("%w: feature %s is not enabled", errStopped, desired.ContainersFeature)
		}
	} else if got, err := s.containers(ctx); err == nil && got != wicdapi.FeatureEnabled && slices.Contains(o.Allowed, RestartAllowed) && o.InService {
		if err := s.enableFirst(ctx, o, r); err != nil {
			return nil, err
		}
	}
	j, err := prepare(ctx, s, o, *r)
	if j != nil {
		j.report = r
	}
	return j, err
}

// errStopped is returned for a join that cannot continue; a line of the report has the reason.
var errStopped = errors.New("the join ended early")

// enableFirst enables feature Containers on a machine that has everything else that a join needs.
func (s *session) enableFirst(ctx context.Context, o JoinOptions, r *Report) error {
	if err := s.refuseNode(ctx); err != nil {
		return err
	}
	if _, err := s.refuseUnsuitable(ctx, o, *r); err != nil {
		return err
	}
	var reboot bool
	l := containersLine()
	l.Try = func(ctx context.Context, s *session) (seen string, err error) {
		seen, reboot, err = s.enableContainers(ctx)
		return seen, err
	}
	a := s.try(ctx, l)
	if a.Verdict != Confirmed || !reboot {
		r.Lines = append(r.Lines, a)
		if a.Verdict != Confirmed {
			return fmt.Errorf("%w: feature %s is not enabled", errStopped, desired.ContainersFeature)
		}
		s.facts, s.factsFailure = s.Host.System.Facts(ctx)
		return nil
	}
	r.Notes = append(r.Notes, a.Seen)
	return s.restart(ctx, resumption{Moment: forContainers, Report: *r})
}

// prepare checks whether this machine can become a node temporarily. It changes nothing.
func prepare(ctx context.Context, s *session, o JoinOptions, r Report) (*joining, error) {
	if err := s.refuseNode(ctx); err != nil {
		return nil, err
	}
	if s.factsFailure != nil {
		return nil, fmt.Errorf("%w: reading the facts of this machine: %w", ErrRefused, s.factsFailure)
	}
	address, err := s.refuseJoin(ctx, o, r)
	if err != nil {
		return nil, err
	}
	j := newJoining(s, o, address.String())
	for _, port := range []*int{&j.config.Port, &j.config.EtcdPort} {
		if *port, err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	j.before, err = j.findRemnants(ctx)
	return j, err
}

func newJoining(s *session, o JoinOptions, address string) *joining {
	j := &joining{session: s, options: o, address: address, internet: httpclient.Transport(nil), running: running{ended: map[string]error{}}}
	// All clients of the API server run on this machine. Its other addresses are not suitable: the operator refuses an API server as a host, and
	// creating a pod network removes the address from its adapter for seconds.
	j.config = controlplane.Config{Folder: s.Host.Disk.Local(joinFolder), Address: "127.0.0.1", PodNetwork: podNetwork}
	if o.Network == OVN {
		j.config.PodNetwork = "" // OVN-Kubernetes divides its ranges itself
	}
	return j
}

// joinPlan returns a description of the changes that a join makes.
func joinPlan(lines []Line) string {
	var b strings.Builder
	b.WriteString("This program makes this machine a node of a control plane that it starts here, and reverts its changes. It takes about\n" +
		"fifteen minutes. The network of the machine can fail for some seconds.\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "  %s: %s\n", l.ID, l.Changes)
	}
	fmt.Fprintf(&b, "If it is interrupted, start it again, or with --restore: the journal in %s lists the changes to revert.\n", Root)
	return b.String()
}

// JoinPlan returns a description of the changes that a join makes to a machine.
func JoinPlan() string {
	return joinPlan(joinSteps(&joining{}))
}
