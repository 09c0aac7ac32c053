package rollout

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// budget counts the nodes of hosts that are out of service, and those that we act on.
type budget struct {
	nodes, max int
	// out are nodes that take no pods, for whatever reason, or soon will not; acting those that we take them from, or did.
	out, acting int
	now         time.Time
}

func newBudget(f Fleet) *budget {
	b := &budget{now: f.Now}
	for i := range f.Hosts {
		h := &f.Hosts[i]
		if h.Node == nil && !h.lostNode() {
			continue
		}
		b.nodes++
		if h.isOut() || h.holdsPlace() || h.fellSick(f.Policy.Version) { // or is about to be
			b.out++
		}
		if h.holdsPlace() || h.Settles.After(f.Now) {
			b.acting++
		}
	}
	b.max = limit(f.Policy.MaxUnavailable, b.nodes)
	return b
}

// holdsPlace says that an action under way keeps the node out of service, or is about to take it out: also one on a node that was broken
// when it began, because that may serve again. Only a removal of a broken node holds none, unless it is cordoned for it.
func (h *Host) holdsPlace() bool {
	if h.Node == nil {
		return h.lostNode()
	}
	action := h.Granted
	if h.UnderWay != nil {
		action = h.UnderWay.Action
	}
	switch action {
	case v1alpha1.ActionUpgrade, v1alpha1.ActionReboot, v1alpha1.ActionReplace:
		return true
	case v1alpha1.ActionLeave:
		return h.Node.Ready || h.Node.CordonedFor != ""
	}
	return false
}

// limit is how many of the nodes may be out of service: at least one.
func limit(most intstr.IntOrString, nodes int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, nodes, false)
	if err != nil {
		return 1 // the API server lets nothing else in than a number or a percentage
	}
	return max(n, 1)
}

// allows says whether an action on the host may begin. One on a node that is out of service already takes a place like any other: somebody
// who cordoned it left its pods there, and a broken one may serve again.
func (b *budget) allows(h *Host) bool {
	others := b.acting
	if h.Settles.After(b.now) {
		others--
	}
	return others < b.max && (h.Node.out() || b.out < b.max)
}

// take counts a host whose action begins.
func (b *budget) take(h *Host) {
	if h.holdsPlace() {
		return // counted already
	}
	if !h.Settles.After(b.now) {
		b.acting++
	}
	if !h.Node.out() {
		b.out++
	}
}

// String says that the budget is used up. It names no count that changes, which would be written to every host that waits.
func (b *budget) String() string {
	return fmt.Sprintf("maxUnavailable allows %d of the Windows nodes to be out of service, and as many are, are about to be, or have just been drained", b.max)
}
