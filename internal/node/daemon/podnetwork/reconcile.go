package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/cniresult"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// networkInterval is how often the network is checked without a notification.
	networkInterval = 5 * time.Second
	// A pass queries each endpoint and load balancer, which is slow if there are thousands: it takes at most one part in checkShare of the time,
	// unless the interval would exceed maxNetworkInterval.
	checkShare         = 5
	maxNetworkInterval = time.Minute
	// networkTimeout is the timeout of one read, or of one change.
	networkTimeout = 30 * time.Second
)

// Reconciler waits for the pod network, which another service creates, writes the files that depend on it, and restores what Windows has lost.
// It needs the API server only to know the required load balancers.
type Reconciler struct {
	state.Session
	wake      state.Signal
	services  *supervisor.Supervisor
	metrics   *nodestatus.Metrics
	frontends *frontends
	sandbox   Sandbox

	mu sync.Mutex
	// client is for the API server; nil until there is a certificate.
	client *apiclient.Client
	// network is the state of the pod network, repairs are those that the Node has yet to report.
	network networkState
	repairs []nodestatus.Problem
}

// New returns a Reconciler, which sends wake when there is something to report.
func New(s state.Session, wake state.Signal, services *supervisor.Supervisor, metrics *nodestatus.Metrics, image Sandbox) *Reconciler {
	return &Reconciler{Session: s, wake: wake, services: services, metrics: metrics, frontends: newFrontends(s.Record.Node), sandbox: image}
}

// Follow watches the Services of the cluster until ctx is done.
func (r *Reconciler) Follow(ctx context.Context, client *apiclient.Client) {
	if r.Wanted.Network == nil {
		return
	}
	r.setClient(client)
	defer r.setClient(nil)
	r.frontends.follow(ctx, client, r.Log)
}

func (r *Reconciler) setClient(client *apiclient.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client = client
}

// Run reconciles until ctx is done.
func (r *Reconciler) Run(ctx context.Context) {
	if r.Wanted.Network == nil {
		return
	}
	n := &reconciliation{Reconciler: r, want: *r.Wanted.Network}
	memory := newNetworkMemory()
	memory.proxy.restarts = n.readRestarts(time.Now())
	n.readHostNetwork()
	var changes <-chan struct{}
	restarted := false
	for ctx.Err() == nil {
		if changes == nil {
			var err error
			if changes, err = r.Host.Networks.Watch(ctx); err != nil {
				r.Log.Warn("Watching the Host Network Service failed; polling", "error", err.Error())
			}
		}
		began := time.Now()
		view := n.observe(ctx)
		view.restarted, restarted = restarted, false
		duration := time.Since(began)
		plan := memory.decide(n.want, &view, queryFuncs{
			query:       func(q queries) *evidence { return n.query(ctx, q) },
			readObjects: func(endpoints []string) *objectView { return n.readObjects(ctx, endpoints, memory.agreement.pause()) },
			now:         time.Now,
		})
		plan.addPortLimits(view, n.Wanted.ListenPorts())
		n.protectHostNetwork(ctx, view, &plan)
		for _, err := range plan.unlisted {
			r.Log.Error("Evaluating the network failed", "error", err.Error())
		}
		n.writeRestarts(memory.proxy.restarts)
		n.act(ctx, &plan)
		if ctx.Err() != nil {
			return
		}
		n.announce(plan, view.creator)
		r.publish(plan)
		select {
		case <-ctx.Done():
		case <-time.After(waitAfter(&plan, duration)):
		case _, open := <-changes:
			if restarted = open; !open {
				changes = nil
			}
		}
	}
}

// publish wakes the reporter and writes metrics if something is new.
func (r *Reconciler) publish(plan networkPlan) {
	if !r.setNetwork(plan) {
		return
	}
	r.wake.Send()
	if err := r.metrics.Write(); err != nil {
		r.Log.Warn("Writing metrics failed", "error", err.Error())
	}
}

// waitAfter returns the time until the next pass; duration is the duration of the last read.
func waitAfter(plan *networkPlan, duration time.Duration) time.Duration {
	if plan.again == 0 && len(plan.problems) > 0 {
		plan.soon()
	}
	if plan.again > 0 {
		return max(plan.again, min(2*duration, networkInterval))
	}
	return max(networkInterval, min(checkShare*duration, maxNetworkInterval))
}

// reconciliation is one run of a Reconciler.
type reconciliation struct {
	*Reconciler
	want desired.Network
	// lastQuery is when the API server was last queried, objectsRead when Windows was.
	lastQuery, objectsRead time.Time
	// announced are the reasons that have an event, with their messages; statusError is the last error of reading the status.
	announced   map[string]string
	statusError string
	// objectReadError is the last error of an object read.
	objectReadError string
	// proxy and service are the processes of kube-proxy and of the Host Network Service when last listed.
	proxy, service uint32
	// written are the restarts of kube-proxy in the file.
	written []time.Time
	// ports are Windows' port ranges, read at portsAt.
	ports   hostapi.Ports
	portsAt time.Time
	host    hostNetwork
}

// observe reads the network's current state.
func (n *reconciliation) observe(ctx context.Context) networkView {
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	v := networkView{creator: n.readStatus()}
	v.state, v.err = n.Host.Networks.List(ctx)
	if n.frontends.isSynced() {
		v.cluster = n.frontends
	}
	v.proxy, v.service = n.processes(ctx)
	if v.err == nil {
		v.pods, v.err = n.pods(ctx, v.state)
	}
	n.readPorts(ctx)
	v.ports, v.now = n.ports, time.Now()
	return v
}

