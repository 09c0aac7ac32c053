package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const maxPods = 250

type podList struct {
	Known  bool   `json:"known"`            // the pods have been read
	Denied string `json:"denied,omitempty"` // why they cannot be read
	Total  int    `json:"total"`
	Items  []pod  `json:"items,omitempty"`
}

type pod struct {
	Name     string    `json:"name"`
	Status   string    `json:"status"`
	Good     bool      `json:"good"`
	Ready    string    `json:"ready"`
	Restarts int       `json:"restarts"`
	Address  string    `json:"address,omitempty"`
	Since    time.Time `json:"since,omitzero"`
}

// podListOf returns the pods of a source that follows one node's pods: those that do not work come first.
func podListOf(s *source) podList {
	k := s.kinds[0]
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.List()
	list := podList{Known: k.synced, Total: len(all)}
	if k.denied != nil {
		list.Denied = explain(k.denied)
	}
	for _, o := range all {
		list.Items = append(list.Items, podOf(o.(*corev1.Pod)))
	}
	slices.SortFunc(list.Items, func(a, b pod) int {
		if a.Good != b.Good {
			return map[bool]int{true: 1, false: -1}[a.Good]
		}
		return cmp.Compare(a.Name, b.Name)
	})
	list.Items = list.Items[:min(len(list.Items), maxPods)]
	return list
}

func podOf(p *corev1.Pod) pod {
	ready, restarts, status := 0, 0, string(p.Status.Phase)
	for _, c := range p.Status.ContainerStatuses {
		restarts += int(c.RestartCount)
		if c.Ready {
			ready++
		}
		if c.State.Waiting != nil && c.State.Waiting.Reason != "" {
			status = c.State.Waiting.Reason
		}
	}
	if p.DeletionTimestamp != nil {
		status = "Terminating"
	}
	all := len(p.Spec.Containers)
	return pod{
		Name: truncate.Printable(p.Namespace+"/"+p.Name, truncate.Note), Status: truncate.Printable(status, 100), Ready: fmt.Sprintf("%d/%d", ready, all),
		Good: p.Status.Phase == corev1.PodSucceeded || status == string(corev1.PodRunning) && ready == all, Restarts: restarts,
		Address: truncate.Printable(p.Status.PodIP, 100), Since: p.CreationTimestamp.Time,
	}
}
