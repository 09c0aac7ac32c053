package rollout

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// Node is the part of a Node that this package needs.
type Node struct {
	Name string
	// Ready is what the kubelet reports; Silent means that the kubelet does not report; WaitsForCloud, that the cloud has not initialized the node
	// yet.
	Ready, Silent, WaitsForCloud bool
	// NotReadySince is when it stopped being Ready, WorksSince when it became Ready with healthy services, and UnhealthySince when it itself reported
	// otherwise. All are zero if the state does not apply.
	NotReadySince, WorksSince, UnhealthySince time.Time
	// Unschedulable means that it is cordoned; CordonedFor is the action for which the operator cordoned it, and empty if another client did.
	Unschedulable bool
	CordonedFor   v1alpha1.PlanAction
	// Version is the version that it reports, Desired the one that the operator ordered, Kubelet the kubelet's version.
	Version, Desired, Kubelet string
	// Build is that of Windows; zero if the kubelet reports none.
	Build windowsbuild.Build
	// BootID is the boot ID that the kubelet reports, ReportedBoot the one to which RebootPending belongs. They differ until WICD has checked Windows
	// after a restart.
	BootID, ReportedBoot string
	// Unhealthy describes a service that does not work, UpdateFailed why the node rolled back an update, RebootPending why Windows needs a restart.
	Unhealthy, UpdateFailed, RebootPending string
	// RebootRequested is the user's reboot annotation, non-empty even if its value is empty.
	RebootRequested string
	// Offers are the Windows updates that can be installed now. Installation is the state of the last one that the operator ordered.
	Offers       []windowsupdate.Offer
	Installation windowsupdate.Installation
	// Labels are those of the Node.
	Labels map[string]string
	// True has the types of the conditions that are True.
	True map[string]bool
}

// NodeOf converts a Node; nil returns nil.
func NodeOf(node *corev1.Node) *Node {
	if node == nil {
		return nil
	}
	n := &Node{
		Name:          node.Name,
		Unschedulable: node.Spec.Unschedulable,
		CordonedFor:   v1alpha1.PlanAction(node.Annotations[api.AnnotationCordoned]),
		Version:       node.Annotations[api.AnnotationVersion],
		Desired:       node.Annotations[api.AnnotationDesiredVersion],
		Kubelet:       node.Status.NodeInfo.KubeletVersion,
		Build:         nodestate.WindowsBuild(node),
		BootID:        node.Status.NodeInfo.BootID,
		WaitsForCloud: nodestate.WaitsForCloud(node),
		Labels:        node.Labels,
		True:          map[string]bool{},
	}
	n.readUpdates(node.Annotations[api.AnnotationWindowsUpdates])
	if id := node.Annotations[api.AnnotationBootID]; nodestate.IsBootID(id) {
		n.ReportedBoot = id
	}
	if value, requested := node.Annotations[api.AnnotationReboot]; requested {
		n.RebootRequested = "asked " + value
	}
	if ready := nodestate.Ready(node); ready != nil {
		n.Ready, n.Silent = ready.Status == corev1.ConditionTrue, ready.Status == corev1.ConditionUnknown
	}
	n.NotReadySince, _ = nodestate.NotReadySince(node)
	for _, c := range node.Status.Conditions {
		n.read(c)
	}
	n.readHealth(node)
	return n
}

// readUpdates reads the summary that the host writes. An unreadable one offers nothing.
func (n *Node) readUpdates(summary string) {
	if !strings.Contains(summary, `"offers"`) && !strings.Contains(summary, `"installation"`) { // each plan reads all nodes
		return
	}
	s, err := windowsupdate.ParseSummary(summary)
	if err != nil {
		return
	}
	n.Offers = s.Offers
	if s.Installation != nil {
		n.Installation = *s.Installation
	}
}

