package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// first counts the nodes that have the version or go to it. With a canary, they go before the others.
type first struct {
	// soaked have worked for the soak time. tried are all others; dead of them have long been silent or without a Node.
	soaked, tried, dead int
	// until is when the last working node completes its soak time; zero if none is working.
	until time.Time
	// idle names the nodes that do not work.
	idle []string
	// unhealthy describes, by host, a version that has not worked for the soak time.
	unhealthy map[string]string
}

// defaultSoak is the soak time without a canary: until then, the version is not known to work.
const defaultSoak = 10 * time.Minute

// soak returns how long a node must work with a version.
func (p Policy) soak() time.Duration {
	if p.Canary != nil {
		return p.Canary.Soak
	}
	return defaultSoak
}

// countCanaries counts the first nodes once per plan, so that they are not recounted for each of thousands of hosts.
func (p *planner) countCanaries() {
	p.first.unhealthy = map[string]string{}
	for i := range p.Hosts {
		h := &p.Hosts[i]
		switch {
		case h.upgrading(), h.Former && h.Node != nil && h.Node.Version == "": // it has registered, and may have joined with the version
			p.first.tried++
		case h.Node == nil && h.Arrived, h.isAt(p.Policy.Version) && h.Node.Silent:
			p.first.tried++
			p.first.idle = append(p.first.idle, h.Name)
			p.countDead(h)
		case h.isAt(p.Policy.Version):
			p.countReporting(h)
		}
	}
	slices.Sort(p.first.idle)
}

// countDead counts a silent or missing node of the version as dead after nodestate.BrokenAfter.
func (p *planner) countDead(h *Host) {
	since := h.MissingSince
	if h.Node != nil {
		since = h.Node.NotReadySince
	}
	switch at := since.Add(nodestate.BrokenAfter); {
	case since.IsZero():
	case at.After(p.Now):
		p.scheduleRecheck(at)
	default:
		p.first.dead++
	}
}

func (p *planner) countReporting(h *Host) {
	if !h.works(p.Policy.Version) {
		p.first.tried++
		p.first.idle = append(p.first.idle, h.Name)
		p.countUnhealthy(h)
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

// countUnhealthy decides whether the version is to blame for a node that does not work: it has not worked for the soak time, and the rollout has a
// canary or the node failed soon after it got the version.
func (p *planner) countUnhealthy(h *Host) {
	since := h.Node.UnhealthySince
	if since.IsZero() || h.Since.IsZero() || p.Policy.Canary == nil && !h.failedSoon(p.Policy.Version) {
		return
	}
	at := nodestate.Later(since, h.Since).Add(p.Policy.soak())
	if at.After(p.Now) {
		p.scheduleRecheck(at)
		return
	}
	failure := h.Node.Unhealthy
	if !h.Node.Ready {
		failure = "the node is not Ready"
	}
	p.first.unhealthy[h.Name] = fmt.Sprintf("the node got the version and has not worked since %s: %s", since.UTC().Format(time.RFC3339), failure)
}

// failedSoon reports whether the node got a version and reported a failure soon after. It counts as out of service, because the next node would likely
// fail, too.
func (h *Host) failedSoon(version string) bool {
	return h.isAt(version) && !h.Node.UnhealthySince.IsZero() && !h.Since.IsZero() && h.Node.UnhealthySince.Before(h.Since.Add(defaultSoak))
}

// soakedAt returns when the node completes a soak time with its version, if it keeps working.
func (h *Host) soakedAt(soak time.Duration) time.Time {
	return nodestate.Later(h.Since, h.Node.WorksSince).Add(soak)
}

func (h *Host) isAt(version string) bool { return h.Node != nil && h.Node.Version == version }

func (h *Host) works(version string) bool {
	return h.isAt(version) && !h.Node.isOutOfService() && h.Node.Unhealthy == ""
}

// beginUpgrade counts a host whose upgrade to the version begins.
func (p *planner) beginUpgrade(h *Host) {
	switch {
	case h.upgrading(), h.isAt(p.Policy.Version) && !h.works(p.Policy.Version):
		return // already counted
	case h.works(p.Policy.Version): // a node of another operator with the same version
		if h.soakedAt(p.Policy.soak()).After(p.Now) {
			return
		}
		p.first.soaked--
	}
	p.first.tried++
}

// canary allows only the first nodes to get the version until they have worked for the soak time. One dead node is replaced: a single machine may
// fail, but two failures are unlikely to be a coincidence.
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
		p.scheduleRecheck(p.first.until)
		return api.ReasonCanary, fmt.Sprintf("the canary nodes must work until %s", p.first.until.UTC().Format(time.RFC3339))
	case len(p.first.idle) > 0:
		return api.ReasonCanary, "canary nodes are out of service or do not work: " + truncate.List(p.first.idle, maxNamed, ", ")
	}
	return api.ReasonCanary, "the canary nodes are getting the version"
}
