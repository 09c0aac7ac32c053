package podnetwork

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

const (
	// proxyClears is for how long load balancers may be those of another process when kube-proxy ran at our first look. It removes them when it
	// starts, as soon as the API server has told it the addresses of its Node.
	proxyClears = 2 * time.Minute
	// proxyStarts is how long kube-proxy is given when it starts.
	proxyStarts = 30 * time.Second
	// restartsPerHour and restartsPerDay limit the restarts for lost load balancers: each interrupts all Services of the node.
	restartsPerHour = 2
	restartsPerDay  = 4
)

// kubeProxy is what is remembered of kube-proxy. It makes all load balancers when it starts, and does not notice later that Windows
// has lost one; then it is restarted, and the Node is told of what is missing until all is there.
type kubeProxy struct {
	phase phase
	// process is 0 when none runs, since when it runs as far as we know.
	process uint32
	since   time.Time
	// present are the IDs of the load balancers at the last look, former those at the last look before this process, which removes them; nil if
	// it ran at the first look.
	present, former map[string]bool
	// restarts are the times of restarts for lost load balancers, of a day at most.
	restarts []time.Time
}

// see tells whether another process runs than before, or none.
func (k *kubeProxy) see(j *judgement) (replaced bool) {
	if replaced = j.proxy != k.process; replaced {
		k.process, k.since, k.former = j.proxy, j.now, k.present
		j.move(&k.phase, proxyReplaced)
	}
	if j.err == nil {
		k.present = map[string]bool{}
		for _, b := range j.state.LoadBalancers {
			k.present[b.ID] = true
		}
	}
	return replaced
}

// isFormer tells whether a load balancer is, or may be, one of the process before, which kube-proxy will remove.
func (k *kubeProxy) isFormer(b hns.LoadBalancer, now time.Time) bool {
	return k.former[b.ID] || k.former == nil && now.Sub(k.since) < proxyClears
}

// restart restarts kube-proxy, which then makes everything again. Until all is there, the Node is told of what is not.
func (k *kubeProxy) restart(j *judgement, why string) {
	if j.repairs() && j.proxy != 0 && j.plan.restart[j.want.Proxy] == "" {
		j.plan.restart[j.want.Proxy] = why
		j.move(&k.phase, proxyRestartAsked)
	}
}

// judge tells of load balancers that are missing or wrong, and restarts kube-proxy for those that were lost.
func (k *kubeProxy) judge(j *judgement, b *balancers) {
	l := b.judge(j, k)
	if l.missing == 0 {
		j.move(&k.phase, proxyComplete)
	}
	starts := j.now.Sub(k.since) < proxyStarts && !k.hasMadeAll()
	if starts && !k.isRepair() {
		return
	}
	note := ""
	if len(l.lost) > 0 && !starts {
		note = k.repair(j, b, l.lost)
	}
	l.tell(j, note)
}

// tell tells the Node. What kube-proxy never made is no fault of the network of this node, unless it is everything.
func (l balancerLosses) tell(j *judgement, note string) {
	for _, names := range [][]string{l.told, l.late, l.stale} {
		slices.Sort(names)
	}
	list := func(names []string) string { return shorten.List(names, namedLosses, ", ") }
	if len(l.told) > 0 {
		j.plan.problem(api.ReasonLoadBalancersLost, "%d of %d ports of Services have no load balancer: %s%s", len(l.told), l.expected, list(l.told), note)
	}
	if len(l.late) == l.expected && l.expected >= massLoss {
		j.plan.problem(api.ReasonLoadBalancersLost, "kube-proxy has made none of the %d load balancers of Services, see its log: %s", l.expected, list(l.late))
		return
	}
	if len(l.late) > 0 {
		j.plan.notice(api.ReasonServiceNotProgrammed, "kube-proxy has made no load balancer for %d of %d ports of Services, see its log: %s", len(l.late), l.expected, list(l.late))
	}
	if len(l.stale) > 0 {
		j.plan.notice(api.ReasonServiceNotProgrammed, "%d of %d load balancers have other back ends than their Services: %s", len(l.stale), l.expected, list(l.stale))
	}
}

// repair restarts kube-proxy for load balancers that were there and are lost, once for each loss: when the API server has confirmed that they
// must be there, no other node has the same loss, and the node has restarts left. Otherwise it returns why not.
func (k *kubeProxy) repair(j *judgement, b *balancers, lost map[kubeproxy.Frontend]types.NamespacedName) (note string) {
	if !j.repairs() {
		return "; repairs are switched off (spec.network.repair)"
	}
	if j.agreement.refuted > 0 {
		return ""
	}
	if next := k.nextRestart(j.now); j.now.Before(next) {
		return fmt.Sprintf("; kube-proxy was restarted %d times in a day and is not restarted before %s", len(k.restarts), next.UTC().Format(time.RFC3339))
	}
	e := j.evidence
	if e == nil || e.lost == nil || e.err != nil || e.first != "" {
		j.plan.ask.lost, j.plan.ask.onHost = lost, j.onHost
	}
	switch {
	case e == nil || e.lost == nil && e.err == nil || errors.Is(e.err, errNotTold):
		j.plan.soon()
		return ""
	case e.err != nil:
		return fmt.Sprintf("; kube-proxy is not restarted before the API server has confirmed that: %v", e.err)
	case e.first != "":
		return fmt.Sprintf("; Node %s has lost the same, so that the cause may be shared: kube-proxy is restarted here when it is there again", e.first)
	case (!j.isSteady || !j.agreement.isFresh(j.now)) && !j.agrees():
		return ""
	}
	var confirmed []string
	for front, service := range lost {
		p, next := b.made[front], doubted
		if e.lost[front] {
			next = retried
			confirmed = append(confirmed, nameOf(front, service))
		}
		j.move(&p.phase, next)
		b.put(front, p)
	}
	if len(confirmed) > 0 {
		slices.Sort(confirmed)
		k.restarts = append(k.restarts, j.now)
		k.restart(j, fmt.Sprintf("Windows has lost %d load balancers: %s", len(confirmed), shorten.List(confirmed, namedLosses, ", ")))
	}
	return ""
}

// nextRestart is the earliest time of a restart for lost load balancers.
func (k *kubeProxy) nextRestart(now time.Time) time.Time {
	k.restarts = slices.DeleteFunc(k.restarts, func(t time.Time) bool { return now.Sub(t) >= 24*time.Hour })
	after := func(limit int, period time.Duration) time.Time {
		if len(k.restarts) < limit {
			return time.Time{}
		}
		return k.restarts[len(k.restarts)-limit].Add(period)
	}
	return slices.MaxFunc([]time.Time{after(restartsPerHour, time.Hour), after(restartsPerDay, 24*time.Hour)}, time.Time.Compare)
}

// hasMadeAll tells whether the process that runs has made all load balancers once.
func (k *kubeProxy) hasMadeAll() bool { return k.phase == proxyServing || k.phase == proxyRestarting }

// isRepair tells whether something was lost, and not all is there again: the Node is told of all that is missing.
func (k *kubeProxy) isRepair() bool { return k.phase == proxyRestarting || k.phase == proxyRepairing }
