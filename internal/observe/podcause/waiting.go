package podcause

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Waiting returns why a container of a pod does not run: one of the operator's reasons if the message of the kubelet or containerd is specific
// enough, otherwise theirs. It is empty if all containers run or have run.
func Waiting(pod *corev1.Pod) Cause {
	if pod.DeletionTimestamp != nil {
		return Cause{}
	}
	reason := ""
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		w := s.State.Waiting
		if w == nil || w.Reason == "PodInitializing" {
			continue
		}
		if w.Reason == "ContainerCreating" || w.Reason == "" {
			reason = "ContainerCreating"
			continue
		}
		return Cause{Reason: classify(w.Reason, w.Message), Message: "image " + s.Image + ": " + w.Message, Image: s.Image}
	}
	return Cause{Reason: reason}
}

// maxMasked limits the text that is searched for secrets; mask drops the part of a line beyond 16 KiB.
const maxMasked = 12 << 10

// DisplayText returns a message for display: masked and shortened. It masks before shortening, and drops whole words if the message is too long to
// mask, because part of a secret would not look like one.
func DisplayText(message string, mask func(string) string) string {
	if len(message) > maxMasked {
		begin, end := message[:maxMasked/3], message[len(message)-maxMasked/3:]
		_, end, _ = strings.Cut(end, " ")
		message = begin[:strings.LastIndexByte(begin, ' ')+1] + "... " + end
	}
	return truncate.Middle(mask(message), truncate.Reported)
}
