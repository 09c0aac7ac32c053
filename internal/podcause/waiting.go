package podcause

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/shorten"
)

// Waiting says why a container of a pod does not run, as the kubelet and containerd say it: a reason of this operator where they say
// enough, else theirs. It is none when all run, or have run.
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

// maxMasked is how much of a message is searched for secrets; mask leaves out what is beyond 16 KiB of a line.
const maxMasked = 12 << 10

// Shown is what may be shown of a message: without secrets, as mask finds them, and bounded. They are masked first, and what is too long for
// that loses whole words: a part of a secret would not look like one.
func Shown(message string, mask func(string) string) string {
	if len(message) > maxMasked {
		begin, end := message[:maxMasked/3], message[len(message)-maxMasked/3:]
		_, end, _ = strings.Cut(end, " ")
		message = begin[:strings.LastIndexByte(begin, ' ')+1] + "... " + end
	}
	return shorten.Middle(mask(message), shorten.Reported)
}
