package podnetwork

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// closelyEvery is the pause between two close looks: each reads every object individually. While the two generations disagree, it is
	// networkSeldom.
	closelyEvery = 10 * time.Second
	// closeAnswers is the timeout of a close look.
	closeAnswers = time.Minute
	// disagreesAfter is how many consecutive close looks must find that the two generations of the API disagree before the Node reports it: other
	// programs create and remove objects during a read.
	disagreesAfter = 2
	// confirmedFor is how long a close look is valid for a restart of kube-proxy, which meanwhile waits for the API server.
	confirmedFor = 30 * time.Second
)

// closeView is what the second generation of the API has, and what the first had afterwards.
type closeView struct {
	second, after hns.State
	err           error
}

// agreement remembers whether the two generations of Windows' API agreed. What only one of them lacks may not be lost.
type agreement struct {
	// refuted is the number of consecutive close looks in which they did not, differences is what the last one found.
	refuted     int
	differences []string
	// at is when they were last compared, confirmed are the losses reported then.
	at        time.Time
	confirmed string
}

// see handles a close look.
func (a *agreement) see(j *judgement, network string) {
	if j.close == nil || j.close.err != nil {
		return
	}
	a.at, a.differences = j.now, unlisted(j.state, j.close.after, j.close.second, network)
	if a.refuted++; len(a.differences) == 0 {
		a.refuted = 0
	}
}

// unlisted returns endpoints of this host, and load balancers, that the second generation of the API has and the first does not list with the
// same addresses, neither before nor after.
func unlisted(before, after, second hns.State, network string) (names []string) {
	for _, e := range second.Endpoints {
		isListed := func(o hns.Endpoint) bool { return o.ID == e.ID && o.Address == e.Address && !o.Remote }
		if e.Network == network && !e.Remote && !slices.ContainsFunc(before.Endpoints, isListed) && !slices.ContainsFunc(after.Endpoints, isListed) {
			names = append(names, "endpoint "+e.Address.String())
		}
	}
	listed := map[string]bool{}
	for _, s := range []hns.State{before, after} {
		for _, b := range s.LoadBalancers {
			for _, vip := range vipsOf(b) {
				listed[b.ID+vip.String()] = true
			}
		}
	}
	for _, b := range second.LoadBalancers {
		for _, vip := range vipsOf(b) {
			if !listed[b.ID+vip.String()] {
				names = append(names, fmt.Sprintf("load balancer %s:%d", vip, b.External))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// vipsOf returns the addresses of a load balancer; an invalid one means all addresses of the host.
func vipsOf(b hns.LoadBalancer) []netip.Addr {
	if len(b.VIPs) == 0 {
		return []netip.Addr{{}}
	}
	return b.VIPs
}

// agrees reports whether to repair what one generation of the API lacks: the service has answered for a while, and the other generation lacks it
// too. Without a close look, it requests one; endpoints are then read by ID.
func (j *judgement) agrees(endpoints ...string) bool {
	if !j.isSteady {
		j.plan.soon()
		return false
	}
	if j.close == nil {
		j.plan.ask.closely, j.plan.ask.endpoints = true, append(j.plan.ask.endpoints, endpoints...)
		j.plan.soon()
		return false
	}
	return j.close.err == nil && j.agreement.refuted == 0
}

// isFresh reports whether the generations agreed a moment ago.
func (a *agreement) isFresh(now time.Time) bool {
	return a.refuted == 0 && a.confirmed != "" && now.Sub(a.at) < confirmedFor
}

// confirm leaves losses out of the Node's report until a close look confirms them. If the generations disagree, the Node reports that nothing is
// repaired, instead of losses that may not exist. problems and notices are the counts before this judgment.
func (a *agreement) confirm(j *judgement, problems, notices int) {
	losses := j.plan.problems[problems:]
	if len(losses) == 0 {
		a.refuted, a.confirmed = 0, ""
		return
	}
	var what []string
	for _, p := range losses {
		what = append(what, p.message)
	}
	text := strings.Join(what, "; ")
	isConfirmed := a.refuted == 0 && a.confirmed == text
	switch {
	case j.close == nil && !isConfirmed:
		j.plan.ask.closely = true
		j.plan.soon()
	case j.close != nil && j.close.err == nil && a.refuted == 0:
		a.confirmed = text
	}
	if a.refuted == 0 {
		return
	}
	j.plan.problems, j.plan.notices = j.plan.problems[:problems], j.plan.notices[:notices]
	if a.refuted >= disagreesAfter {
		j.plan.notice(api.ReasonWindowsNetworkUnverified, "the Host Network Service has %d objects that it does not list (%s), so nothing is repaired; according to its list, %s",
			len(a.differences), truncate.List(a.differences, namedLosses, ", "), text)
	}
}

// pause returns the minimum time between two close looks.
func (a *agreement) pause() time.Duration {
	if a.refuted >= disagreesAfter {
		return networkSeldom
	}
	return closelyEvery
}

// readObjects reads each object; it returns nil if the last close look was less than pause ago.
func (n *reconciliation) readObjects(ctx context.Context, endpoints []string, pause time.Duration) *closeView {
	if time.Since(n.objectsRead) < pause {
		return nil
	}
	n.objectsRead = time.Now()
	ctx, cancel := context.WithTimeout(ctx, closeAnswers)
	defer cancel()
	var c closeView
	if c.second, c.err = n.Host.Networks.ReadObjects(ctx, endpoints); c.err == nil {
		c.after, c.err = n.Host.Networks.Look(ctx)
	}
	text := ""
	if c.err != nil {
		text = c.err.Error()
	}
	if text != "" && text != n.closeError {
		n.Log.Warn("Reading HNS objects individually failed; losses are not repaired", "error", text)
	}
	n.closeError = text
	return &c
}
