package source

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
)

// entryState is what the plan for the entries of ConfigMap windows-instances depends on.
type entryState struct {
	configMap *corev1.ConfigMap
	instances map[string]*v1alpha1.WindowsInstance
	// entries are the valid ones, with their host keys; faults are those of the others.
	entries  []entry
	faults   []fault
	hostKeys *knownHosts
	resolved resolved
	reserved addresses.Cluster
	// announced are the hosts that sources of higher priority announce.
	announced map[netip.Addr]Announcement
	now       time.Time
}

type located struct {
	entry
	ip netip.Addr
}

type entryPlan struct {
	create []located
	update []*v1alpha1.WindowsInstance
	remove []*v1alpha1.WindowsInstance
	faults []fault
	// nodes are the Nodes that prevent entries from becoming instances, each with the first such entry.
	nodes map[string]located
	// recheck is when the entries must be checked again although no object has changed; 0 for never.
	recheck time.Duration
}

// entryPlanner plans one entry after the other.
type entryPlanner struct {
	entryState
	plan entryPlan
	// owner names the object that has a host.
	owner map[netip.Addr]string
	// early means that it is too early to assign new hosts, because the hosts of some instances are not known yet.
	early bool
	// unanswered means that DNS has not answered yet for some name.
	unanswered bool
}

// planEntries decides which instances are created, updated and removed. An entry becomes no instance if it is invalid, if its name does not resolve,
// or if its host belongs to another object (see Ownership). Entries that have instances come first.
func planEntries(s entryState) entryPlan {
	p := entryPlanner{
		entryState: s,
		plan:       entryPlan{faults: slices.Clone(s.faults), nodes: map[string]located{}},
		owner:      owners(s.resolved, s.instances, isOfConfigMap),
		early:      early(s.resolved, s.instances, s.now),
	}
	for _, e := range s.entries {
		if s.instances[e.instanceName()] != nil {
			p.planExisting(e)
		}
	}
	for ip, a := range s.announced {
		if p.owner[ip] == "" {
			p.owner[ip] = a.Object
		}
	}
	for _, e := range s.entries {
		if s.instances[e.instanceName()] == nil {
			p.add(e)
		}
	}
	p.prune()
	switch {
	case p.early:
		p.plan.recheck = readyInterval
	case len(p.plan.faults) > 0 || p.unanswered:
		p.plan.recheck = recheckInterval
	}
	return p.plan
}

// planExisting plans for an entry that has an instance. It does not check for reserved addresses: the instance reports them itself.
func (p *entryPlanner) planExisting(e entry) {
	i := p.instances[e.instanceName()]
	if ip := p.resolved[e.address()].ip(); ip.IsValid() { // otherwise it resolved once: a DNS outage must not remove a node
		if !p.claim(e, ip) {
			return
		}
		if reported, err := netip.ParseAddr(i.Status.NodeIP); err == nil && p.owner[reported] == "" {
			p.owner[reported] = p.owner[ip]
		}
	}
	switch {
	case i.DeletionTimestamp != nil: // recreated when the host has left
	case !isOfConfigMap(i):
		p.refuse(e, nameTaken, fmt.Sprintf("WindowsInstance %s already exists and was not created from this ConfigMap; remove one of the two", i.Name))
	case i.Spec.Username != e.username || !hasHostKey(i.Spec.HostKey, e.hostKey):
		changed := i.DeepCopy()
		changed.Spec.Username = e.username
		if e.hostKey != "" { // otherwise, a user's key stays
			changed.Spec.HostKey = e.hostKey
		}
		p.plan.update = append(p.plan.update, changed)
	}
}

// add plans for an entry that has no instance yet.
func (p *entryPlanner) add(e entry) {
	known := p.resolved[e.address()]
	ip := known.ip()
	switch {
	case known.err != nil:
		p.refuse(e, addressUnresolvable, known.err.Error())
		return
	case !ip.IsValid():
		p.unanswered = true
		return
	case p.early:
		return
	}
	if e.hostKey == "" && ip.String() != e.instanceName() {
		var err error
		if e.hostKey, err = p.hostKeys.keyOf(ip.String()); err != nil {
			p.plan.faults = append(p.plan.faults, hostKeyFault(e, err))
			return
		}
	}
	reserved := p.reserved
	if e.hostKey != "" { // the key identifies the host, whatever Nodes and Services claim
		reserved = reserved.WithoutClaims()
	}
	if bad := refused(reserved, known.ips...); bad != nil {
		p.refuse(e, addressInvalid, bad.Error())
		if node := reserved.Nodes[ip]; node != "" && p.plan.nodes[node].key == "" {
			p.plan.nodes[node] = located{e, ip}
		}
		return
	}
	if p.claim(e, ip) {
		p.plan.create = append(p.plan.create, located{e, ip})
	}
}

// claim assigns a host to an entry, unless another object has it.
func (p *entryPlanner) claim(e entry, ip netip.Addr) bool {
	if holder := p.owner[ip]; holder != "" {
		p.refuse(e, addressTaken, fmt.Sprintf("address %s already belongs to %s; remove one of the two", ip, holder))
		return false
	}
	p.owner[ip] = fmt.Sprintf("entry %q", e.key)
	return true
}

func (p *entryPlanner) refuse(e entry, kind, message string) {
	p.plan.faults = append(p.plan.faults, fault{e.key, kind, message})
}

// prune plans to delete instances whose entries are gone. An entry that has become faulty is not gone: its key still exists.
func (p *entryPlanner) prune() {
	exists := map[string]bool{}
	for key := range p.configMap.Data {
		exists[entry{key: key}.instanceName()] = true
	}
	for key := range p.configMap.BinaryData {
		exists[entry{key: key}.instanceName()] = true
	}
	for _, i := range sorted(p.instances) {
		if isOfConfigMap(i) && i.DeletionTimestamp == nil && !exists[entry{key: i.Spec.Address}.instanceName()] {
			p.plan.remove = append(p.plan.remove, i)
		}
	}
}
