// Package clusterversion follows the version of the cluster's API servers, and says which release nodes get.
package clusterversion

import (
	"context"
	"slices"
	"sync"
	"time"

	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/release"
)

const (
	// askEvery is how often the API servers are asked for their version.
	askEvery = 30 * time.Second
	// settled is how long all API servers must show a later minor version before nodes follow: while a cluster is upgraded, the last of
	// the old servers can be away for a while and return.
	settled = 2 * time.Minute
)

// Releases says which of the payload's releases nodes get. It is safe for concurrent use.
type Releases struct {
	all     []release.Release
	servers func(context.Context) []string

	mu      sync.Mutex
	known   bool // an API server said its version
	current release.Release
	finding string
	later   time.Time // since when a later release would do
	changed []chan ctrlevent.GenericEvent
}

// New returns Releases of a payload. servers asks the API servers for their versions, and returns those that it gets.
func New(all []release.Release, servers func(context.Context) []string) *Releases {
	return &Releases{all: all, servers: servers, current: all[0], finding: release.ErrUnknown.Error()}
}

// Current returns the release that nodes get, and why no host may become a node with it; empty where hosts may.
func (r *Releases) Current() (current release.Release, finding string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current, r.finding
}

// Changed returns a channel that gets an event when what Current returns has changed. Each caller has its own.
func (r *Releases) Changed() chan ctrlevent.GenericEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := make(chan ctrlevent.GenericEvent, 1)
	r.changed = append(r.changed, changed)
	return changed
}

// Register asks the API servers once, so that controllers begin with the right release, and has the manager ask again now and then.
func (r *Releases) Register(ctx context.Context, m manager.Manager) error {
	r.Update(ctx)
	return kube.RunEvery(m, askEvery, r.Update)
}

// Update asks the API servers for their version.
func (r *Releases) Update(ctx context.Context) {
	servers := r.servers(ctx)
	if ctx.Err() != nil {
		return
	}
	chosen, err := release.Choose(r.all, servers)
	r.mu.Lock()
	defer r.mu.Unlock()
	was, finding := r.current.Version, ""
	switch {
	case err != nil:
		finding, r.later = err.Error(), time.Time{}
		if !r.known { // nodes keep what they have
			r.current = chosen
		}
	case r.settles(chosen):
		r.current, r.known, r.later = chosen, true, time.Time{}
	}
	if r.current.Version == was && finding == r.finding {
		return
	}
	r.finding = finding
	log.FromContext(ctx).Info("Release for nodes chosen", "version", r.current.Version, "kubelet", r.current.Kubelet, "apiServers", servers, "finding", finding)
	for _, changed := range r.changed {
		kube.Notify(changed)
	}
}

// settles tells whether nodes get a release now: an earlier one at once, because kubelets must not be newer than an API server, and a
// later one after a while.
func (r *Releases) settles(chosen release.Release) bool {
	isLater := r.known && r.index(chosen) > r.index(r.current)
	switch {
	case !isLater:
		r.later = time.Time{}
		return true
	case r.later.IsZero():
		r.later = time.Now()
	}
	return time.Since(r.later) >= settled
}

// index is the place of a release among all, which are the oldest first.
func (r *Releases) index(of release.Release) int {
	return slices.IndexFunc(r.all, func(one release.Release) bool { return one.Version == of.Version })
}
