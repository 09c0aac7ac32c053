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

type need struct {
	host         *Host
	action       v1alpha1.PlanAction
	disruption   v1alpha1.PlanDisruption
	reason       string
	requestToken string
	// updates are the articles that a Patch installs, as in Next. heldReason and held are why it may install none.
	updates, heldReason, held string
}

// disrupts reports whether the pods must leave the node.
func (n need) disrupts() bool { return cost(n.disruption) >= cost(v1alpha1.DisruptionDrain) }

func (n need) changesVersion() bool {
	return n.action == v1alpha1.ActionUpgrade || n.action == v1alpha1.ActionJoin && n.host.Former
}

// counts reports whether the action may take a node out of service, and therefore needs a place in the budget. An upgrade that only restarts services
// counts, too, because it may fail. The removal of a broken node does not count: the user requested it, and the node serves no pods.
func (n need) counts() bool {
	return n.host.Node != nil && (n.disrupts() || n.action == v1alpha1.ActionUpgrade)
}

// needOf returns the action that a host needs, if any. Updates come with a restart that Windows requires, and last otherwise. A host that can be
// replaced needs nothing else.
func (p *planner) needOf(h *Host) (need, bool) {
	replace, replaces := p.replaceNeed(h)
	if replaces {
		held, _ := p.replacement(replace)
		failed, _ := p.failed(replace)
		if held == "" && failed == "" {
			return replace, true
		}
	}
	n, needed := needOf(p.Policy, h, p.Now)
	if needed && (n.action != v1alpha1.ActionReboot || n.requestToken != "" || h.Maintenance != nil) {
		return n, true
	}
	if patch, patches := p.patchNeed(h); patches && (!needed || patch.updates != "") {
		return patch, true
	}
	if !needed && replaces {
		return replace, true
	}
	return n, needed
}

// needOf returns the action that a host needs without updates, if any. Maintenance in progress comes first, except on a host that leaves.
func needOf(p Policy, h *Host, now time.Time) (need, bool) {
	n := need{host: h, disruption: v1alpha1.DisruptionNone}
	switch {
	case h.Leaving:
		n.action, n.reason = v1alpha1.ActionLeave, "the WindowsInstance is being deleted"
		if h.hasPods(now) {
			n.disruption = v1alpha1.DisruptionDrain
		}
	case h.Maintenance != nil:
		n.action, n.disruption, n.reason = h.Maintenance.Action, h.Maintenance.Disruption, h.Maintenance.Message
		n.requestToken, n.updates = h.Maintenance.RequestToken, strings.Join(h.Maintenance.Updates, updatesSeparator)
	case h.AdoptionPending:
		n.action, n.disruption, n.reason = v1alpha1.ActionUpgrade, v1alpha1.DisruptionDrain, "the node was configured before its WindowsInstance was created"
	case h.ReplaceReason != "":
		n.action, n.disruption, n.reason = v1alpha1.ActionReplace, v1alpha1.DisruptionDrain, h.ReplaceReason
	case h.Node == nil && h.Former: // it registers, or joins again as planned
		n.action, n.reason = v1alpha1.ActionJoin, "the host has another version, and its Node does not exist"
	case !h.Joined:
		plan := JoinPlan()
		n.action, n.disruption, n.reason = plan.Action, plan.Disruption, plan.Message
	case h.Node == nil:
		return n, false // it registers, or joins again
	default:
		return nodeNeed(p, n)
	}
	return n, true
}

// hasPods reports whether the node must be drained before its host leaves, because it serves or may serve again. The pods of a broken node are
// removed with it, and so are those of a silent node whose host is released.
func (h *Host) hasPods(now time.Time) bool {
	return h.Node != nil && !h.Node.Broken(now) && (h.Node.Ready || !h.Released)
}

// RebootMayHelp reports whether a restart that Windows requires is worthwhile: WICD has reported it since the last start, with causes that did not
// exist before the last restart.
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

// JoinPlan returns the plan for a host that is not a node yet, while nothing else is known about it.
func JoinPlan() v1alpha1.Plan {
	return v1alpha1.Plan{Action: v1alpha1.ActionJoin, Disruption: v1alpha1.DisruptionNone, Message: "the host is not a node yet"}
}

func nodeNeed(p Policy, n need) (need, bool) {
	h, node := n.host, n.host.Node
	switch {
	case node.RebootRequested != "":
		n.action, n.disruption, n.requestToken = v1alpha1.ActionReboot, v1alpha1.DisruptionReboot, node.RebootRequested
		n.reason = "requested by annotation " + api.AnnotationReboot + " of the Node"
	case node.Version != "" && node.Version != p.Version && p.Version != "":
		n.action = v1alpha1.ActionStage
		n.reason = p.upgradeReason(node)
		if h.Staged {
			n.action, n.disruption = v1alpha1.ActionUpgrade, h.Disruption
		}
	case p.Reboots && h.RebootMayHelp():
		n.action, n.disruption, n.reason = v1alpha1.ActionReboot, v1alpha1.DisruptionReboot, api.RebootPendingPrefix+node.RebootPending
	default:
		return n, false
	}
	return n, true
}

// upgradeReason describes the version change, and names the cluster's upgrade as the cause if the kubelet's minor version changes.
func (p Policy) upgradeReason(node *Node) string {
	reason := fmt.Sprintf("from version %s to %s", node.Version, p.Version)
	previous, err1 := version.ParseGeneric(node.Kubelet)
	current, err2 := version.ParseGeneric(p.Kubelet)
	if err1 != nil || err2 != nil || previous.Major() == current.Major() && previous.Minor() == current.Minor() {
		return reason
	}
	return fmt.Sprintf("the cluster's version changed, so the kubelet changes from %s to %s: %s", node.Kubelet, p.Kubelet, reason)
}

// busy reports whether an action on the host is in progress or granted.
func (h *Host) busy() bool { return h.Maintenance != nil || h.Granted != "" }

func (h *Host) upgrading() bool {
	return h.Granted == v1alpha1.ActionUpgrade || h.Maintenance != nil && h.Maintenance.Action == v1alpha1.ActionUpgrade
}

func (h *Host) isOutOfService() bool { return h.Node != nil && h.Node.isOutOfService() || h.lostNode() }

// lostNode reports whether the Node was deleted during an action that ends with a working node. It counts as out of service until it registers again.
func (h *Host) lostNode() bool {
	return h.Node == nil && h.Maintenance != nil && !h.Leaving && NeedsNode(h.Maintenance.Action)
}

// NeedsNode reports whether an action ends with the node it began with. Others end without a node, or with another one.
func NeedsNode(a v1alpha1.PlanAction) bool {
	return a == v1alpha1.ActionUpgrade || a == v1alpha1.ActionReboot || a == v1alpha1.ActionPatch
}
