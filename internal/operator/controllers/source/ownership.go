package source

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Ownership decides which source gets a host that several request; nothing else does. The rules:
//
//  1. An existing instance keeps its host. A user's instance exists as soon as it is written.
//  2. A host without an instance goes to a Machine of the Machine API first, then to one of Cluster API, then to an entry of ConfigMap
//     windows-instances. Of two entries whose addresses are known, or two Machines of one API, the one whose name sorts first gets it.
//
// An event reports an object that does not get its host. It is checked again: when the instance that has the host goes, the next object gets it.
type Ownership struct {
	*Resolver
	// Announcers are the sources with priority over the ConfigMap, highest first.
	Announcers []Announcer

	mu sync.Mutex
	// firstCalled is when ready was called for the first time.
	firstCalled time.Time
	// reservations are hosts whose instance was created a moment ago: other sources may not have observed it.
	reservations map[netip.Addr]reservation
}

// NewOwnership returns an Ownership; announcers are the sources with priority over the ConfigMap, highest first.
func NewOwnership(r *Resolver, announcers ...Announcer) *Ownership {
	return &Ownership{Resolver: r, Announcers: announcers}
}

// Announcer is a source that knows its hosts by address.
type Announcer interface {
	// Announced returns the hosts that should have an instance, whether or not they have one.
	Announced(ctx context.Context) []Announcement
	// HasSynced reports whether the source knows which hosts it announces, or its API does not exist.
	HasSynced() bool
	// Named returns the Machine, of any operating system, that has a name or gives it to its host, except the one with ID other; "" if there is none.
	Named(ctx context.Context, name, other string) (holder string)
}

// Announcement is a host that a source announces.
type Announcement struct {
	source string
	// Object describes the announcing object in messages; ID identifies it.
	Object, ID string
	Address    netip.Addr
	// Names are the DNS names of the host according to the object.
	Names []string
}

type reservation struct {
	to types.NamespacedName
	at time.Time
}

const (
	// readyTimeout is how long after the operator's start sources of lower priority wait for those of higher priority.
	readyTimeout = 30 * time.Second
	// readyInterval is how often they check.
	readyInterval = 200 * time.Millisecond
)

// ready reports whether new hosts may be assigned: all sources have synced, or readyTimeout has passed.
func (h *Ownership) ready(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.firstCalled.IsZero() {
		h.firstCalled = now
	}
	notYet := func(a Announcer) bool { return !a.HasSynced() }
	return !slices.ContainsFunc(h.Announcers, notYet) || now.Sub(h.firstCalled) > readyTimeout
}

// early reports whether it is too early to assign new hosts: the name of an instance is being resolved for the first time.
func early(known resolved, instances map[string]*v1alpha1.WindowsInstance, now time.Time) bool {
	for _, i := range instances {
		if known[i.Spec.Address].isPending(now) {
			return true
		}
	}
	return false
}

// reservationLifetime is how long a reservation is kept: far longer than the cache needs to observe the instance.
const reservationLifetime = time.Minute

// reserve reserves a host for an instance that is about to be created, or returns the instance that has just reserved it.
func (h *Ownership) reserve(ip netip.Addr, to types.NamespacedName, now time.Time) (holder types.NamespacedName, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reservations == nil {
		h.reservations = map[netip.Addr]reservation{}
	}
	for ip, g := range h.reservations {
		if now.Sub(g.at) > reservationLifetime {
			delete(h.reservations, ip)
		}
	}
	if g, taken := h.reservations[ip]; taken && g.to != to {
		return g.to, false
	}
	h.reservations[ip] = reservation{to: to, at: now}
	return to, true
}

// release frees the hosts of an instance that was not created or is being deleted.
func (h *Ownership) release(from types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ip, g := range h.reservations {
		if g.to == from {
			delete(h.reservations, ip)
		}
	}
}

// owners maps hosts to their instances, without the instances for which except returns true. A host is identified by the address at which it is
// reached, which is in known, and by the address that it reported.
func owners(known resolved, instances map[string]*v1alpha1.WindowsInstance, except func(*v1alpha1.WindowsInstance) bool) map[netip.Addr]string {
	owner := map[netip.Addr]string{}
	for _, i := range sorted(instances) {
		if except(i) {
			continue
		}
		reported, _ := netip.ParseAddr(i.Status.NodeIP) // invalid if there is none
		for _, ip := range []netip.Addr{known[i.Spec.Address].ip(), reported} {
			if ip.IsValid() && owner[ip] == "" {
				owner[ip] = "WindowsInstance " + i.Name
			}
		}
	}
	return owner
}

// addressesOf returns the addresses and names at which instances are reached.
func addressesOf(instances map[string]*v1alpha1.WindowsInstance) (keys []string) {
	for _, i := range instances {
		keys = append(keys, i.Spec.Address)
	}
	return keys
}

// higherPriority returns the hosts that sources of higher priority than the given one announce.
func (h *Ownership) higherPriority(ctx context.Context, than string) map[netip.Addr]Announcement {
	requested := map[netip.Addr]Announcement{}
	for _, announcer := range h.Announcers {
		for _, a := range announcer.Announced(ctx) {
			if _, taken := requested[a.Address]; !taken && rank(a.source) < rank(than) {
				requested[a.Address] = a
			}
		}
	}
	return requested
}

// NamedBy returns the object whose host has a DNS name, other than the one with ID except; "" if there is none.
func (h *Ownership) NamedBy(ctx context.Context, name, except string) (holder string) {
	for _, announcer := range h.Announcers {
		for _, a := range announcer.Announced(ctx) {
			if a.ID != except && slices.Contains(a.Names, name) {
				return a.Object
			}
		}
	}
	return ""
}

// NamedByAny is NamedBy with Machines of every operating system, for the names of hosts that have no Node yet.
func (h *Ownership) NamedByAny(ctx context.Context, name, except string) (holder string) {
	for _, announcer := range h.Announcers {
		if holder := announcer.Named(ctx, name, except); holder != "" {
			return holder
		}
	}
	return ""
}

// rank orders the sources; the lowest wins.
func rank(source string) int {
	return slices.Index([]string{api.SourceMachine, api.SourceClusterAPI, api.SourceConfigMap}, source)
}

// sorted returns the instances by name, for deterministic results.
func sorted(instances map[string]*v1alpha1.WindowsInstance) []*v1alpha1.WindowsInstance {
	return slices.SortedFunc(maps.Values(instances), func(a, b *v1alpha1.WindowsInstance) int { return cmp.Compare(a.Name, b.Name) })
}

// allInstances returns the instances of all sources by name. They are shared with the cache and must not be changed.
func allInstances(ctx context.Context, reader client.Reader, namespace string) (map[string]*v1alpha1.WindowsInstance, error) {
	var list v1alpha1.WindowsInstanceList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing WindowsInstances: %w", err)
	}
	instances := map[string]*v1alpha1.WindowsInstance{}
	for i := range list.Items {
		instances[list.Items[i].Name] = &list.Items[i]
	}
	return instances, nil
}

// create creates the instance of a host, or returns the object that has just got the host.
func (h *Ownership) create(ctx context.Context, c client.Client, instance *v1alpha1.WindowsInstance, ip netip.Addr) (holder string, err error) {
	name := client.ObjectKeyFromObject(instance)
	if other, ok := h.reserve(ip, name, time.Now()); !ok {
		return "WindowsInstance " + other.Name, nil
	}
	if err := c.Create(ctx, instance); err != nil {
		h.release(name)
		return "", fmt.Errorf("creating WindowsInstance %s: %w", instance.Name, err)
	}
	return "", nil
}
