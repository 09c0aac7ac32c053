package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/collect"
	"github.com/windows-machine-config/wmco/internal/node/daemon/configure"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/eventlog"
	"github.com/windows-machine-config/wmco/internal/node/daemon/images"
	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodesettings"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/podnetwork"
	"github.com/windows-machine-config/wmco/internal/node/daemon/podpolicy"
	"github.com/windows-machine-config/wmco/internal/node/daemon/registry"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/daemon/update"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/identity"
)

// RunOptions are the options of the service.
type RunOptions struct {
	// Log receives the service's log records. They contain no secrets.
	Log *slog.Logger
	// UpdateTimeout is how long another version may take until it works, before the host is rolled back; 10 minutes when 0. UpdateSteady is how long
	// it must continue to work; a minute when 0.
	UpdateTimeout, UpdateSteady time.Duration
}

// How often the record is checked without a notification.
const (
	recordInterval     = time.Second // while a join is running
	idleRecordInterval = 10 * time.Second
)

// Run runs the service: it keeps the host as the last join requested, until ctx is done. Parts that need the API server wait while it is
// unavailable; all others continue.
//
// A new record begins a new session: all work stops, and restarts with what is wanted now.
func Run(ctx context.Context, h hostapi.Host, o RunOptions) {
	o.Log.Info("Service started")
	defer o.Log.Info("Service stopped")
	clients := &apiclient.Cache{}
	defer clients.Close()
	var serving sync.WaitGroup
	pulls := registry.NewServer(h.Listen, h.Dial, o.Log)
	serving.Go(func() { pulls.Run(ctx) })
	defer serving.Wait()
	for ctx.Err() == nil {
		r, found := awaitRecord(ctx, h, o.Log)
		if !found {
			break
		}
		wanted, err := r.Wanted()
		if err != nil { // never written in this form
			o.Log.Error("Stored node configuration is invalid; rejoin the host", "error", err.Error())
			_ = backoff.Sleep(ctx, idleRecordInterval)
			continue
		}
		newParts(state.Session{Host: h, Record: r, Wanted: wanted, Log: o.Log}, clients, pulls, o).run(ctx)
	}
}

// errLeaving means that the last record is of a leaving host.
var errLeaving = errors.New("the host is leaving its cluster")

// awaitRecord waits until there is a usable record, or ctx is done.
func awaitRecord(ctx context.Context, h hostapi.Host, log *slog.Logger) (r state.Record, found bool) {
	reported := false
	for {
		r, err := state.Read(h.Disk)
		if errors.Is(err, state.ErrUnreadable) {
			r, err = state.Restore(h)
		}
		if err == nil && !r.Leaving {
			return r, true
		}
		if err == nil {
			err = errLeaving
		}
		if !reported {
			log.Warn("Waiting for a join", "error", err.Error())
			reported = true
		}
		if backoff.Sleep(ctx, idleRecordInterval) != nil {
			return state.Record{}, false
		}
	}
}

// parts are the parts of one session.
type parts struct {
	state.Session
	// clients are connections to the API server, which the next session may reuse.
	clients *apiclient.Cache
	network *podnetwork.Reconciler
	// policies applies the NetworkPolicies of pods. Its Add is for the CNI plugin.
	policies *podpolicy.Reconciler
	follower *nodesettings.Follower
	updates  *update.Requester
	reporter *nodestatus.Reporter
	// all are the parts; those in runInCluster need the API server.
	all []part
}

func newParts(s state.Session, clients *apiclient.Cache, pulls *registry.Server, o RunOptions) *parts {
	wake := state.NewSignal() // wakes the reporter
	p := &parts{Session: s, clients: clients}
	services, reboot := supervisor.New(s, wake), nodestatus.NewRebootPending(s, wake)
	metrics := &nodestatus.Metrics{Session: s, Registry: pulls, Services: services, Reboot: reboot}
	problems, accounts := nodestatus.NewProblems(s, wake, metrics, &clients.Clock), nodestatus.NewAccounts(s, wake)
	verifier := nodesettings.NewVerifier(s, wake)
	p.follower = nodesettings.NewFollower(s, verifier)
	sandbox := images.NewSandbox(s, wake, p.follower)
	prepull := images.NewPrepull(s, wake, sandbox)
	p.network = podnetwork.New(s, wake, services, metrics, sandbox)
	users, cni := podnetwork.NewUserNetwork(s, wake, services), podnetwork.CNI{Session: s, Sandbox: sandbox}
	p.policies = podpolicy.New(s, wake, metrics)
	metrics.Policies = p.policies
	p.updates = update.NewRequester(s, verifier, wake, update.Limits{Within: o.UpdateTimeout, Steady: o.UpdateSteady})
	mirrors := registry.Part{Session: s, Server: pulls, Metrics: metrics, Wake: wake}
	exclusions, hyperV, kubelet := configure.NewExclusions(s, wake, metrics), configure.NewHyperV(s, wake, reboot), configure.NewKubelet(s, p.follower)
	collector, updates := collect.New(s, wake), nodestatus.NewWindowsUpdates(s, wake, metrics)
	p.reporter = &nodestatus.Reporter{
		Session: s, Wake: wake,
		Sources: []nodestatus.Source{
			services, p.updates, reboot, problems, accounts, p.network, users, verifier, sandbox, mirrors, exclusions, hyperV, kubelet, collector,
			p.policies, updates, prepull,
		},
		Services: services, Updates: p.updates, Keys: configure.KeyRetirer{Session: s}, PodNetwork: cni,
	}
	p.all = []part{
		{"services", services.Run},
		{"drift", configure.Drift{Session: s, Services: services, Metrics: metrics}.Run},
		{"pod network", p.network.Run},
		{"network policies", p.policies.Run},
		{"user's network", users.Run},
		{"CNI configuration", podnetwork.Loading{CNI: cni}.Run},
		{"policy server", policyServer{Session: s, add: p.policies.Add}.run},
		{"sandbox image", sandbox.Run},
		{"images", prepull.Run},
		{"log rotation", logrotate.Rotator{Disk: s.Host.Disk, Services: s.Wanted.Services, Limits: s.Wanted.Logs, Log: s.Log}.Run},
		{"event logs", (&eventlog.Copier{Session: s}).Run},
		{"routes", podnetwork.Routes{Session: s}.Run},
		{"pending reboot", reboot.Run},
		{"node problems", problems.Run},
		{"accounts", accounts.Run},
		{"metrics", metrics.Run},
		{"registry mirrors", mirrors.Run},
		{"Defender exclusions", exclusions.Run},
		{"Hyper-V", hyperV.Run},
		{"kubelet", kubelet.Run},
		{"log collection", collector.Run},
		{"Windows updates", updates.Run},
		{"API server", p.runInCluster},
	}
	return p
}

