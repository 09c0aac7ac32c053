// Package nodestate reads a Node's state for all packages that depend on it: conditions, whether the kubelet works, and addresses.
package nodestate

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Condition returns a condition of a Node; nil if there is none of that type.
func Condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// Ready returns the kubelet's condition Ready; nil before its first report.
func Ready(node *corev1.Node) *corev1.NodeCondition { return Condition(node, corev1.NodeReady) }

// IsReady reports whether the kubelet works.
func IsReady(node *corev1.Node) bool {
	ready := Ready(node)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// BrokenAfter is how long a node must be not Ready to count as broken: longer than a host takes to restart and install updates, and longer than most
// outages between nodes and the API server.
const BrokenAfter = 10 * time.Minute

// NotReadySince returns when the node stopped being Ready, by the clock of the condition's writer; ok is false if it is Ready. A node that has
// never reported counts from its creation.
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

// InternalIP returns the Node's first internal address; empty if none is reported.
func InternalIP(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// WaitsForCloud reports whether a cloud's controller has yet to initialize the Node. Until then, it gets no pods.
func WaitsForCloud(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.TaintUninitialized })
}

// IsForImages reports whether a taint keeps pods off a node until it has pulled images.
func IsForImages(t corev1.Taint) bool { return t.Key == api.TaintImages }

// IsBootID reports whether text is a valid boot ID: up to 64 letters, digits and hyphens, which covers Windows' numbers and the UUIDs of other
// systems.
func IsBootID(text string) bool {
	return text != "" && len(text) <= 64 && strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
}

// WindowsBuild returns the Windows build that the node's kubelet reports; zero if there is none.
func WindowsBuild(node *corev1.Node) windowsbuild.Build {
	b, err := windowsbuild.Parse(node.Status.NodeInfo.KernelVersion)
	if err != nil {
		return 0
	}
	return b
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
