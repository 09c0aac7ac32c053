package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// budget counts the nodes of hosts that are out of service, and those that we act on.
type budget struct {
	nodes, max int
	// out are nodes that take no pods, for whatever reason, or soon will not; acting those that we take them from, or did.
	out, acting int
}

func newBudget(f Fleet) *budget {
	b := &budget{}
	for i := range f.Hosts {
		h := &f.Hosts[i]
		switch {
		case h.Node == nil && !h.lostNode():
			continue
		case h.isOut():
			b.out++
		case h.holdsPlace():
			b.out++ // it is about to be
		}
		b.nodes++
		if h.holdsPlace() {
			b.acting++
		}
	}
	b.max = limit(f.Policy.MaxUnavailable, b.nodes)
	return b
}

// holdsPlace says that an action under way keeps the node out of service, or is about to take it out. One on a node that was
// broken before does neither.
func (h *Host) holdsPlace() bool {
	if h.Node == nil {
		return h.lostNode()
	}
	action, disruption := h.Granted, h.Disruption
	if h.UnderWay != nil {
		action, disruption = h.UnderWay.Action, h.UnderWay.Disruption
	}
	switch action {
	case v1alpha1.ActionUpgrade:
	case v1alpha1.ActionReboot, v1alpha1.ActionLeave, v1alpha1.ActionReplace:
		disruption = v1alpha1.DisruptionDrain
	default:
		return false
	}
	isOurs := h.Node.CordonedFor != ""
	return isOurs || h.Node.Ready && (action == v1alpha1.ActionUpgrade || cost(disruption) >= cost(v1alpha1.DisruptionDrain))
}

// limit is how many of the nodes may be out of service: at least one.
func limit(most intstr.IntOrString, nodes int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, nodes, false)
	if err != nil {
		return 1 // the API server lets nothing else in than a number or a percentage
	}
	return max(n, 1)
}

// allows says whether an action on the host may begin: a node that is broken costs nothing more, one that somebody cordoned
// still has its pods.
func (b *budget) allows(h *Host) bool {
	if !h.Node.Ready {
		return true
	}
	return b.acting < b.max && (h.Node.out() || b.out < b.max)
}

// take counts a host whose action begins.
func (b *budget) take(h *Host) {
	if h.holdsPlace() || !h.Node.Ready {
		return // counted already, or costs nothing
	}
	b.acting++
	if !h.Node.out() {
		b.out++
	}
}

// String says that the budget is used up. It names no count that changes, which would be written to every host that waits.
func (b *budget) String() string {
	return fmt.Sprintf("maxUnavailable allows %d of the Windows nodes to be out of service, and as many are, or are about to be", b.max)
}
