package nodestate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Claim is what is known about whether a Node is that of an instance's host.
type Claim int

// The claims.
const (
	// Unproven means that nothing speaks for it or against it yet: the Node has not reported an address.
	Unproven Claim = iota
	// Own means that it is.
	Own
	// Foreign means that another machine registered the Node.
	Foreign
)

// ClaimOf says whether a Node is that of an instance's host. The name proves nothing: a host is given an identity for a name before there is a
// Node of that name, and another machine may register it. What was once seen to be another machine's stays so, because the host could write its
// own address and key into the Node with the identity that it has.
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

// refersTo says whether a reference is to this very Node. One without a UID, of an earlier version of the operator, is to none.
func refersTo(ref *v1alpha1.NodeReference, node *corev1.Node) bool {
	return ref != nil && ref.UID != "" && ref.UID == node.UID
}

// Refer makes a reference to a Node; nil where there is none.
func Refer(node *corev1.Node) *v1alpha1.NodeReference {
	if node == nil {
		return nil
	}
	return &v1alpha1.NodeReference{Name: node.Name, UID: node.UID}
}

// HasHostKey says whether a Node has an SSH host key, in authorized_keys format, in its annotation.
func HasHostKey(node *corev1.Node, key string) bool {
	fields := strings.Fields(key)
	return len(fields) >= 2 && node.Annotations[api.AnnotationSSHHostKey] == fields[1]
}

// IsWindows says whether a Node is a Windows node, as deploy/admission.yaml sees it: by its label, which its kubelet may change, or by what the
// kubelet says of its system.
func IsWindows(node *corev1.Node) bool {
	return node.Labels[corev1.LabelOSStable] == "windows" || node.Status.NodeInfo.OperatingSystem == "windows"
}

// Described says of which system a Node is, and where, as far as it has reported; empty where it has not.
func Described(node *corev1.Node) string {
	known := slices.DeleteFunc([]string{node.Status.NodeInfo.OperatingSystem, InternalIP(node)}, func(s string) bool { return s == "" })
	if len(known) == 0 {
		return ""
	}
	return " (" + strings.Join(known, ", ") + ")"
}
