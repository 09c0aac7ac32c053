package podnetwork

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// proxyCleanup is how long load balancers may belong to a previous process if kube-proxy already ran at WICD's first pass. kube-proxy
	// removes them at start, as soon as it has received its Node's addresses from the API server.
	proxyCleanup = 2 * time.Minute
	// proxyStartup is how long kube-proxy has to start.
	proxyStartup = 30 * time.Second
	// restartsPerHour and restartsPerDay limit the restarts for lost load balancers: each interrupts all Services of the node.
	restartsPerHour = 2
	restartsPerDay  = 4
)

// kubeProxy is the recorded state of kube-proxy. kube-proxy creates all load balancers at start, and does not notice when Windows loses one
// later. It is then restarted, and the Node reports what is missing until everything is back.
type kubeProxy struct {
	phase phase
	// process is 0 if none runs. since is when it was first seen.
	process uint32
	since   time.Time
	// present are the IDs of the load balancers in the last pass, former those in the last pass before this process, which removes them; nil if
	// it already ran in the first pass.
	present, former map[string]bool
	// restarts are the times of restarts for lost load balancers, within a day.
	restarts []time.Time
}

// observe records kube-proxy's process and load balancers, and reports whether the process is not the same as before, or none runs.
func (k *kubeProxy) observe(j *evaluation) (replaced bool) {
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

// isFormer reports whether a load balancer belongs, or may belong, to the previous process. kube-proxy will remove it.
func (k *kubeProxy) isFormer(b hns.LoadBalancer, now time.Time) bool {
	return k.former[b.ID] || k.former == nil && now.Sub(k.since) < proxyCleanup
}

// restart requests a restart of kube-proxy, which then re-creates everything. Until everything is back, the Node reports what is missing.
func (k *kubeProxy) restart(j *evaluation, reason string) {
	if j.repairs() && j.proxy != 0 && j.plan.restart[j.want.Proxy] == "" {
		j.plan.restart[j.want.Proxy] = reason
		j.move(&k.phase, proxyRestartRequested)
	}
}

// evaluate reports missing or wrong load balancers, and restarts kube-proxy for lost ones.
func (k *kubeProxy) evaluate(j *evaluation, b *balancers) {
	l := b.evaluate(j, k)
	if l.missing == 0 {
		j.move(&k.phase, proxyComplete)
	}
	starts := j.now.Sub(k.since) < proxyStartup && !k.hasCreatedAll()
	if starts && !k.isRepair() {
		return
	}
	note := ""
	if len(l.lost) > 0 && !starts {
		note = k.repair(j, b, l.lost)
	}
	l.report(j, note)
}

// report adds the losses to the plan. A load balancer that kube-proxy never created is not a fault of this node's network, unless all are missing.
func (l balancerLosses) report(j *evaluation, note string) {
	for _, names := range [][]string{l.reported, l.late, l.stale} {
		slices.Sort(names)
	}
	list := func(names []string) string { return truncate.List(names, namedLosses, ", ") }
	if len(l.reported) > 0 {
		j.plan.problem(api.ReasonLoadBalancersLost, "%d of %d Service ports have no load balancer: %s%s",
			len(l.reported), l.expected, list(l.reported), note)
	}
	if len(l.late) == l.expected && l.expected >= massLoss {
		j.plan.problem(api.ReasonLoadBalancersLost, "kube-proxy created none of the %d load balancers for Services, see its log: %s", l.expected, list(l.late))
		return
	}
	if len(l.late) > 0 {
		j.plan.notice(api.ReasonServiceNotProgrammed, "kube-proxy created no load balancer for %d of %d Service ports, see its log: %s", len(l.late), l.expected, list(l.late))
	}
	if len(l.stale) > 0 {
		j.plan.notice(api.ReasonServiceNotProgrammed, "%d of %d load balancers have different back ends than their Services: %s", len(l.stale), l.expected, list(l.stale))
	}
}

// repair restarts kube-proxy once for each loss of load balancers, if the API server has confirmed that they are required, no other node has the
// same loss, and the node has restarts left. Otherwise it returns the reason.
func (k *kubeProxy) repair(j *evaluation, b *balancers, lost map[kubeproxy.Frontend]types.NamespacedName) (note string) {
	if !j.repairs() {
		return "; repairs are disabled (spec.network.repair)"
	}
	if j.agreement.disagreements > 0 {
		return ""
	}
	if next := k.nextRestart(j.now); j.now.Before(next) {
		return fmt.Sprintf("; kube-proxy was restarted %d times in a day and is not restarted again before %s", len(k.restarts), next.UTC().Format(time.RFC3339))
	}
	e := j.evidence
	if e == nil || e.lost == nil || e.err != nil || e.first != "" {
		j.plan.query.lost, j.plan.query.onHost = lost, j.onHost
	}
	switch {
	case e == nil || e.lost == nil && e.err == nil || errors.Is(e.err, errNotReported):
		j.plan.soon()
		return ""
	case e.err != nil:
		return fmt.Sprintf("; kube-proxy is not restarted until the API server confirms the loss: %v", e.err)
	case e.first != "":
		return fmt.Sprintf("; Node %s has the same loss, so the cause may be shared: kube-proxy is restarted here once that Node has recovered", e.first)
	case (!j.isSteady || !j.agreement.isFresh(j.now)) && !j.agrees():
		return ""
	}
	var confirmed []string
	for front, service := range lost {
		p, next := b.created[front], unconfirmed
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
		k.restart(j, fmt.Sprintf("Windows lost %d load balancers: %s", len(confirmed), truncate.List(confirmed, namedLosses, ", ")))
	}
	return ""
}

// nextRestart returns the earliest time of the next restart for lost load balancers.
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

// hasCreatedAll reports whether the running process has created all load balancers once.
func (k *kubeProxy) hasCreatedAll() bool {
	return k.phase == proxyServing || k.phase == proxyRestarting
}

// isRepair reports whether something was lost and not everything is back: the Node then reports everything missing.
func (k *kubeProxy) isRepair() bool { return k.phase == proxyRestarting || k.phase == proxyRepairing }
