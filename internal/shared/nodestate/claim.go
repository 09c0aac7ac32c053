package nodestate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Claim describes whether a Node belongs to an instance's host.
type Claim int

// The claims.
const (
	// Unproven means that there is no evidence yet: the Node has not reported an address.
	Unproven Claim = iota
	// Own means that the Node belongs to the host.
	Own
	// Foreign means that another machine registered the Node.
	Foreign
)

// ClaimOf returns whether a Node belongs to an instance's host. The name proves nothing: a host gets an identity for a name before a Node of that
// name exists, and another machine may register it. A Node that once was another machine's stays so, because the host could use its identity to write
// its own address and key into the Node.
func ClaimOf(i *v1alpha1.WindowsInstance, node *corev1.Node) Claim {
	st := &i.Status
	switch {
	case st.Hostname == "" || node.Name != st.Hostname:
		return Foreign
	case refersTo(st.NodeRef, node):
		return Own
	case refersTo(st.NodeConflict, node), !IsWindows(node):
		return Foreign
	case HasHostKey(node, st.HostKey), st.NodeIP != "" && InternalIP(node) == st.NodeIP:
		return Own
	case InternalIP(node) == "":
		return Unproven
	}
	return Foreign
}

// refersTo reports whether a reference is to this very Node. A reference without a UID, from an earlier version of the operator, matches none.
func refersTo(ref *v1alpha1.NodeReference, node *corev1.Node) bool {
	return ref != nil && ref.UID != "" && ref.UID == node.UID
}

// ReferenceTo returns a reference to a Node; nil for nil.
func ReferenceTo(node *corev1.Node) *v1alpha1.NodeReference {
	if node == nil {
		return nil
	}
	return &v1alpha1.NodeReference{Name: node.Name, UID: node.UID}
}

// HasHostKey reports whether the Node's annotation has an SSH host key, given in authorized_keys format.
func HasHostKey(node *corev1.Node, key string) bool {
	fields := strings.Fields(key)
	return len(fields) >= 2 && node.Annotations[api.AnnotationSSHHostKey] == fields[1]
}

// IsWindows reports whether a Node is a Windows node by the criteria of deploy/admission.yaml: its label, which its kubelet may change, or the system
// that the kubelet reports.
func IsWindows(node *corev1.Node) bool {
	return node.Labels[corev1.LabelOSStable] == "windows" || node.Status.NodeInfo.OperatingSystem == "windows"
}

// Describe returns the Node's reported operating system and address, in parentheses; empty if it has reported neither.
func Describe(node *corev1.Node) string {
	known := slices.DeleteFunc([]string{node.Status.NodeInfo.OperatingSystem, InternalIP(node)}, func(s string) bool { return s == "" })
	if len(known) == 0 {
		return ""
	}
	return " (" + strings.Join(known, ", ") + ")"
}
