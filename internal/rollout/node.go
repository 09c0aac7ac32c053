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
	"github.com/windows-machine-config/wmco/internal/nodestate"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// Node is what of a Node matters here.
type Node struct {
	Name string
	// Ready is what its kubelet says; Silent, that nobody hears from it; WaitsForCloud, that its cloud has not initialized it yet.
	Ready, Silent, WaitsForCloud bool
	// NotReadySince is since when it has not been Ready; zero where it is. WorksSince is since when it has been Ready with healthy services,
	// and SickSince since when it has said itself that one of the two is not so; zero where that does not hold.
	NotReadySince, WorksSince, SickSince time.Time
	// Unschedulable says that it is cordoned, CordonedFor for which action we did so: empty where somebody else did.
	Unschedulable bool
	CordonedFor   v1alpha1.PlanAction
	// Version that it reports, Desired the one it was told to have, Kubelet the version of its kubelet.
	Version, Desired, Kubelet string
	// BootID is the start of Windows that its kubelet reports, ReportedBoot the one of which RebootPending tells: another one as long as
	// WICD has not looked since the last start.
	BootID, ReportedBoot string
	// Unhealthy says which service does not work, UpdateFailed why the node went back to its version, RebootPending what Windows
	// waits for a restart for.
	Unhealthy, UpdateFailed, RebootPending string
	// RebootAsked is the annotation by which a user asks for a restart, with a value even where the user gave none.
	RebootAsked string
	// True are the types of the conditions that are True.
	True map[string]bool
}

// NodeOf reads a Node.
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
		BootID:        node.Status.NodeInfo.BootID,
		WaitsForCloud: nodestate.WaitsForCloud(node),
		True:          map[string]bool{},
	}
	if id := node.Annotations[api.AnnotationBootID]; nodestate.IsBootID(id) {
		n.ReportedBoot = id
	}
	if value, asked := node.Annotations[api.AnnotationReboot]; asked {
		n.RebootAsked = "asked " + value
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

// readHealth reads since when the node has worked, or has said that it does not.
func (n *Node) readHealth(node *corev1.Node) {
	var changed time.Time
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, api.ConditionServicesHealthy} {
		c := nodestate.Condition(node, kind)
		switch {
		case c == nil:
		case c.Status != corev1.ConditionFalse:
			changed = later(changed, c.LastTransitionTime.Time)
		case n.SickSince.IsZero() || c.LastTransitionTime.Time.Before(n.SickSince):
			n.SickSince = c.LastTransitionTime.Time
		}
	}
	if n.Ready && n.Unhealthy == "" {
		n.WorksSince = changed
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Broken says whether the node has not been Ready for long enough to be acted upon as such.
func (n *Node) Broken(now time.Time) bool {
	return !n.Ready && !n.NotReadySince.IsZero() && now.Sub(n.NotReadySince) >= nodestate.BrokenAfter
}

func (n *Node) read(c corev1.NodeCondition) {
	isTrue := c.Status == corev1.ConditionTrue
	n.True[string(c.Type)] = isTrue
	switch c.Type {
	case api.ConditionServicesHealthy:
		if c.Status == corev1.ConditionFalse {
			n.Unhealthy = shorten.Text(c.Message, shorten.Reported)
		}
	case api.ConditionUpdated:
		if c.Status == corev1.ConditionFalse {
			n.UpdateFailed = shorten.Text(c.Message, shorten.Reported)
		}
	case api.ConditionNodeRebootRequired:
		if isTrue {
			n.RebootPending = shorten.Text(strings.TrimPrefix(c.Message, api.RebootPendingPrefix), shorten.Reported)
		}
	}
}

// Same says whether nothing that matters here differs.
func (n *Node) Same(o *Node) bool {
	return reflect.DeepEqual(n, o)
}

// out says that the node takes no pods: it is cordoned, not Ready, or waits for its cloud.
func (n *Node) out() bool { return !n.Ready || n.Unschedulable || n.WaitsForCloud }

// Verify says whether the node works after an action: waits is empty when it does. Failed says why it never will without
// somebody's help. Gates are types of conditions that must be True on a node that is to be in service; kubelet is the version that
// its kubelet must report, empty for any.
func Verify(m v1alpha1.Maintenance, n *Node, gates []string, kubelet string) (waits, failed string) {
	if n == nil {
		return "the Node is not there", ""
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
	case v1alpha1.ActionReboot:
		if n.BootID == m.BootID {
			return "the host has not restarted yet", ""
		}
		if m.BootID != "" && n.ReportedBoot != n.BootID {
			return "WICD has not reported since the restart", ""
		}
	}
	return n.working(gates), ""
}

// working says what keeps the node from working; empty when nothing does.
func (n *Node) working(gates []string) string {
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
		return "conditions of the Node that readinessGates names are not True: " + strings.Join(closed, ", ")
	}
	return ""
}
