package rollout

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// budget counts the nodes that are out of service and those that the operator acts on.
type budget struct {
	nodes, max int
	// outOfService counts nodes that take no new pods, for any reason, or soon will not; acting, those that the operator takes or has taken out of
	// service.
	outOfService, acting int
	now                  time.Time
}

func newBudget(f Fleet) *budget {
	b := &budget{now: f.Now}
	for i := range f.Hosts {
		h := &f.Hosts[i]
		if h.Node == nil && !h.lostNode() {
			continue
		}
		b.nodes++
		if h.isOutOfService() || h.holdsPlace() || h.failedSoon(f.Policy.Version) { // or soon will be
			b.outOfService++
		}
		if h.holdsPlace() || h.SettlesAt.After(f.Now) {
			b.acting++
		}
	}
	b.max = limit(f.Policy.MaxUnavailable, b.nodes)
	return b
}

// holdsPlace reports whether an action in progress keeps the node out of service or is about to take it out. This includes a node that was broken
// when the action began, because it may serve again. Only the removal of a broken node holds no place, unless the node is cordoned for it.
func (h *Host) holdsPlace() bool {
	if h.Node == nil {
		return h.lostNode()
	}
	action := h.Granted
	if h.Maintenance != nil {
		action = h.Maintenance.Action
	}
	switch action {
	case v1alpha1.ActionUpgrade, v1alpha1.ActionReboot, v1alpha1.ActionPatch, v1alpha1.ActionReplace:
		return true
	case v1alpha1.ActionLeave:
		return h.Node.Ready || h.Node.CordonedFor != ""
	}
	return false
}

// limit returns how many of the nodes may be out of service: at least one.
func limit(most intstr.IntOrString, nodes int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, nodes, false)
	if err != nil {
		return 1 // the API server accepts only a number or a percentage
	}
	return max(n, 1)
}

// allows reports whether an action on the host may begin. A node that is already out of service needs a place, too: the pods of a cordoned node still
// run, and a broken node may serve again.
func (b *budget) allows(h *Host) bool {
	others := b.acting
	if h.SettlesAt.After(b.now) {
		others--
	}
	return others < b.max && (h.Node.isOutOfService() || b.outOfService < b.max)
}

func (b *budget) reserve(h *Host) {
	if h.holdsPlace() {
		return // already counted
	}
	if !h.SettlesAt.After(b.now) {
		b.acting++
	}
	if !h.Node.isOutOfService() {
		b.outOfService++
	}
}

// String reports that the budget is exhausted. It omits changing counts, which would cause a write to every waiting host.
func (b *budget) String() string {
	return fmt.Sprintf("maxUnavailable is %d, and as many Windows nodes are out of service, about to be, or just drained", b.max)
}
