package bugreports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/podcause"
)

// podReports are what was said of pods on Windows nodes.
func podReports() []report {
	return []report{{
		link:  "https://github.com/containerd/containerd/issues/6989",
		input: "an image that has nothing for the build of the node",
		want:  api.EventImageForAnotherBuild,
		outcome: waiting("ErrImagePull", `rpc error: code = NotFound desc = failed to pull and unpack image `+
			`"mcr.microsoft.com/windows/servercore:ltsc2022": no match for platform in manifest: not found`),
	}}
}

// waiting is the cause that the product finds in what a kubelet says of a container that waits.
func waiting(reason, message string) func(*testing.T) string {
	return func(*testing.T) string {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Image: "x", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}}}
		return podcause.Waiting(pod).Reason
	}
}
