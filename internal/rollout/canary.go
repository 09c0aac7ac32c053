package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/nodestate"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// first are the nodes that have the version, or go to it. Where a canary is asked for, they go before the others.
type first struct {
	// soaked have worked for long enough; tried are all others, of which dead have been silent or without a Node for long.
	soaked, tried, dead int
	// until is when the last of those that work will have worked for long enough; zero where none does.
	until time.Time
	// idle names those that do not work.
	idle []string
	// sick says of hosts what is wrong with a version that has not worked on them for as long as it should have worked.
	sick map[string]string
}

// defaultSoak is for how long a node must work with a version that the user gave no canary: until then, it is not known to.
const defaultSoak = 10 * time.Minute

// soak is how long a node must work with a version.
func (p Policy) soak() time.Duration {
	if p.Canary != nil {
		return p.Canary.Soak
	}
	return defaultSoak
}

// lookAtFirst counts them once: with thousands of hosts, each of them asks.
func (p *planner) lookAtFirst() {
	p.first.sick = map[string]string{}
	for i := range p.Hosts {
		h := &p.Hosts[i]
		switch {
		case h.upgrading(), h.Former && h.Node != nil && h.Node.Version == "": // it has registered, and may have been joined with the version
			p.first.tried++
		case h.Node == nil && h.Arrived, h.isAt(p.Policy.Version) && h.Node.Silent:
			p.first.tried++
			p.first.idle = append(p.first.idle, h.Name)
			p.lookAtDeath(h)
		case h.isAt(p.Policy.Version):
			p.lookAt(h)
		}
	}
	slices.Sort(p.first.idle)
}

// lookAtDeath counts a host that has the version and is not heard from, once that has lasted for as long as a node may need to come back.
func (p *planner) lookAtDeath(h *Host) {
	since := h.MissingSince
	if h.Node != nil {
		since = h.Node.NotReadySince
	}
	switch at := since.Add(nodestate.BrokenAfter); {
	case since.IsZero():
	case at.After(p.Now):
		p.lookAgain(at)
	default:
		p.first.dead++
	}
}

// lookAt counts a host that has the version and is heard from.
func (p *planner) lookAt(h *Host) {
	if !h.works(p.Policy.Version) {
		p.first.tried++
		p.first.idle = append(p.first.idle, h.Name)
		p.lookAtSickness(h)
		return
	}
	end := h.soakedAt(p.Policy.soak())
	if !end.After(p.Now) {
		p.first.soaked++
		return
	}
	p.first.tried++
	if end.After(p.first.until) {
		p.first.until = end
	}
}

// lookAtSickness finds out whether the version is to blame for a node that does not work: it has not worked for as long as it should have, and
// the first nodes are still watched, or it never worked for so long.
func (p *planner) lookAtSickness(h *Host) {
	since := h.Node.SickSince
	if since.IsZero() || h.Since.IsZero() || p.Policy.Canary == nil && !h.fellSick(p.Policy.Version) {
		return
	}
	at := later(since, h.Since).Add(p.Policy.soak())
	if at.After(p.Now) {
		p.lookAgain(at)
		return
	}
	what := h.Node.Unhealthy
	if !h.Node.Ready {
		what = "the node is not Ready"
	}
	p.first.sick[h.Name] = fmt.Sprintf("the node came to the version, and has not worked since %s: %s", since.UTC().Format(time.RFC3339), what)
}

// fellSick says whether the node came to a version and, soon after, said that it does not work. It counts as out of service: the next one would
// fare no better.
func (h *Host) fellSick(version string) bool {
	return h.isAt(version) && !h.Node.SickSince.IsZero() && !h.Since.IsZero() && h.Node.SickSince.Before(h.Since.Add(defaultSoak))
}

// soakedAt is when the node will have worked for so long with the version it has, if it goes on.
func (h *Host) soakedAt(soak time.Duration) time.Time {
	return later(h.Since, h.Node.WorksSince).Add(soak)
}

// isAt says whether the node has a version.
func (h *Host) isAt(version string) bool { return h.Node != nil && h.Node.Version == version }

// works says whether the node of a host works with a version.
func (h *Host) works(version string) bool {
	return h.isAt(version) && !h.Node.out() && h.Node.Unhealthy == ""
}

// goes counts a host that begins to go to the version.
func (p *planner) goes(h *Host) {
	switch {
	case h.upgrading(), h.isAt(p.Policy.Version) && !h.works(p.Policy.Version):
		return // counted already
	case h.works(p.Policy.Version): // another operator's node of the same version
		if h.soakedAt(p.Policy.soak()).After(p.Now) {
			return
		}
		p.first.soaked--
	}
	p.first.tried++
}

// canary lets only a few nodes go to the version until they have worked for a while. One that died meanwhile is replaced, once: machines do
// die, and two that do are hardly a coincidence.
func (p *planner) canary(n need) (reason, message string) {
	c := p.Policy.Canary
	switch {
	case c == nil || !n.changesVersion():
		return "", ""
	case p.first.soaked >= c.Count:
		return "", ""
	case p.first.soaked+p.first.tried < c.Count+min(p.first.dead, 1):
		return "", ""
	case !p.first.until.IsZero():
		p.lookAgain(p.first.until)
		return api.ReasonCanary, fmt.Sprintf("the first nodes must work until %s", p.first.until.UTC().Format(time.RFC3339))
	case len(p.first.idle) > 0:
		return api.ReasonCanary, "nodes that went to the version first are out of service, or do not work: " + shorten.List(p.first.idle, maxNamed, ", ")
	}
	return api.ReasonCanary, "the first nodes go to the version"
}
