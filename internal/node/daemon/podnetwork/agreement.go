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
	// objectReadInterval is the pause between two object reads, which read every object individually. While the two generations disagree,
	// it is maxNetworkInterval.
	objectReadInterval = 10 * time.Second
	// objectReadTimeout is the timeout of an object read.
	objectReadTimeout = time.Minute
	// disagreesAfter is how many consecutive object reads must find that the two generations of the API disagree before the Node reports
	// it: other programs create and remove objects during a read.
	disagreesAfter = 2
	// confirmedFor is how long an object read is valid for a restart of kube-proxy, which meanwhile waits for the API server.
	confirmedFor = 30 * time.Second
)

// objectView is an object read: the state that the second generation of the API returns, and the lists of the first generation afterwards.
type objectView struct {
	second, after hns.State
	err           error
}

// agreement records whether the two generations of Windows' API agree. An object that only one of them lacks may not be lost.
type agreement struct {
	// disagreements is the number of consecutive object reads in which they disagreed, differences is what the last one found.
	disagreements int
	differences   []string
	// at is when they were last compared, confirmed are the losses reported then.
	at        time.Time
	confirmed string
}

// observe records the result of an object read.
func (a *agreement) observe(j *evaluation, network string) {
	if j.objects == nil || j.objects.err != nil {
		return
	}
	a.at, a.differences = j.now, unlisted(j.state, j.objects.after, j.objects.second, network)
	if a.disagreements++; len(a.differences) == 0 {
		a.disagreements = 0
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

// agrees reports whether to repair what one generation of the API lacks: the service has responded for a while, and the other generation
// lacks it too. Without an object read, it requests one; endpoints are then read by ID.
func (j *evaluation) agrees(endpoints ...string) bool {
	if !j.isSteady {
		j.plan.soon()
		return false
	}
	if j.objects == nil {
		j.plan.query.readObjects, j.plan.query.endpoints = true, append(j.plan.query.endpoints, endpoints...)
		j.plan.soon()
		return false
	}
	return j.objects.err == nil && j.agreement.disagreements == 0
}

// isFresh reports whether the generations agreed a moment ago.
func (a *agreement) isFresh(now time.Time) bool {
	return a.disagreements == 0 && a.confirmed != "" && now.Sub(a.at) < confirmedFor
}

// confirm leaves losses out of the Node's report until an object read confirms them. If the generations disagree, the Node reports that
// nothing is repaired, instead of losses that may not exist. problems and notices are the counts before this evaluation.
func (a *agreement) confirm(j *evaluation, problems, notices int) {
	losses := j.plan.problems[problems:]
	if len(losses) == 0 {
		a.disagreements, a.confirmed = 0, ""
		return
	}
	var what []string
	for _, p := range losses {
		what = append(what, p.message)
	}
	text := strings.Join(what, "; ")
	isConfirmed := a.disagreements == 0 && a.confirmed == text
	switch {
	case j.objects == nil && !isConfirmed:
		j.plan.query.readObjects = true
		j.plan.soon()
	case j.objects != nil && j.objects.err == nil && a.disagreements == 0:
		a.confirmed = text
	}
	if a.disagreements == 0 {
		return
	}
	j.plan.problems, j.plan.notices = j.plan.problems[:problems], j.plan.notices[:notices]
	if a.disagreements >= disagreesAfter {
		j.plan.notice(api.ReasonWindowsNetworkUnverified, "the Host Network Service has %d objects that it does not list (%s), so nothing is repaired; according to its list, %s",
			len(a.differences), truncate.List(a.differences, namedLosses, ", "), text)
	}
}

// pause returns the minimum time between two object reads.
func (a *agreement) pause() time.Duration {
	if a.disagreements >= disagreesAfter {
		return maxNetworkInterval
	}
	return objectReadInterval
}

// readObjects reads each object; it returns nil if the last object read was less than pause ago.
func (n *reconciliation) readObjects(ctx context.Context, endpoints []string, pause time.Duration) *objectView {
	if time.Since(n.objectsRead) < pause {
		return nil
	}
	n.objectsRead = time.Now()
	ctx, cancel := context.WithTimeout(ctx, objectReadTimeout)
	defer cancel()
	var c objectView
	if c.second, c.err = n.Host.Networks.ReadObjects(ctx, endpoints); c.err == nil {
		c.after, c.err = n.Host.Networks.List(ctx)
	}
	text := ""
	if c.err != nil {
		text = c.err.Error()
	}
	if text != "" && text != n.objectReadError {
		n.Log.Warn("Reading HNS objects individually failed; losses are not repaired", "error", text)
	}
	n.objectReadError = text
	return &c
}
