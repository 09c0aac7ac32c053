package podpolicy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/cniresult"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/policypipe"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// announcedFor is how long a pod that was announced, and of which libcni has cached no result, keeps its address: the runtime has given up
// by then.
const announcedFor = 10 * time.Minute

// pod is a pod that has, or will have, an endpoint on this host.
type pod struct {
	cniresult.Sandbox
	// since is when it got its addresses. The last pod with an address has it: libcni removes a result only after the address is free.
	since time.Time
}

// isIdentified reports whether the pod is known by namespace, name and UID.
func (p pod) isIdentified() bool {
	return namespaceName.MatchString(p.Namespace) && p.Name != "" && p.UID != ""
}

// String returns how messages name the pod.
func (p pod) String() string {
	if !p.isIdentified() {
		return "of sandbox " + p.Container
	}
	return p.Namespace + "/" + p.Name
}

// pods are the pods of this host. It is safe for concurrent use.
type pods struct {
	mu sync.Mutex
	// cached are those with a cached result, announced those that the network's plugin has announced before there is one, by sandbox.
	cached, announced map[string]pod
}

// announce adds a pod whose containers are about to start.
func (p *pods) announce(r policypipe.Request) (pod, error) {
	announced := pod{since: time.Now(), Sandbox: cniresult.Sandbox{Container: r.ContainerID, Namespace: r.Namespace, Name: r.Name, UID: r.UID}}
	for _, a := range r.Addresses {
		if a = a.Unmap(); a.Is4() {
			announced.Addresses = append(announced.Addresses, a)
		}
	}
	switch {
	case !announced.isIdentified() || r.ContainerID == "":
		return pod{}, fmt.Errorf("the pod has namespace %.64q, name %.64q, UID %.64q and sandbox %.80q; all are needed, as containerd passes them to plugins",
			r.Namespace, r.Name, r.UID, r.ContainerID)
	case len(announced.Addresses) == 0:
		return pod{}, fmt.Errorf("pod %s has the addresses %v; an IPv4 address is needed", announced, r.Addresses)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.announced == nil {
		p.announced = map[string]pod{}
	}
	p.announced[r.ContainerID] = announced
	return announced, nil
}

// read reads the cached results. unreadable is the number of those that cannot be read, or have no address.
func (p *pods) read(d hostapi.Disk) (unreadable int, err error) {
	names, err := d.List(desired.CNIResults)
	if err != nil {
		return 0, fmt.Errorf("listing %s: %w", desired.CNIResults, err)
	}
	cached := map[string]pod{}
	for _, name := range names {
		path := desired.CNIResults + `\` + name
		info, err := d.Stat(path)
		if err != nil {
			continue // removed in the meantime
		}
		b, err := d.ReadAtMost(path, cniresult.MaxSize)
		found, ok := cniresult.Decode(b)
		if err != nil || !ok {
			unreadable++
			continue
		}
		cached[found.Container] = pod{found, info.ModTime()}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cached = cached
	maps.DeleteFunc(p.announced, func(sandbox string, a pod) bool {
		_, isCached := cached[sandbox]
		return isCached || time.Since(a.since) > announcedFor
	})
	return unreadable, nil
}

// all returns the pods, the latest first.
func (p *pods) all() []pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.AppendSeq(slices.Collect(maps.Values(p.cached)), maps.Values(p.announced))
	slices.SortFunc(all, func(a, b pod) int { return b.since.Compare(a.since) })
	return all
}

// namespaces returns the namespaces of pods.
func namespaces(all []pod) map[string]bool {
	found := map[string]bool{}
	for _, p := range all {
		if p.isIdentified() {
			found[p.Namespace] = true
		}
	}
	return found
}

// byAddress returns the pod of each address. Pods are the latest first.
func byAddress(all []pod) map[netip.Addr]pod {
	found := map[netip.Addr]pod{}
	for _, p := range all {
		for _, a := range p.Addresses {
			if _, isTaken := found[a]; !isTaken {
				found[a] = p
			}
		}
	}
	return found
}
