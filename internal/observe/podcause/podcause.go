// Package podcause finds why a pod for Windows does not start, from the pod and from the cluster's Windows nodes, RuntimeClasses and images. It
// does no I/O.
package podcause

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// maxMessage is the length of a long sentence; kubelets and users write parts of it.
const maxMessage = 700

// Cause is why a pod does not start.
type Cause struct {
	// Reason is empty if nothing is wrong, or the cause is unknown.
	Reason  string
	Message string
	// Image is the image for another build; its registry can be queried for its builds.
	Image string
	// Host is the build of the node that does not run the image; zero if the node does not report it.
	Host windowsbuild.Build
}

// Cluster is the information about the cluster.
type Cluster struct {
	// Nodes are the Windows nodes.
	Nodes []corev1.Node
	// Handlers maps RuntimeClasses to their handlers.
	Handlers map[string]string
}

// Of returns why a pod does not start. The first finding that needs a fix is the cause.
func Of(pod *corev1.Pod, known Cluster) Cause {
	if pod.DeletionTimestamp != nil || !forWindows(pod, known) {
		return Cause{}
	}
	for _, find := range []func(*corev1.Pod, Cluster) Cause{classMissing, containersWait, unscheduled, credentialSpecMissing, nodeNotInDomain} {
		if c := find(pod, known); c.Reason != "" {
			c.Message = truncate.Printable(truncate.Middle(c.Message, maxMessage), maxMessage)
			return c
		}
	}
	return Cause{}
}

// forWindows reports whether a pod is for Windows nodes. The API server adds the node selector of a RuntimeClass to the pod.
func forWindows(pod *corev1.Pod, known Cluster) bool {
	switch s := pod.Spec; {
	case s.OS != nil:
		return s.OS.Name == corev1.Windows
	case s.NodeName != "":
		return nodeOf(pod, known) != nil
	case s.RuntimeClassName != nil && strings.HasPrefix(known.Handlers[*s.RuntimeClassName], "runhcs-wcow-"):
		return true
	default:
		return s.NodeSelector[corev1.LabelOSStable] == "windows" || s.NodeSelector[corev1.LabelWindowsBuild] != ""
	}
}

// MayBeForWindows reports whether a pod may be for Windows nodes, judging by the pod alone.
func MayBeForWindows(pod *corev1.Pod) bool {
	s := pod.Spec
	if s.OS != nil {
		return s.OS.Name == corev1.Windows
	}
	return s.NodeName != "" || s.RuntimeClassName != nil || forWindows(pod, Cluster{})
}

// TooLarge reduces a pod's spec that is too large for finding a cause: it keeps the fields that select nodes.
func TooLarge(s corev1.PodSpec) corev1.PodSpec {
	kept := corev1.PodSpec{OS: s.OS, NodeName: s.NodeName, RuntimeClassName: s.RuntimeClassName, Hostname: tooLarge}
	for _, key := range []string{corev1.LabelOSStable, corev1.LabelWindowsBuild} {
		if value, ok := s.NodeSelector[key]; ok {
			if kept.NodeSelector == nil {
				kept.NodeSelector = map[string]string{}
			}
			kept.NodeSelector[key] = value
		}
	}
	return kept
}

// tooLarge is the Hostname of a spec that TooLarge returned. It is not a valid host name, so no pod can have it.
const tooLarge = "(too large)"

func isTooLarge(pod *corev1.Pod) bool { return pod.Spec.Hostname == tooLarge }

func nodeOf(pod *corev1.Pod, known Cluster) *corev1.Node {
	if i := slices.IndexFunc(known.Nodes, func(n corev1.Node) bool { return n.Name == pod.Spec.NodeName }); i >= 0 {
		return &known.Nodes[i]
	}
	return nil
}

// classMissing finds a RuntimeClass that was deleted after the pod was created: the API server rejects pods without their class.
func classMissing(pod *corev1.Pod, known Cluster) Cause {
	name := pod.Spec.RuntimeClassName
	if name == nil {
		return Cause{}
	}
	if _, exists := known.Handlers[*name]; exists {
		return Cause{}
	}
	return Cause{Reason: api.EventRuntimeClassMissing, Message: fmt.Sprintf("RuntimeClass %s no longer exists, and no kubelet starts the pod without it", *name)}
}

// containersWait evaluates what the kubelet reports about containers.
func containersWait(pod *corev1.Pod, known Cluster) Cause {
	c := Waiting(pod)
	switch {
	case c.Reason == "ImagePullBackOff" && isImageReason(Reported(pod).Reason): // between two attempts, older kubelets do not report the reason
		return Reported(pod)
	case !slices.Contains(api.PodReasons(), c.Reason):
		return Cause{}
	case c.Reason != api.EventImageForAnotherBuild:
		return c
	}
	node := nodeOf(pod, known)
	if node == nil {
		return c
	}
	if c.Host = nodestate.WindowsBuild(node); c.Host == 0 {
		return c
	}
	c.Message = fmt.Sprintf("image %s has no manifest for node %s, which has build %s", c.Image, node.Name, c.Host)
	if class := pod.Spec.RuntimeClassName; class != nil && known.Handlers[*class] == api.HandlerHyperVIsolation {
		c.Message += "; even with Hyper-V isolation, containerd pulls images for the build of the node"
	}
	return c
}

// For adds the builds that the image is for, according to its registry.
func (c Cause) For(current windowsbuild.Image) Cause {
	switch {
	case !current.ForWindows():
		c.Message += "; the image is not for Windows"
	case c.Host != 0 && current.RunsOn(c.Host): // it was pushed again, or the registry is wrong
		c.Message += "; its registry now reports one, which the node uses at its next attempt"
	case len(current.Builds) > 0:
		c.Message += "; the image is for " + current.String()
	}
	return c
}

// Reported returns the cause that the pod's annotation contains.
func Reported(pod *corev1.Pod) Cause {
	reason, message, _ := strings.Cut(pod.Annotations[api.AnnotationDoesNotStart], ": ")
	return Cause{Reason: reason, Message: message}
}
