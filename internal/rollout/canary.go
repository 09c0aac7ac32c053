package rollout

import (
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// first are the nodes that have the version, or go to it, where some go before the others.
type first struct {
	// soaked have worked for long enough; tried are on their way, or have not.
	soaked, tried int
	// until is when the last of those that work will have worked for long enough; zero where none does.
	until time.Time
}

// lookAtFirst counts them once: with thousands of hosts, each of them asks.
func (p *planner) lookAtFirst() {
	if p.Policy.Canary == nil {
		return
	}
	for i := range p.Hosts {
		h := &p.Hosts[i]
		end := h.Since.Add(p.Policy.Canary.Soak)
		switch {
		case h.upgrading():
			p.first.tried++
		case !h.works(p.Policy.Version):
		case !end.After(p.Now):
			p.first.soaked++
		default:
			p.first.tried++
			if end.After(p.first.until) {
				p.first.until = end
			}
		}
	}
}

// goes counts a host that begins to go to the version.
func (p *planner) goes(h *Host) {
	if p.Policy.Canary == nil || h.upgrading() {
		return // counted already
	}
	switch soaked := !h.Since.Add(p.Policy.Canary.Soak).After(p.Now); {
	case !h.works(p.Policy.Version):
		p.first.tried++
	case soaked: // another operator's node of the same version
		p.first.soaked--
		p.first.tried++
	}
}

// works says whether the node of a host works with a version.
func (h *Host) works(version string) bool {
	return h.Node != nil && h.Node.Version == version && !h.Node.out() && h.Node.Unhealthy == ""
}

// canary lets only a few nodes go to the version until they have worked for a while.
func (p *planner) canary(n need) (reason, message string) {
	c := p.Policy.Canary
	switch {
	case c == nil || n.action != v1alpha1.ActionUpgrade:
		return "", ""
	case p.first.soaked >= c.Count:
		return "", ""
	case p.first.soaked+p.first.tried < c.Count:
		return "", ""
	case p.first.until.IsZero():
		return api.ReasonCanary, "the first nodes go to the version"
	}
	p.lookAgain(p.first.until)
	return api.ReasonCanary, fmt.Sprintf("the first nodes must work until %s", p.first.until.UTC().Format(time.RFC3339))
}
