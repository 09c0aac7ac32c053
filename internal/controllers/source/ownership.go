package source

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

// Ownership says whose a host is when several ask for it, and is the only place that does. The rule:
//
//  1. An instance that exists keeps its host. What a user wrote is one as soon as it is written.
//  2. Of those that ask for a host nobody has, a Machine of the Machine API comes first, then one of Cluster API, then an entry
//     of ConfigMap windows-instances. Of two entries whose addresses are known, or two Machines of one API, the one whose name comes first.
//
// Who does not get a host is told with an event, and looks again: when the instance that has it goes, it is the next one's.
type Ownership struct {
	*Resolver
	// Announcers are the sources that come before the ConfigMap, the strongest first.
	Announcers []Announcer

	mu sync.Mutex
	// firstAsked is when somebody wanted to know for the first time whether all sources are there.
	firstAsked time.Time
	// reservations are hosts for which an instance was made a moment ago: another source may not have heard of it.
	reservations map[netip.Addr]reservation
}

// NewOwnership makes an Ownership; announcers are the sources before the ConfigMap, the strongest first.
func NewOwnership(r *Resolver, announcers ...Announcer) *Ownership {
	return &Ownership{Resolver: r, Announcers: announcers}
}

// Announcer is a source that knows its hosts by address.
type Announcer interface {
	// Announced are those for which there is to be an instance, whether or not there is one.
	Announced(ctx context.Context) []Announcement
	// Looked says whether the source knows by now what it announces, or that it has nothing to read it from.
	Looked() bool
	// Named says which Machine, of any operating system, has a name or gives it to its host, other than the one with an ID; "" for none.
	Named(ctx context.Context, name, other string) (who string)
}

// Announcement is a host that a source asks for.
type Announcement struct {
	source string
	// Who is the object that asks, for people; ID for programs.
	Who, ID string
	Address netip.Addr
	// Names are the DNS names that the object says its host has.
	Names []string
}

type reservation struct {
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
func (h *Ownership) ready(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.firstAsked.IsZero() {
		h.firstAsked = now
	}
	notYet := func(a Announcer) bool { return !a.Looked() }
	return !slices.ContainsFunc(h.Announcers, notYet) || now.Sub(h.firstAsked) > readyWithin
}

// early says whether new hosts may not be given away yet: a name of an instance, which was not known before, is being asked for.
func early(known resolved, have map[string]*v1alpha1.WindowsInstance, now time.Time) bool {
	for _, i := range have {
		if known[i.Spec.Address].isAsked(now) {
			return true
		}
	}
	return false
}

// rememberFor is how long a host that was given is remembered: far longer than the cache needs to hear of the instance.
const rememberFor = time.Minute

// reserve gives a host to an instance that is about to be made, or says which one has just got it.
func (h *Ownership) reserve(ip netip.Addr, to types.NamespacedName, now time.Time) (holder types.NamespacedName, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reservations == nil {
		h.reservations = map[netip.Addr]reservation{}
	}
	for ip, g := range h.reservations {
		if now.Sub(g.at) > rememberFor {
			delete(h.reservations, ip)
		}
	}
	if g, taken := h.reservations[ip]; taken && g.to != to {
		return g.to, false
	}
	h.reservations[ip] = reservation{to: to, at: now}
	return to, true
}

// release makes the hosts of an instance, which was not made or is being removed, free for others.
func (h *Ownership) release(from types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ip, g := range h.reservations {
		if g.to == from {
			delete(h.reservations, ip)
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

// higherPriority says which hosts the sources before one ask for.
func (h *Ownership) higherPriority(ctx context.Context, than string) map[netip.Addr]Announcement {
	asked := map[netip.Addr]Announcement{}
	for _, announcer := range h.Announcers {
		for _, a := range announcer.Announced(ctx) {
			if _, taken := asked[a.Address]; !taken && rank(a.source) < rank(than) {
				asked[a.Address] = a
			}
		}
	}
	return asked
}

// NamedBy says which object's host has a DNS name, other than the one with an ID; "" when none says so.
func (h *Ownership) NamedBy(ctx context.Context, name, other string) (who string) {
	for _, announcer := range h.Announcers {
		for _, a := range announcer.Announced(ctx) {
			if a.ID != other && slices.Contains(a.Names, name) {
				return a.Who
			}
		}
	}
	return ""
}

// NamedByAny is NamedBy with Machines of every operating system: for the names of hosts that have no Node yet.
func (h *Ownership) NamedByAny(ctx context.Context, name, other string) (who string) {
	for _, announcer := range h.Announcers {
		if who := announcer.Named(ctx, name, other); who != "" {
			return who
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
func allInstances(ctx context.Context, reader client.Reader, namespace string) (map[string]*v1alpha1.WindowsInstance, error) {
	var list v1alpha1.WindowsInstanceList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing WindowsInstances: %w", err)
	}
	have := map[string]*v1alpha1.WindowsInstance{}
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	return have, nil
}

// create makes an instance for a host, or says who has just got that host.
func (h *Ownership) create(ctx context.Context, c client.Client, instance *v1alpha1.WindowsInstance, ip netip.Addr) (holder string, err error) {
	name := client.ObjectKeyFromObject(instance)
	if other, ok := h.reserve(ip, name, time.Now()); !ok {
		return "WindowsInstance " + other.Name, nil
	}
	if err := c.Create(ctx, instance); err != nil {
		h.release(name)
		return "", fmt.Errorf("making WindowsInstance %s: %w", instance.Name, err)
	}
	return "", nil
}
