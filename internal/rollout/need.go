package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// need is the one action that a host needs next.
type need struct {
	host       *Host
	action     v1alpha1.PlanAction
	disruption v1alpha1.PlanDisruption
	why        string
	asked      string
}

// disrupts says whether pods have to leave for it.
func (n need) disrupts() bool { return cost(n.disruption) >= cost(v1alpha1.DisruptionDrain) }

// changesVersion says whether the host gets another version by it.
func (n need) changesVersion() bool {
	return n.action == v1alpha1.ActionUpgrade || n.action == v1alpha1.ActionJoin && n.host.Former
}

// counts says whether it takes, or may take, a node out of service, so that it needs a place of the budget and its turn. A new version that
// restarts services may fail, and is therefore brought to no more nodes at a time than may be out of service. The removal of a broken node
// does not count: the user asked for it, and it serves nobody.
func (n need) counts() bool {
	return n.host.Node != nil && (n.disrupts() || n.action == v1alpha1.ActionUpgrade)
}

// needOf says what a host needs, if anything. What has begun is finished first, but for a host that is to leave.
func needOf(p Policy, h *Host, now time.Time) (need, bool) {
	n := need{host: h, disruption: v1alpha1.DisruptionNone}
	switch {
	case h.Leaving:
		n.action, n.why = v1alpha1.ActionLeave, "the WindowsInstance is being deleted"
		if h.hasPods(now) {
			n.disruption = v1alpha1.DisruptionDrain
		}
	case h.UnderWay != nil:
		n.action, n.disruption, n.why = h.UnderWay.Action, h.UnderWay.Disruption, h.UnderWay.Message
		n.asked = h.UnderWay.RequestToken
	case h.AdoptionPending:
		n.action, n.disruption, n.why = v1alpha1.ActionUpgrade, v1alpha1.DisruptionDrain, "the node was configured before its host was announced"
	case h.Replace != "":
		n.action, n.disruption, n.why = v1alpha1.ActionReplace, v1alpha1.DisruptionDrain, h.Replace
	case h.Node == nil && h.Former: // it registers, or is joined again in its turn
		n.action, n.why = v1alpha1.ActionJoin, "the host has another version, and its Node is gone"
	case !h.Joined:
		plan := JoinPlan()
		n.action, n.disruption, n.why = plan.Action, plan.Disruption, plan.Message
	case h.Node == nil:
		return n, false // it registers, or is joined again
	default:
		return nodeNeed(p, n)
	}
	return n, true
}

// hasPods says whether pods have to leave the node before its host does: it serves, or may serve again. Those of a broken node go with it, and
// so do those of a silent one whose machine is gone, or which the user lets go as it is.
func (h *Host) hasPods(now time.Time) bool {
	return h.Node != nil && !h.Node.Broken(now) && (h.Node.Ready || !h.Released)
}

// RebootMayHelp says whether Windows waits for a restart that is worth it: it says so since its last start, and names causes that were not
// there before the last restart.
func (h *Host) RebootMayHelp() bool {
	if h.Node == nil || h.Node.RebootPending == "" || h.Node.ReportedBoot != h.Node.BootID {
		return false
	}
	if h.LastReboot == nil {
		return true
	}
	before := strings.Split(h.LastReboot.Causes, "; ")
	return slices.ContainsFunc(strings.Split(h.Node.RebootPending, "; "), func(cause string) bool { return !slices.Contains(before, cause) })
}

// JoinPlan is the plan for a host that is not a node yet, while nothing else is known of it.
func JoinPlan() v1alpha1.Plan {
	return v1alpha1.Plan{Action: v1alpha1.ActionJoin, Disruption: v1alpha1.DisruptionNone, Message: "the host is not a node yet"}
}

// nodeNeed says what a node needs that nothing is done with.
func nodeNeed(p Policy, n need) (need, bool) {
	h, node := n.host, n.host.Node
	switch {
	case node.RebootAsked != "":
		n.action, n.disruption, n.asked = v1alpha1.ActionReboot, v1alpha1.DisruptionReboot, node.RebootAsked
		n.why = "annotation " + api.AnnotationReboot + " of the Node asks for it"
	case node.Version != "" && node.Version != p.Version && p.Version != "":
		n.action = v1alpha1.ActionStage
		n.why = p.whyUpgrade(node)
		if h.Staged {
			n.action, n.disruption = v1alpha1.ActionUpgrade, h.Disruption
		}
	case p.Reboots && h.RebootMayHelp():
		n.action, n.disruption, n.why = v1alpha1.ActionReboot, v1alpha1.DisruptionReboot, api.RebootPendingPrefix+node.RebootPending
	default:
		return n, false
	}
	return n, true
}

// whyUpgrade says what the node's version becomes, and that it is the cluster that moved where its kubelet is of another minor version.
func (p Policy) whyUpgrade(node *Node) string {
	why := fmt.Sprintf("from version %s to %s", node.Version, p.Version)
	was, err1 := version.ParseGeneric(node.Kubelet)
	is, err2 := version.ParseGeneric(p.Kubelet)
	if err1 != nil || err2 != nil || was.Major() == is.Major() && was.Minor() == is.Minor() {
		return why
	}
	return fmt.Sprintf("the cluster's version moved, so the kubelet goes from %s to %s: %s", node.Kubelet, p.Kubelet, why)
}

// busy says that something is being done with the host, or was allowed to begin.
func (h *Host) busy() bool { return h.UnderWay != nil || h.Granted != "" }

// upgrading says that the host is on its way to another version.
func (h *Host) upgrading() bool {
	return h.Granted == v1alpha1.ActionUpgrade || h.UnderWay != nil && h.UnderWay.Action == v1alpha1.ActionUpgrade
}

// isOut says that the node of the host is out of service.
func (h *Host) isOut() bool { return h.Node != nil && h.Node.out() || h.lostNode() }

// lostNode says that somebody deleted the Node while something is done with the host that ends with a node that works. It is out of
// service until it registers again.
func (h *Host) lostNode() bool {
	return h.Node == nil && h.UnderWay != nil && !h.Leaving && NeedsNode(h.UnderWay.Action)
}

// NeedsNode says whether an action ends with the node it began with. Others end without it, or with another one.
func NeedsNode(a v1alpha1.PlanAction) bool {
	return a == v1alpha1.ActionUpgrade || a == v1alpha1.ActionReboot
}
