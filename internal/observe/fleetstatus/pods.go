package fleetstatus

import (
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/observe/podcause"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
)

// Pod is a pod of a host that does not run.
type Pod struct {
	// Name is namespace/name.
	Name string `json:"name"`
	// Reason and Message are those of its first waiting container.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Remedy is what to do next.
	Remedy string `json:"remedy,omitempty"`
}

const maxPods = 50

// podsOf returns the pods of a host that do not run, and their problems.
func (r *reader) podsOf(h Host) (pods []Pod, found []Problem) {
	if h.Node == "" {
		return nil, nil
	}
	for _, p := range r.pods[h.Node] {
		cause := podcause.Waiting(p)
		if cause.Reason == "" {
			continue
		}
		if r.masker == nil { // creating it is slow, and usually all pods run
			r.masker = mask.New()
		}
		name := label(p.Namespace + "/" + p.Name)
		problem := r.problem(cause.Reason, "Pod "+name, podcause.DisplayText(cause.Message, r.masker.Text), time.Time{})
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
