// Package nodestate reads what a Node says of itself, for all who decide by it: whether its kubelet works, and where it is.
package nodestate

import (
	corev1 "k8s.io/api/core/v1"
)

// Ready is the kubelet's condition Ready; nil where it has not reported yet.
func Ready(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c
		}
	}
	return nil
}

// IsReady says whether the kubelet works.
func IsReady(node *corev1.Node) bool {
	ready := Ready(node)
	return ready != nil && ready.Status == corev1.ConditionTrue
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
