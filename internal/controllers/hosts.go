package controllers

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// hosts says whose a host is when several ask for it, and is the only place that does. The rule:
//
//  1. An instance that exists keeps its host. What a user wrote is one as soon as it is written.
//  2. Of those that ask for a host nobody has, a Machine of the Machine API comes first, then one of Cluster API, then an entry
//     of ConfigMap windows-instances. Of two entries, or two Machines of one API, the one whose name comes first.
//
// Who does not get a host is told with an event, and looks again: when the instance that has it goes, it is the next one's.
type hosts struct {
	*resolver
	// announcers are the sources that come before the ConfigMap, the strongest first.
	announcers []announcer

	mu sync.Mutex
	// firstAsked is when somebody wanted to know for the first time whether all sources are there.
	firstAsked time.Time
	// given are hosts for which an instance was made a moment ago: another source may not have heard of it.
	given map[netip.Addr]gift
}

// announcer is a source that knows its hosts by address.
type announcer interface {
	// announced are those for which there is to be an instance, whether or not there is one.
	announced(ctx context.Context) []announcement
	// looked says whether the source knows by now what it announces, or that it has nothing to read it from.
	looked() bool
}

// announcement is a host that a source asks for.
type announcement struct {
	source string
	// who is the object that asks, for people; id for programs.
	who, id string
	address netip.Addr
	// names are the DNS names that the object says its host has.
	names []string
}

type gift struct {
	to types.NamespacedName
	at time.Time
}

const (
	// readyWithin is how long, after the operator's start, weaker sources wait for stronger ones to look.
	readyWithin = 30 * time.Second
	// readyAgain is how often they ask.
	readyAgain = 200 * time.Millisecond
)

// ready says whether new hosts may be given away: all sources have looked, or had the time for it.
func (h *hosts) ready(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.firstAsked.IsZero() {
		h.firstAsked = now
	}
	notYet := func(a announcer) bool { return !a.looked() }
	return !slices.ContainsFunc(h.announcers, notYet) || now.Sub(h.firstAsked) > readyWithin
}

// rememberFor is how long a host that was given is remembered: far longer than the cache needs to hear of the instance.
const rememberFor = time.Minute

// give gives a host to an instance that is about to be made, or says which one has just got it.
func (h *hosts) give(ip netip.Addr, to types.NamespacedName, now time.Time) (holder types.NamespacedName, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.given == nil {
		h.given = map[netip.Addr]gift{}
	}
	for ip, g := range h.given {
		if now.Sub(g.at) > rememberFor {
			delete(h.given, ip)
		}
	}
	if g, taken := h.given[ip]; taken && g.to != to {
		return g.to, false
	}
	h.given[ip] = gift{to: to, at: now}
	return to, true
}

// takeBack makes the hosts of an instance, which was not made or is being removed, free for others.
func (h *hosts) takeBack(from types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ip, g := range h.given {
		if g.to == from {
			delete(h.given, ip)
		}
	}
}

// owners says which instances have which hosts, and leaves out those that except is true for. A host is known by the address at which it
// is reached, which is in known, and by the one that it reported itself.
func owners(known resolved, have map[string]*v1alpha1.WindowsInstance, except func(*v1alpha1.WindowsInstance) bool) map[netip.Addr]string {
	owner := map[netip.Addr]string{}
	for _, i := range sorted(have) {
		if except(i) {
			continue
		}
		reported, _ := netip.ParseAddr(i.Status.NodeIP) // invalid where it is none
		for _, ip := range []netip.Addr{known[i.Spec.Address].ip(), reported} {
			if ip.IsValid() && owner[ip] == "" {
				owner[ip] = "WindowsInstance " + i.Name
			}
		}
	}
	return owner
}

// addressesOf are the addresses and names at which instances are reached.
func addressesOf(have map[string]*v1alpha1.WindowsInstance) (keys []string) {
	for _, i := range have {
		keys = append(keys, i.Spec.Address)
	}
	return keys
}

// stronger says which hosts the sources before one ask for.
func (h *hosts) stronger(ctx context.Context, than string) map[netip.Addr]announcement {
	asked := map[netip.Addr]announcement{}
	for _, announcer := range h.announcers {
		for _, a := range announcer.announced(ctx) {
			if _, taken := asked[a.address]; !taken && rank(a.source) < rank(than) {
				asked[a.address] = a
			}
		}
	}
	return asked
}

// named says which object's host has a DNS name, other than the one with an ID; "" when none says so.
func (h *hosts) named(ctx context.Context, name, other string) (who string) {
	for _, announcer := range h.announcers {
		for _, a := range announcer.announced(ctx) {
			if a.id != other && slices.Contains(a.names, name) {
				return a.who
			}
		}
	}
	return ""
}

// rank orders the sources; the lowest wins.
func rank(source string) int {
	return slices.Index([]string{api.SourceMachine, api.SourceClusterAPI, api.SourceConfigMap}, source)
}

// sorted are the instances by name, so that the same ones always mean the same.
func sorted(have map[string]*v1alpha1.WindowsInstance) []*v1alpha1.WindowsInstance {
	var all []*v1alpha1.WindowsInstance
	for _, i := range have {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *v1alpha1.WindowsInstance) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// allInstances returns all instances by name, whatever their source. They are the cache's: not to be changed.
func (c common) allInstances(ctx context.Context) (map[string]*v1alpha1.WindowsInstance, error) {
	var list v1alpha1.WindowsInstanceList
	if err := c.client.List(ctx, &list, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing WindowsInstances: %w", err)
	}
	have := map[string]*v1alpha1.WindowsInstance{}
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	return have, nil
}

// makeInstance makes an instance for a host, or says who has just got that host.
func (c common) makeInstance(ctx context.Context, h *hosts, instance *v1alpha1.WindowsInstance, ip netip.Addr) (holder string, err error) {
	name := client.ObjectKeyFromObject(instance)
	if other, ok := h.give(ip, name, time.Now()); !ok {
		return "WindowsInstance " + other.Name, nil
	}
	if err := c.client.Create(ctx, instance); err != nil {
		h.takeBack(name)
		return "", fmt.Errorf("making WindowsInstance %s: %w", instance.Name, err)
	}
	return "", nil
}