// processes returns the processes of kube-proxy and of the Host Network Service. If they cannot be listed, it returns the previous ones: a new
// kube-proxy would count as not having created the existing load balancers.
func (n *reconciliation) processes(ctx context.Context) (proxy, service uint32) {
	found, err := n.Host.Services.List(ctx, []string{n.want.Proxy, hnsService})
	if err != nil {
		n.Log.Warn("Listing services failed; assuming that kube-proxy is unchanged", "error", err.Error())
		return n.proxy, n.service
	}
	n.proxy, n.service = processOf(found, n.want.Proxy), processOf(found, hnsService)
	return n.proxy, n.service
}

// hnsService is the name of the Host Network Service.
const hnsService = "hns"

// processOf returns the process of a service; 0 if it does not run.
func processOf(found []hostapi.Service, name string) uint32 {
	i := slices.IndexFunc(found, func(s hostapi.Service) bool { return strings.EqualFold(s.Name, name) && s.State == hostapi.Running })
	if i < 0 {
		return 0
	}
	return found[i].PID
}

// act carries out the plan. What fails is retried in the next pass.
func (n *reconciliation) act(ctx context.Context, p *networkPlan) {
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	n.removeOthers(ctx, p.remove)
	if p.create != nil {
		n.create(ctx, p)
	}
	if p.values != nil {
		if err := n.write(*p.values, p); err != nil {
			n.Log.Error("Writing the network configuration failed", "error", err.Error())
			p.soon()
		}
	}
	for _, pod := range p.end {
		if err := n.Host.Containers.End(ctx, pod.sandbox); err != nil {
			n.Log.Error("Stopping a pod that lost its network failed", "sandbox", pod.sandbox, "error", err.Error())
			continue
		}
		n.repaired("pod with address %s stopped: it had lost its network", pod.address)
	}
	for name, reason := range p.restart {
		n.repaired("restarting service %s: %s", name, reason)
		n.services.Restart(name, reason)
	}
}

// create creates the host's own endpoint. If that fails, the network's files are not written, because they would have no source address.
func (n *reconciliation) create(ctx context.Context, p *networkPlan) {
	p.soon() // not at once, so that the Node reports the loss
	e, err := n.Host.Networks.CreateEndpoint(ctx, *p.create)
	if err != nil {
		p.problem(api.ReasonHNSEndpointLost, "creating endpoint %s: %v", p.create.Name, err)
		p.values = nil
		return
	}
	n.RecordChange("endpoint %s with address %s created", e.Name, e.Address)
	p.values.SourceVIP = e.Address.String()
}

func (n *reconciliation) removeOthers(ctx context.Context, orphans hns.State) {
	if len(orphans.LoadBalancers)+len(orphans.Endpoints) == 0 {
		return
	}
	if err := n.Host.Networks.Remove(ctx, orphans); err != nil {
		n.Log.Error("Removing orphaned HNS objects failed", "error", err.Error())
		return
	}
	var named []string
	for front := range backendsIn(orphans) {
		named = append(named, front.String())
	}
	for _, e := range orphans.Endpoints {
		named = append(named, e.Address.String())
	}
	slices.Sort(named)
	n.repaired("removed %d load balancers and %d endpoints that belonged to no Service or pod: %s",
		len(orphans.LoadBalancers), len(orphans.Endpoints), truncate.List(named, namedLosses, ", "))
}

// write writes the network's files. kube-proxy reads its configuration only at start.
func (n *reconciliation) write(values desired.NetworkValues, p *networkPlan) error {
	values.Node = n.Record.Node
	for _, f := range n.want.Files {
		if mustWaitForImage(n.Session, n.sandbox, f.Path) {
			p.again = awaitedInterval
			continue
		}
		content, err := values.Fill(f)
		if err != nil {
			return err
		}
		before := n.Host.Disk.Exists(f.Path)
		changed, err := n.Host.Disk.WriteFile(f.Path, content)
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.Path, err)
		}
		if changed {
			n.RecordChange("%s written for pod range %s", f.Path, values.PodCIDR)
			if before && strings.Contains(n.commandOf(n.want.Proxy), f.Path) {
				p.restart[n.want.Proxy] = f.Path + " changed"
			}
			n.wake.Send()
		}
		if err := removeReplaced(n.Session, f.Path); err != nil {
			return err
		}
	}
	return nil
}

func (n *reconciliation) commandOf(service string) string {
	i := slices.IndexFunc(n.Wanted.Services, func(s desired.Service) bool { return s.Name == service })
	if i < 0 {
		return ""
	}
	return n.Wanted.Services[i].Command
}

// pods returns the running pods whose address no endpoint has, as libcni cached them. Pods with an endpoint are left out: they need no action.
func (n *reconciliation) pods(ctx context.Context, s hns.State) ([]podNetwork, error) {
	names, err := n.Host.Disk.List(desired.CNIResults)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", desired.CNIResults, err)
	}
	existing := ownAddresses(s)
	var withoutEndpoint []podNetwork
	for _, name := range names {
		b, err := n.Host.Disk.Read(desired.CNIResults + `\` + name)
		if pod, ok := cniresult.Decode(b); err == nil && ok && existing[pod.Addresses[0]] == "" {
			withoutEndpoint = append(withoutEndpoint, podNetwork{pod.Container, pod.Addresses[0]})
		}
	}
	if len(withoutEndpoint) == 0 {
		return nil, nil
	}
	run, err := n.Host.Containers.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	return slices.DeleteFunc(withoutEndpoint, func(p podNetwork) bool { return !slices.Contains(run, p.sandbox) }), nil
}
