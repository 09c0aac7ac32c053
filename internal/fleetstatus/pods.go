package fleetstatus

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/advice"
	"github.com/windows-machine-config/wmco/internal/mirrors"
)

// Pod is a pod of a host that does not run.
type Pod struct {
	// Name is namespace/name.
	Name string `json:"name"`
	// Reason and Message are those of its first container that waits.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Remedy is what to do next.
	Remedy string `json:"remedy,omitempty"`
}

// maxPods is how many pods of a host are listed.
const maxPods = 50

// podsOf are the pods of a host that do not run, and the problems that they tell.
func (r *reader) podsOf(h Host) (pods []Pod, found []Problem) {
	if h.Node == "" {
		return nil, nil
	}
	for _, p := range r.pods[h.Node] {
		reason, message := waiting(p)
		if reason == "" {
			continue
		}
		name := label(p.Namespace + "/" + p.Name)
		problem := r.problem(reason, "Pod "+name, message, time.Time{})
		problem.Hosts = []string{h.Name}
		pods = append(pods, Pod{Name: name, Reason: problem.Reason, Message: problem.Message, Remedy: problem.Remedy})
		known := slices.ContainsFunc(found, func(o Problem) bool { return o.Reason == problem.Reason })
		if problem.Severity != advice.Info && !known {
			found = append(found, problem)
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods[:min(len(pods), maxPods)], found
}

// waiting says why a container of a pod does not run; empty when all run, or have run.
func waiting(p *corev1.Pod) (reason, message string) {
	if p.DeletionTimestamp != nil {
		return "", ""
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := s.State.Waiting
		if w == nil || w.Reason == "PodInitializing" {
			continue
		}
		if w.Reason == "ContainerCreating" || w.Reason == "" {
			reason = "ContainerCreating"
			continue
		}
		return classify(w.Reason, w.Message), "image " + s.Image + ": " + w.Message
	}
	return reason, ""
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
		return advice.ImageForAnotherBuild
	case has("proxyconnect"): // net/http
		return advice.ProxyUnreachable
	case has(mirrors.RefusesCredentials, "401 Unauthorized", "pull access denied"):
		return advice.RegistryDenied
	case has("must not be contacted", "is in none of the allowed registries", mirrors.NobodyHasIt, "127.0.0.1:10280"): // WICD's registry
		return advice.MirrorUnavailable
	case has("no such host", "connection refused", "i/o timeout", "connectex:"):
		return advice.RegistryUnreachable
	}
	return reason
}