// run runs the parts until the record changes or ctx is done.
func (p *parts) run(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	p.Log.Info("Session started", "Node", p.Record.Node, "version", p.Record.Desired.Version, "complete", p.Record.Complete)
	await := start(ctx, p.all)
	p.awaitNewRecord(ctx)
	end()
	await(p.Log)
}

// part is a part of a session with its name in the log.
type part struct {
	name string
	run  func(context.Context)
}

// slowEnd is after how long the log names parts that have not ended with their session.
const slowEnd = time.Minute

// start runs parts until ctx is done. await waits until all of them have ended, because two sessions must not change the host at once.
func start(ctx context.Context, all []part) (await func(*slog.Logger)) {
	ended := make(chan string, len(all))
	for _, p := range all {
		go func() {
			defer func() { ended <- p.name }()
			p.run(ctx)
		}()
	}
	return func(log *slog.Logger) {
		running := map[string]bool{}
		for _, p := range all {
			running[p.name] = true
		}
		timer := time.NewTimer(slowEnd)
		defer timer.Stop()
		for len(running) > 0 {
			select {
			case name := <-ended:
				delete(running, name)
			case <-timer.C:
				log.Error("Parts of WICD have not stopped, and new settings wait for them; if this persists, restart WICD's service",
					"parts", strings.Join(slices.Sorted(maps.Keys(running)), ", "))
			}
		}
	}
}

// awaitNewRecord polls the file until something other than this session has changed the record. The first check reads it, because it may have
// changed since this session began.
func (p *parts) awaitNewRecord(ctx context.Context) {
	every := recordInterval
	if p.Record.Complete {
		every = idleRecordInterval
	}
	var previous fs.FileInfo
	for {
		current, err := p.Host.Disk.Stat(state.RecordFile)
		if err == nil && (previous == nil || !current.ModTime().Equal(previous.ModTime()) || current.Size() != previous.Size()) {
			switch {
			case p.IsCurrent():
				previous = current
			case !p.follower.IsApplying():
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-p.follower.Renewed():
			return
		case <-time.After(every):
		}
	}
}

// runInCluster runs the parts that need the API server: it obtains a certificate, watches the Node with it, and starts over with each new
// certificate.
func (p *parts) runInCluster(ctx context.Context) {
	manager := newCertificateManager(p.Session, credentials.NameOf(p.Record.Node), credentials.WICDFile, credentials.PendingFile)
	manager.Prefix, manager.Bootstrap = credentials.RequestPrefix, apiclient.Bootstrap{Session: p.Session}.Request
	var rejected *x509.Certificate
	for ctx.Err() == nil {
		id, err := manager.Identify(ctx, rejected)
		if err != nil {
			return
		}
		client, err := p.clients.Get(p.Host, p.Record.Bootstrap, id)
		if err != nil {
			p.Log.Error("Connecting to the API server failed", "error", err.Error())
			return // only a new join helps
		}
		term, end := context.WithCancelCause(ctx)
		var work sync.WaitGroup
		work.Go(func() {
			if errors.Is(p.reporter.Run(term, client), identity.ErrRejected) {
				end(identity.ErrRejected)
			}
		})
		work.Go(func() { p.follower.Run(term, client) })
		work.Go(func() { p.updates.Run(term, client) })
		work.Go(func() { p.network.Follow(term, client) })
		work.Go(func() { p.policies.Follow(term, client) })
		wasRejected := rejected != nil
		work.Go(func() { nodeManager{p.Session}.run(term, client, wasRejected) })
		manager.Renew(term, client, id)
		end(nil)
		work.Wait()
		if rejected = nil; errors.Is(context.Cause(term), identity.ErrRejected) {
			p.Log.Warn("Certificate rejected; requesting another one", "error", identity.ErrRejected.Error(), "expires", id.Leaf.NotAfter)
			rejected = id.Leaf
			_ = backoff.Sleep(ctx, identity.RefusedPause)
		}
	}
}

// newCertificateManager returns the manager of a certificate, without Prefix and Bootstrap.
func newCertificateManager(s state.Session, name identity.Name, current, pending string) *identity.Manager {
	return &identity.Manager{
		Name: name, Store: credentials.Files{Disk: s.Host.Disk}, Current: current, Pending: pending, Log: s.Log,
		Pauses: func() func() time.Duration { return backoff.New().Next },
		Issued: func(id identity.Identity) {
			s.RecordChange("certificate for %s issued, valid until %s", name.User, id.Leaf.NotAfter.UTC().Format(time.RFC3339))
		},
	}
}
