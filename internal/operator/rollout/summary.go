package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

func (p *planner) summary() v1alpha1.RolloutStatus {
	s := v1alpha1.RolloutStatus{
		Version: p.Policy.Version, Nodes: int32(p.budget.nodes), Orphans: int32(len(p.Orphans)), MaxUnavailable: int32(p.budget.max),
	}
	for i := range p.Hosts {
		h := &p.Hosts[i]
		if h.isOutOfService() {
			s.OutOfService++
		} else if h.Node != nil && h.Node.Version == p.Policy.Version {
			s.AtVersion++
		}
		if h.Failure != nil {
			s.Failed = append(s.Failed, h.Name)
		}
		if p.next[h.Name].WaitsFor != "" {
			s.Waiting++
		}
	}
	slices.Sort(s.Failed)
	s.Message = p.message(s)
	return s
}

func (p *planner) message(s v1alpha1.RolloutStatus) string {
	running, waiting := map[string]int{}, map[string]int{}
	for _, n := range p.next {
		if n.WaitsFor != "" {
			waiting[fmt.Sprintf("%s (%s)", n.Action, n.WaitsFor)]++
		} else {
			running[string(n.Action)]++
		}
	}
	parts := slices.Clone(p.Policy.Faults)
	if len(running) > 0 {
		parts = append(parts, "in progress: "+list(running))
	}
	if len(waiting) > 0 {
		parts = append(parts, "waiting: "+list(waiting))
	}
	if p.tooManySilent() {
		parts = append(parts, p.silenceMessage())
	}
	if len(s.Failed) > 0 {
		parts = append(parts, "failed on "+truncate.List(s.Failed, maxNamed, ", "))
	}
	if len(p.Orphans) > 0 {
		parts = append(parts, "no WindowsInstance for Node "+truncate.List(p.Orphans, maxNamed, ", "))
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, "; ")
}

// maxNamed is the maximum number of nodes or hosts that a summary names.
const maxNamed = 5

// list formats the counts in a stable order.
func list(counts map[string]int) string {
	var parts []string
	for name, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
