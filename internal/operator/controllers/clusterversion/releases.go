// Package clusterversion follows the version of the cluster's API servers and chooses the release for nodes.
package clusterversion

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
)

const (
	// queryInterval is how often the API servers are queried for their version.
	queryInterval = 30 * time.Second
	// settled is how long all API servers must report a later minor version before nodes follow: during a cluster upgrade, the last of the old
	// servers can be down for a while and return.
	settled = 2 * time.Minute
)

// Releases chooses the release of the payload that nodes get. It is safe for concurrent use.
type Releases struct {
	all     []kubeversions.Release
	servers func(context.Context) []string
	// kubelets returns the versions that Windows nodes report.
	kubelets func(context.Context) ([]string, error)

	mu    sync.Mutex
	known bool // an API server has reported its version
	// starting explains why nodes have not been upgraded to release heldFrom since the operator started; empty if they need not wait.
	starting, heldFrom string
	current            kubeversions.Release
	finding            string
	allowedSince       time.Time // when a later release was first allowed
	changed            []chan ctrlevent.GenericEvent
}

// New returns Releases of a payload. servers returns the versions of the API servers that answer; kubelets returns the versions that Windows nodes
// report.
func New(all []kubeversions.Release, servers func(context.Context) []string, kubelets func(context.Context) ([]string, error)) *Releases {
	return &Releases{all: all, servers: servers, kubelets: kubelets, current: all[0], finding: kubeversions.ErrUnknown.Error()}
}

// Current returns the release for nodes, and why no host may become a node with it; empty if hosts may.
func (r *Releases) Current() (current kubeversions.Release, finding string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current, r.finding
}

// Changed returns a channel that receives an event when the result of Current has changed. Each caller has its own channel.
func (r *Releases) Changed() chan ctrlevent.GenericEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := make(chan ctrlevent.GenericEvent, 1)
	r.changed = append(r.changed, changed)
	return changed
}

// Register queries the API servers once, so that controllers start with the right release, and makes the manager repeat that every queryInterval.
func (r *Releases) Register(ctx context.Context, m manager.Manager) error {
	r.Update(ctx)
	return kube.RunEvery(m, queryInterval, r.Update)
}

// Update queries the API servers for their version and chooses the release.
func (r *Releases) Update(ctx context.Context) {
	servers := r.servers(ctx)
	if ctx.Err() != nil {
		return
	}
	chosen, err := kubeversions.Choose(r.all, servers)
	current, held := chosen, ""
	if err == nil && !r.isKnown() {
		current, held, err = r.first(ctx, chosen)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	previous, finding := r.current.Version, ""
	switch {
	case err != nil:
		finding, r.allowedSince = err.Error(), time.Time{}
		if !r.known { // nodes keep their release
			r.current = current
		}
	case held != "":
		r.current, r.known, r.allowedSince, finding = current, true, time.Now(), held
		r.starting, r.heldFrom = held, chosen.Version
	case r.mayAdopt(chosen):
		r.current, r.known, r.allowedSince = chosen, true, time.Time{}
		r.starting, r.heldFrom = "", ""
	default:
		finding = r.starting
	}
	if r.current.Version == previous && finding == r.finding {
		return
	}
	r.finding = finding
	log.FromContext(ctx).Info("Selected kubelet version", "version", r.current.Version, "kubelet", r.current.Kubelet, "apiServers", servers, "finding", finding)
	for _, changed := range r.changed {
		kube.Notify(changed)
	}
}

func (r *Releases) isKnown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known
}

// first returns the initial release, once the first API servers have answered, and why nodes stay at it; empty if they need not wait. An operator
// that starts during a cluster upgrade may miss an old server that is down. Nodes therefore go to a later minor version than any of them has only
// after the settled time. Until then they stay as they are: otherwise some would be upgraded twice.
func (r *Releases) first(ctx context.Context, chosen kubeversions.Release) (current kubeversions.Release, held string, err error) {
	reported, err := r.kubelets(ctx)
	if err != nil {
		return r.all[0], "", err
	}
	newest := newestOf(reported)
	target, err := version.ParseGeneric(chosen.Kubelet)
	if err != nil || newest == nil || version.MajorMinor(newest.Major(), newest.Minor()).AtLeast(version.MajorMinor(target.Major(), target.Minor())) {
		return chosen, "", nil // a payload without versions, a cluster without nodes, or nodes that already have it
	}
	current, _ = kubeversions.Choose(r.all, []string{newest.String()})
	return current, fmt.Sprintf("nodes are upgraded from kubelet %d.%d to %s once all API servers have supported it for %s", newest.Major(), newest.Minor(), chosen.Kubelet, settled), nil
}

// newestOf returns the newest of the versions that can be parsed, or nil.
func newestOf(versions []string) (newest *version.Version) {
	for _, text := range versions {
		if v, err := version.ParseGeneric(text); err == nil && (newest == nil || newest.LessThan(v)) {
			newest = v
		}
	}
	return newest
}

// mayAdopt reports whether nodes get a release now: an earlier one immediately, because kubelets must not be newer than an API server, and a later
// one after the settled time.
func (r *Releases) mayAdopt(chosen kubeversions.Release) bool {
	isLater := r.known && (r.index(chosen) > r.index(r.current) || chosen.Version == r.heldFrom)
	switch {
	case !isLater:
		r.allowedSince = time.Time{}
		return true
	case r.allowedSince.IsZero():
		r.allowedSince = time.Now()
	}
	return time.Since(r.allowedSince) >= settled
}

// index returns the position of a release in all, which has the oldest first.
func (r *Releases) index(of kubeversions.Release) int {
	return slices.IndexFunc(r.all, func(candidate kubeversions.Release) bool { return candidate.Version == of.Version })
}
