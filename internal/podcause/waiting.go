package podcause

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/mirrors"
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

// classify finds causes in what the kubelet and containerd say.
func classify(reason, message string) string {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(message, part) })
	}
	switch {
	case has("no match for platform", // images.Manifest of containerd
		"does not match the host operating system", // error 0xc0370101 of Windows
		"0xc0370101"):
		return api.EventImageForAnotherBuild
	case has("proxyconnect"): // net/http
		return api.EventProxyUnreachable
	case has(mirrors.RefusesCredentials, "401 Unauthorized", "pull access denied"):
		return api.EventRegistryDenied
	case has("must not be contacted", "is in none of the allowed registries", mirrors.NobodyHasIt, "127.0.0.1:10280"): // WICD's registry
		return api.EventMirrorUnavailable
	case has("no such host", "connection refused", "i/o timeout", "connectex:"):
		return api.EventRegistryUnreachable
	}
	return reason
}
