package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/host"
)

// networkEvery is how often the network is looked at without being told, networkSoon how soon again when something seems wrong, and
// networkAwaited while it is being made: a host that joins waits for nothing else.
const (
	networkEvery   = 5 * time.Second
	networkSoon    = 2 * time.Second
	networkAwaited = 500 * time.Millisecond
	// A look asks Windows for each endpoint and load balancer, which is work where there are thousands: at most one part in so many of
	// the time is spent on it, unless it were more seldom than networkSeldom.
	lookShare     = 5
	networkSeldom = time.Minute
	// networkAnswers is how long one look, or one change, may take.
	networkAnswers = 30 * time.Second
)

// networking is how the service keeps the network that one of the others makes.
type networking struct {
	*life
	want   desired.Network
	memory *networkMemory
}

// keepNetwork waits for the network of pods, writes what others must know of it, and mends what Windows has lost. It needs the API
// server only to know which load balancers there must be.
func (l *life) keepNetwork(ctx context.Context) {
	if l.wanted.Network == nil {
		return
	}
	n := &networking{life: l, want: *l.wanted.Network, memory: newNetworkMemory()}
	var changes <-chan struct{}
	for ctx.Err() == nil {
		if changes == nil {
			var err error
			if changes, err = l.host.Networks.Watch(ctx); err != nil {
				l.log.Warn("The Host Network Service cannot be watched", "error", err.Error())
			}
		}
		began := time.Now()
		view := n.see(ctx)
		took := time.Since(began)
		plan := n.memory.judge(n.want, view)
		n.act(ctx, &plan)
		if ctx.Err() != nil {
			return
		}
		if l.setNetwork(plan) {
			l.poke()
			if err := l.tellMetrics(); err != nil {
				l.log.Warn("Metrics cannot be told", "error", err.Error())
			}
		}
		wait := max(networkEvery, min(lookShare*took, networkSeldom))
		if plan.again == 0 && len(plan.troubles) > 0 {
			plan.soon()
		}
		if plan.again > 0 {
			wait = max(plan.again, min(2*took, networkEvery))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		case _, open := <-changes:
			if !open {
				changes = nil
			}
		}
	}
}

// see looks at the network once.
func (n *networking) see(ctx context.Context) networkView {
	ctx, cancel := context.WithTimeout(ctx, networkAnswers)
	defer cancel()
	v := networkView{}
	v.state, v.err = n.host.Networks.Look(ctx)
	if n.frontends.known() {
		v.told = n.frontends
	}
	found, err := n.host.Services.List(ctx, []string{n.want.Proxy})
	if i := slices.IndexFunc(found, func(s host.Service) bool { return strings.EqualFold(s.Name, n.want.Proxy) && s.State == host.Running }); err == nil && i >= 0 {
		v.proxy = found[i].PID
	}
	if v.err == nil {
		v.pods, v.err = n.pods(ctx, v.state)
	}
	v.now = time.Now()
	return v
}

// act does what the look has shown to be needed. What fails is tried again with the next look.
func (n *networking) act(ctx context.Context, p *networkPlan) {
	ctx, cancel := context.WithTimeout(ctx, networkAnswers)
	defer cancel()
	n.removeOthers(ctx, p.remove)
	if p.create != nil {
		n.create(ctx, p)
	}
	if p.joint != nil {
		if err := n.write(*p.joint, p.restart); err != nil {
			n.log.Error("The network cannot be written down", "error", err.Error())
			p.soon()
		}
	}
	for _, pod := range p.end {
		if err := n.host.Containers.End(ctx, pod.sandbox); err != nil {
			n.log.Error("A pod without network cannot be ended", "sandbox", pod.sandbox, "error", err.Error())
			continue
		}
		n.repaired("pod with address %s ended, which had lost its network", pod.address)
	}
	for name, why := range p.restart {
		n.repaired("service %s is restarted: %s", name, why)
		n.restartService(name, why)
	}
}

// create makes the host's own endpoint. Without it, nothing is written of the network: what would come of that has no source address.
func (n *networking) create(ctx context.Context, p *networkPlan) {
	p.soon() // not at once: the Node is to be told of the loss
	e, err := n.host.Networks.CreateEndpoint(ctx, *p.create)
	if err != nil {
		p.trouble(api.ReasonHNSEndpointLost, "making endpoint %s: %v", p.create.Name, err)
		p.joint = nil
		return
	}
	n.did("endpoint %s with address %s made", e.Name, e.Address)
	p.joint.SourceVIP = e.Address.String()
}

func (n *networking) removeOthers(ctx context.Context, orphans hns.State) {
	if len(orphans.LoadBalancers)+len(orphans.Endpoints) == 0 {
		return
	}
	if err := n.host.Networks.Remove(ctx, orphans); err != nil {
		n.log.Error("What belongs to nobody cannot be removed", "error", err.Error())
		return
	}
	n.repaired("%d load balancers and %d endpoints removed that belong to nobody", len(orphans.LoadBalancers), len(orphans.Endpoints))
}