func (n *Node) readHealth(node *corev1.Node) {
	var changed time.Time
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, api.ConditionServicesHealthy} {
		c := nodestate.Condition(node, kind)
		switch {
		case c == nil:
		case c.Status != corev1.ConditionFalse:
			changed = nodestate.Later(changed, c.LastTransitionTime.Time)
		case n.UnhealthySince.IsZero() || c.LastTransitionTime.Time.Before(n.UnhealthySince):
			n.UnhealthySince = c.LastTransitionTime.Time
		}
	}
	if n.Ready && n.Unhealthy == "" {
		n.WorksSince = changed
	}
}

// Broken reports whether the node has not been Ready for nodestate.BrokenAfter.
func (n *Node) Broken(now time.Time) bool {
	return !n.Ready && !n.NotReadySince.IsZero() && now.Sub(n.NotReadySince) >= nodestate.BrokenAfter
}

func (n *Node) read(c corev1.NodeCondition) {
	isTrue := c.Status == corev1.ConditionTrue
	n.True[string(c.Type)] = isTrue
	switch c.Type {
	case api.ConditionServicesHealthy:
		if c.Status == corev1.ConditionFalse {
			n.Unhealthy = truncate.Text(c.Message, truncate.Reported)
		}
	case api.ConditionUpdated:
		if c.Status == corev1.ConditionFalse {
			n.UpdateFailed = truncate.Text(c.Message, truncate.Reported)
		}
	case api.ConditionNodeRebootRequired:
		if isTrue {
			n.RebootPending = truncate.Text(strings.TrimPrefix(c.Message, api.RebootPendingPrefix), truncate.Reported)
		}
	}
}

// OffersAll reports whether the node offers all of these updates.
func (n *Node) OffersAll(kbs []string) bool {
	for _, kb := range kbs {
		if !slices.ContainsFunc(n.Offers, func(o windowsupdate.Offer) bool { return o.KB == kb }) {
			return false
		}
	}
	return true
}

// Same reports whether both nodes are equal for this package.
func (n *Node) Same(o *Node) bool {
	return reflect.DeepEqual(n, o)
}

// isOutOfService reports whether the node takes no new pods: it is cordoned, not Ready, or waits for its cloud.
func (n *Node) isOutOfService() bool { return !n.Ready || n.Unschedulable || n.WaitsForCloud }

// Verify checks whether the node works after an action: waitsFor is empty if it does; failed explains why it cannot work without user action. Gates are
// types of conditions that must be True; kubelet is the version that the kubelet must report, or empty.
func Verify(m v1alpha1.Maintenance, n *Node, gates []string, kubelet string) (waitsFor, failed string) {
	if n == nil {
		return "the Node does not exist", ""
	}
	switch m.Action {
	case v1alpha1.ActionUpgrade:
		if n.Version != m.Version {
			if n.UpdateFailed != "" && n.Desired == m.Version {
				return "", n.UpdateFailed
			}
			return fmt.Sprintf("WICD has not reported version %s yet", m.Version), ""
		}
		if kubelet != "" && n.Kubelet != kubelet {
			return fmt.Sprintf("the kubelet still reports version %s, not %s", n.Kubelet, kubelet), ""
		}
	case v1alpha1.ActionPatch:
		if m.BootID != "" && n.BootID != m.BootID && n.ReportedBoot != n.BootID {
			return "WICD has not reported since the restart", ""
		}
	case v1alpha1.ActionReboot:
		if n.BootID == m.BootID {
			return "the host has not restarted yet", ""
		}
		if m.BootID != "" && n.ReportedBoot != n.BootID {
			return "WICD has not reported since the restart", ""
		}
	}
	return n.NotWorking(gates), ""
}

// NotWorking returns why the node does not work; empty if it does.
func (n *Node) NotWorking(gates []string) string {
	if !n.Ready {
		return "the node is not Ready"
	}
	if n.WaitsForCloud {
		return "the node's cloud has not initialized it (taint " + api.TaintUninitialized + ")"
	}
	if n.Unhealthy != "" {
		return n.Unhealthy
	}
	var closed []string
	for _, gate := range gates {
		if !n.True[gate] {
			closed = append(closed, gate)
		}
	}
	if len(closed) > 0 {
		slices.Sort(closed)
		return "conditions in readinessGates are not True on the Node: " + strings.Join(closed, ", ")
	}
	return ""
}
