package source

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// located is an entry and its address; invalid for an instance whose name does not resolve at the moment.
type located struct {
	entry
	ip netip.Addr
}

// locations are the results for entries.
type locations struct {
	known  resolved
	others addresses.Cluster
	keys   *knownHosts
	have   map[string]*v1alpha1.WindowsInstance
	owner  map[netip.Addr]string

	good   []located
	faults []fault
	// asked is the number of names for which DNS has not answered yet.
	asked int
	// early means that new hosts are not assigned yet, because the hosts of some instances are not known.
	early bool
	// nodes are the Nodes that prevent entries from becoming instances, each with the first such entry.
	nodes map[string]located
}

// locate drops entries whose name does not resolve, and those whose host belongs to another object (see Ownership). Entries that have instances come
// first. It does not wait for DNS: names are resolved in the background.
func (c *configMaps) locate(ctx context.Context, entries []entry, have map[string]*v1alpha1.WindowsInstance, keys *knownHosts) *locations {
	names := addressesOf(have)
	for _, e := range entries {
		names = append(names, e.address())
	}
	l := &locations{known: c.Hosts.resolve(ctx, names), keys: keys, have: have, nodes: map[string]located{}}
	l.early = early(l.known, have, time.Now())
	var err error
	if l.others, err = c.Reserved.With(ctx, ""); err != nil { // the instance reports it, too, before the operator connects
		log.FromContext(ctx).Info("Reading reserved addresses failed; entries are checked against those known", "error", err.Error())
	}
	l.owner = owners(l.known, have, isOfConfigMap)
	for _, e := range entries {
		if have[e.instanceName()] != nil {
			l.existing(e)
		}
	}
	for ip, a := range c.Hosts.higherPriority(ctx, api.SourceConfigMap) {
		if l.owner[ip] == "" {
			l.owner[ip] = a.Who
		}
	}
	for _, e := range entries {
		if have[e.instanceName()] == nil {
			l.fresh(e)
		}
	}
	return l
}

// existing handles an entry that has an instance. It does not check for reserved addresses: the instance reports them itself.
func (l *locations) existing(e entry) {
	means := l.known[e.address()]
	if !means.ip().IsValid() {
		l.good = append(l.good, located{entry: e}) // it resolved once: a DNS outage must not remove a node
		return
	}
	l.take(e, means.ip())
}

// fresh handles an entry that has no instance yet.
func (l *locations) fresh(e entry) {
	means := l.known[e.address()]
	ip := means.ip()
	switch {
	case means.err != nil:
		l.faults = append(l.faults, fault{e.key, addressUnresolvable, means.err.Error()})
		return
	case !ip.IsValid():
		l.asked++
		return
	case l.early:
		return
	}
	if e.hostKey == "" && ip.String() != e.instanceName() {
		var err error
		if e.hostKey, err = l.keys.of(ip.String()); err != nil {
			l.faults = append(l.faults, unproven(e, err))
			return
		}
	}
	others := l.others
	if e.hostKey != "" { // a machine with the key is the host, whatever Nodes and Services claim
		others = others.WithoutClaims()
	}
	if bad := refused(others, means.ips...); bad != nil {
		l.faults = append(l.faults, fault{e.key, addressInvalid, bad.Error()})
		if node := others.Nodes[ip]; node != "" && l.nodes[node].key == "" {
			l.nodes[node] = located{e, ip}
		}
		return
	}
	l.take(e, ip)
}

// take assigns a host to an entry, unless another object has it.
func (l *locations) take(e entry, ip netip.Addr) {
	if holder := l.owner[ip]; holder != "" {
		l.faults = append(l.faults, fault{e.key, addressTaken, fmt.Sprintf("address %s already belongs to %s; remove one of the two", ip, holder)})
		return
	}
	l.owner[ip] = fmt.Sprintf("entry %q", e.key)
	if i := l.have[e.instanceName()]; i != nil {
		if reported, err := netip.ParseAddr(i.Status.NodeIP); err == nil && l.owner[reported] == "" {
			l.owner[reported] = l.owner[ip]
		}
	}
	l.good = append(l.good, located{e, ip})
}

// recordOnNodes records events on Nodes whose addresses prevent hosts of entries from joining.
func (c *configMaps) recordOnNodes(ctx context.Context, nodes map[string]located) {
	for _, name := range slices.Sorted(maps.Keys(nodes))[:min(len(nodes), maxFaultEvents)] {
		c.recordOnNode(ctx, name, nodes[name].ip, fmt.Sprintf("entry %q of ConfigMap %s", nodes[name].key, api.InstancesConfigMap))
	}
}

// recordOnNode records an event on a Node that has the address of a host, which therefore cannot join; announces names what announces the host.
func (o Options) recordOnNode(ctx context.Context, name string, ip netip.Addr, announces string) {
	var node corev1.Node
	if err := o.Client.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		return // the Node is gone, and its claim with it
	}
	o.Events.Emit(kube.Event{Object: &node, Type: corev1.EventTypeWarning, Reason: api.EventAddressDisputed, Action: "Compare"},
		"status.addresses contains %s, which %s declares as a Windows host; check the kubelet's --node-ip on this Node, and which machine has the address", ip, announces)
}
