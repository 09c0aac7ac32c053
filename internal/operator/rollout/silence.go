package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// silence counts silent nodes. A single silent node may be broken; if many are silent, the likely cause is the API server or the network, and their
// pods keep running.
type silence struct {
	nodes int
	// unrepaired are those that do not join again meanwhile: all but as many as may be out of service. If those recover, so will the others.
	unrepaired map[string]bool
}

func (p *planner) countSilent() {
	var silent []*Host
	for i := range p.Hosts {
		if h := &p.Hosts[i]; h.Node != nil && h.Node.Silent {
			silent = append(silent, h)
		}
	}
	p.silence.nodes = len(silent)
	if !p.tooManySilent() {
		return
	}
	slices.SortFunc(silent, func(a, b *Host) int { return cmp.Compare(a.Name, b.Name) })
	p.silence.unrepaired = map[string]bool{}
	for _, h := range silent[p.budget.max:] {
		p.silence.unrepaired[h.Name] = true
	}
}

// tooManySilent reports whether more nodes are silent than may be out of service.
func (p *planner) tooManySilent() bool { return p.silence.nodes > p.budget.max }

func (p *planner) silenceMessage() string {
	return fmt.Sprintf("more Windows nodes are silent than maxUnavailable (%d): the likely cause is between the nodes "+
		"and the API server, and no action begins until the nodes report again or are removed", p.budget.max)
}

// fleetSilent blocks new actions while too many nodes are silent. A host that the user removes may leave: it is broken, or waits for the budget.
func (p *planner) fleetSilent(n need) (reason, message string) {
	if !n.counts() || n.action == v1alpha1.ActionLeave || !p.tooManySilent() {
		return "", ""
	}
	return api.ReasonFleetSilent, p.silenceMessage()
}

// mayRecover skips a node that has been not Ready only briefly: its pods keep running, and it may recover soon.
func (p *planner) mayRecover(n need) (reason, message string) {
	node := n.host.Node
	if !n.counts() || node.Ready || node.Broken(p.Now) {
		return "", ""
	}
	if node.NotReadySince.IsZero() {
		return api.ReasonNodeNotReady, "the node is not Ready"
	}
	at := node.NotReadySince.Add(nodestate.BrokenAfter)
	p.scheduleRecheck(at)
	return api.ReasonNodeNotReady, fmt.Sprintf("the node is not Ready and will count as broken at %s", at.UTC().Format(time.RFC3339))
}
