package podnetwork

import (
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

const (
	// proxyClears is more than kube-proxy takes to remove, when it starts, what the one before it made.
	proxyClears = 5 * time.Second
	// proxyStarts is how long kube-proxy is given when it starts.
	proxyStarts = 30 * time.Second
	// restartPause is how long after a restart for lost load balancers the next one may come; it doubles up to restartPauses.
	restartPause  = 5 * time.Minute
	restartPauses = time.Hour
)

// kubeProxy is what is remembered of kube-proxy. It makes all load balancers when it starts, and does not notice later that Windows
// has lost one; then it is restarted, and the Node is told of what is missing until all is there.
type kubeProxy struct {
	phase phase
	// process is 0 when none runs, since when it runs as far as we know.
	process uint32
	since   time.Time
	// restarts counts those for lost load balancers that did not help; restarted is the last.
	restarts  int
	restarted time.Time
	// hasBalanced says that there was a load balancer; where there never was one, no restart is known to help.
	hasBalanced bool
}

// see tells whether another process runs than before, or none.
func (k *kubeProxy) see(j *judgement) (replaced bool) {
	if j.proxy == k.process {
		return false
	}
	k.process, k.since = j.proxy, j.now
	j.move(&k.phase, proxyReplaced)
	return true
}

// restart restarts kube-proxy, which then makes everything again. Until all is there, the Node is told of what is not.
func (k *kubeProxy) restart(j *judgement, why string) {
	if j.proxy != 0 && j.plan.restart[j.want.Proxy] == "" {
		j.plan.restart[j.want.Proxy] = why
		j.move(&k.phase, proxyRestartAsked)
	}
}

// lostBalancers are the frontends that should have a load balancer and have none: those that the Node is to be told of, by name, and how
// many have been without for too long.
type lostBalancers struct {
	expected, missing, overdue int
	named                      []string
}

// add counts one. During a repair, all that is missing is named.
func (l *lostBalancers) add(name string, isOverdue, isRepair bool) {
	l.missing++
	if isOverdue {
		l.overdue++
	}
	if isOverdue || isRepair {
		l.named = append(l.named, name)
	}
}

// judge restarts kube-proxy for load balancers that it makes good for only then.
func (k *kubeProxy) judge(j *judgement, l lostBalancers) {
	runs := j.now.Sub(k.since)
	if l.missing == 0 && runs >= proxyClears {
		j.move(&k.phase, proxyComplete)
		k.restarts = 0
	}
	starts := runs < proxyStarts && !k.hasMadeAll()
	if len(l.named) == 0 || starts && !k.isRepair() {
		return
	}
	slices.Sort(l.named)
	j.plan.problem(api.ReasonLoadBalancersLost, "%d of %d ports of Services have no load balancer: %s",
		len(l.named), l.expected, shorten.List(l.named, namedLosses, ", "))
	pause := min(restartPause<<min(k.restarts, 10), restartPauses)
	if l.overdue == 0 || !k.hasBalanced || starts || k.restarts > 0 && j.now.Sub(k.restarted) < pause {
		return
	}
	k.restart(j, fmt.Sprintf("%d load balancers are missing", l.overdue))
	k.restarts, k.restarted = k.restarts+1, j.now
}

// clears tells whether load balancers may still be those of the process before.
func (k *kubeProxy) clears(now time.Time) bool { return now.Sub(k.since) < proxyClears }

// hasMadeAll tells whether the process that runs has made all load balancers once.
func (k *kubeProxy) hasMadeAll() bool { return k.phase == proxyServing || k.phase == proxyRestarting }

// isRepair tells whether something was lost, and not all is there again: the Node is told of all that is missing.
func (k *kubeProxy) isRepair() bool { return k.phase == proxyRestarting || k.phase == proxyRepairing }
