package overlayleftovers

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
)

// If OVN-Kubernetes keeps writing the annotations, its configuration is wrong, and the operator would have to remove them forever.
const (
	// removals is the maximum number of removals on a Node within period.
	removals = 3
	period   = time.Hour
	// removalInterval is the minimum time between two removals: the processes of OVN-Kubernetes restart one after the other.
	removalInterval = 5 * time.Minute
	// subnetGrace is how long a Node may have no subnet in the hybrid overlay.
	subnetGrace = 2 * time.Minute
)

type overlay struct {
	enabled bool
	// ranges are those of Windows nodes, if known.
	ranges []netip.Prefix
}

// history is what was done to a Node.
type history struct {
	// removed is when its annotations were removed, within the last period.
	removed []time.Time
	// since is when it was first seen with annotations while the overlay was on; zero while it is off.
	since time.Time
	// reportedAt is when the last event was emitted.
	reportedAt time.Time
}

func (h history) afterCheck(enabled bool, now time.Time) history {
	recent := slices.DeleteFunc(slices.Clone(h.removed), func(t time.Time) bool { return now.Sub(t) >= period })
	switch {
	case !enabled:
		h.since = time.Time{}
	case h.since.IsZero():
		h.since = now
	}
	h.removed = recent
	return h
}

// reportOnce allows one event per period.
func (h history) reportOnce(later time.Duration, now time.Time) (action, time.Duration) {
	if !h.reportedAt.IsZero() && now.Sub(h.reportedAt) < period {
		return wait, later
	}
	return report, later
}

type action int

const (
	wait action = iota
	remove
	report
)

// decide returns what to do with a Node that has leftovers, and when to check again.
func decide(node *corev1.Node, current overlay, past history, now time.Time) (action, time.Duration) {
	past = past.afterCheck(current.enabled, now)
	subnet, ok := cluster.SubnetOf(node, v1alpha1.NetworkOVNHybridOverlay)
	switch {
	case !current.enabled:
		return wait, checkInterval // OVN-Kubernetes would write them again
	case node.Annotations[cluster.HybridSubnetAnnotation] == "":
		if remaining := subnetGrace - now.Sub(past.since); remaining > 0 {
			return wait, remaining
		}
		return past.reportOnce(checkInterval, now)
	case !ok || !isIn(subnet, current.ranges):
		return wait, checkInterval // OVN-Kubernetes replaces it
	case len(past.removed) >= removals:
		return past.reportOnce(period-now.Sub(past.removed[0]), now)
	case len(past.removed) > 0 && now.Sub(past.removed[len(past.removed)-1]) < removalInterval:
		return wait, removalInterval - now.Sub(past.removed[len(past.removed)-1])
	}
	return remove, 0
}