// write writes the files of the network. kube-proxy reads its own when it starts.
func (n *networking) write(j desired.Joint, restart map[string]string) error {
	j.Node = n.record.Node
	for _, f := range n.want.Files {
		content, err := j.Fill(f)
		if err != nil {
			return err
		}
		had := n.host.Disk.Exists(f.Path)
		changed, err := n.host.Disk.WriteFile(f.Path, content)
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.Path, err)
		}
		if !changed {
			continue
		}
		n.did("%s written for pod range %s", f.Path, j.PodCIDR)
		if had && strings.Contains(n.commandOf(n.want.Proxy), f.Path) {
			restart[n.want.Proxy] = f.Path + " changed"
		}
		n.poke()
	}
	return nil
}

func (n *networking) commandOf(service string) string {
	i := slices.IndexFunc(n.wanted.Services, func(s desired.Service) bool { return s.Name == service })
	if i < 0 {
		return ""
	}
	return n.wanted.Services[i].Command
}

// pods are the networks of pods that run and whose address no endpoint has, as libcni remembers them. Those that have one are left
// out: nothing is to be done about them.
func (n *networking) pods(ctx context.Context, s hns.State) ([]podNetwork, error) {
	names, err := n.host.Disk.List(networkResults)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", networkResults, err)
	}
	has := ownAddresses(s)
	var bare []podNetwork
	for _, name := range names {
		b, err := n.host.Disk.Read(networkResults + `\` + name)
		if pod, ok := podNetworkOf(b); err == nil && ok && !has[pod.address] {
			bare = append(bare, pod)
		}
	}
	if len(bare) == 0 {
		return nil, nil
	}
	run, err := n.host.Containers.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	return slices.DeleteFunc(bare, func(p podNetwork) bool { return !slices.Contains(run, p.sandbox) }), nil
}

// podNetworkOf reads what libcni remembers of a pod's network, in the forms of results before and since version 0.3 of CNI.
func podNetworkOf(b []byte) (p podNetwork, ok bool) {
	var cached struct {
		Container string `json:"containerId"`
		Result    struct {
			IP4 struct {
				IP string `json:"ip"`
			} `json:"ip4"`
			IPs []struct {
				Address string `json:"address"`
			} `json:"ips"`
		} `json:"result"`
	}
	if json.Unmarshal(b, &cached) != nil || cached.Container == "" {
		return p, false
	}
	texts := []string{cached.Result.IP4.IP}
	for _, ip := range cached.Result.IPs {
		texts = append(texts, ip.Address)
	}
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() {
			return podNetwork{sandbox: cached.Container, address: prefix.Addr()}, true
		}
	}
	return p, false
}

// repaired tells of a repair: in the log and the journal, by a metric, and by an event of the Node.
func (n *networking) repaired(format string, args ...any) {
	n.did(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.repairs = append(n.repairs, trouble{service: n.want.Proxy, reason: api.ReasonNetworkRepaired, message: fmt.Sprintf(format, args...), since: time.Now()})
	n.repairs = n.repairs[max(0, len(n.repairs)-maxRepairs):]
	n.repairsDone++
}

// maxRepairs is how many repairs are kept to be told to the Node, when the API server does not answer.
const maxRepairs = 10

// networkState is what is known of the network.
type networkState struct {
	known           bool
	reason, message string
}

// setNetwork tells whether that is new.
func (l *life) setNetwork(p networkPlan) (changed bool) {
	reason, message := p.message()
	is := networkState{known: true, reason: reason, message: message}
	l.mu.Lock()
	defer l.mu.Unlock()
	changed = l.network != is || len(l.repairs) > 0
	l.network = is
	return changed
}

// tellNetwork tells the node whether its network works, and what was repaired.
func (l *life) tellNetwork(ctx context.Context, client *apiClient, node *corev1.Node) error {
	l.mu.Lock()
	is, repairs := l.network, slices.Clone(l.repairs)
	l.mu.Unlock()
	if c, change := networkOf(time.Now(), is, conditionIn(node, api.ConditionWindowsNetworkUnavailable)); change {
		if err := l.say(ctx, client, node, c); err != nil {
			return err
		}
	}
	if err := l.tellEvents(ctx, client, node, repairs); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.repairs = slices.DeleteFunc(l.repairs, func(t trouble) bool { return slices.Contains(repairs, t) })
	return nil
}

// networkOf is what condition WindowsNetworkUnavailable should become; is is nil when the node has none. It is set when the network
// was looked at for the first time.
func networkOf(now time.Time, s networkState, is *corev1.NodeCondition) (c corev1.NodeCondition, change bool) {
	c = corev1.NodeCondition{
		Type: api.ConditionWindowsNetworkUnavailable, Status: corev1.ConditionFalse, Reason: api.ReasonNetworkWorks,
		Message: "networks, endpoints and load balancers are as they should be", LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	if s.reason != "" {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, s.reason, s.message
	}
	if is != nil && is.Status == c.Status {
		c.LastTransitionTime = is.LastTransitionTime
	}
	return c, s.known && (is == nil || is.Status != c.Status || is.Reason != c.Reason || is.Message != c.Message)
}
