// Package nodestate reads what a Node says of itself, for all who decide by it: its conditions, whether its kubelet works, and where it is.
package nodestate

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/windowsbuild"
)

// Condition is a condition of a Node; nil where it has none of that type.
func Condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// Ready is the kubelet's condition Ready; nil where it has not reported yet.
func Ready(node *corev1.Node) *corev1.NodeCondition { return Condition(node, corev1.NodeReady) }

// IsReady says whether the kubelet works.
func IsReady(node *corev1.Node) bool {
	ready := Ready(node)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// BrokenAfter is how long a node must not have been Ready to count as broken: longer than a host takes to restart and install updates, and
// than most outages between nodes and the API server last.
const BrokenAfter = 10 * time.Minute

// NotReadySince returns since when the node has not been Ready, by the clock of whoever wrote the condition; ok is false for one that is. A
// node that has never reported has not been Ready since it was created.
func NotReadySince(node *corev1.Node) (since time.Time, ok bool) {
	switch ready := Ready(node); {
	case ready == nil:
		return node.CreationTimestamp.Time, true
	case ready.Status == corev1.ConditionTrue:
		return time.Time{}, false
	default:
		return ready.LastTransitionTime.Time, true
	}
}

// InternalIP is the Node's first internal address; empty where it has not reported one.
func InternalIP(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// WaitsForCloud says whether the controller of a cloud has yet to initialize the Node. It gets no pods before.
func WaitsForCloud(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.TaintUninitialized })
}

// IsBootID says whether a text can name a start of Windows: a few digits, or the UUID of another system.
func IsBootID(text string) bool {
	return text != "" && len(text) <= 64 && strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
}

// WindowsBuild is the build of Windows that the node's kubelet reports; zero where it reports none.
func WindowsBuild(node *corev1.Node) windowsbuild.Build {
	b, err := windowsbuild.Parse(node.Status.NodeInfo.KernelVersion)
	if err != nil {
		return 0
	}
	return b
}
