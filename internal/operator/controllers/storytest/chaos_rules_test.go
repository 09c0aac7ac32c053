package storytest

import (
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// The rule names that WMCO_CHAOS_RULES accepts, separated by commas.
const (
	ruleBudget          = "budget"
	ruleHeld            = "held"
	ruleWindow          = "window"
	rulePause           = "pause"
	ruleCanary          = "canary"
	ruleTurn            = "turn"
	ruleTurnByJoin      = "turn-by-join"
	ruleTurnByRepair    = "turn-by-repair"
	ruleTurnWithoutNode = "turn-without-node"
	ruleCordon          = "cordon"
	ruleCause           = "cause"
	ruleRestarts        = "restarts"
	ruleRecovers        = "recovers"
)

// chaosRules returns the rules with their descriptions.
func chaosRules() []struct{ name, description string } {
	return []struct{ name, description string }{
		{ruleBudget, "the operator takes no serving node out while as many as maxUnavailable are out"},
		{ruleHeld, "the operator works on no more nodes at a time than maxUnavailable, whether they serve or not"},
		{ruleWindow, "nothing planned begins on a node out of a window, unless the node has been out of service for long"},
		{rulePause, "nothing begins while the rollout is paused"},
		{ruleCanary, "until count nodes have worked for soak, no more than count have the version or go to it; one may replace a dead one"},
		{ruleTurn, "WICD goes to a version only in an upgrade of its host"},
		{ruleTurnByJoin, "a join changes no version of a node that serves"},
		{ruleTurnByRepair, "a repair changes no version"},
		{ruleTurnWithoutNode, "a host whose Node was deleted goes to no version that failed elsewhere"},
		{ruleCordon, "a user's cordon stays"},
		{ruleCause, "a pod is evicted only by a drain of its node, and its successor is not evicted again"},
		{ruleRestarts, "Windows restarts once for a cause, and at most four times a day without a user"},
		{ruleRecovers, "when everything works again, all nodes serve with the operator's version"},
	}
}

// chaosHold is a maintenance for which the operator keeps a node out of service.
type chaosHold struct {
	action  v1alpha1.PlanAction
	since   time.Time
	kinds   map[string]bool // of effects on the node
	leave   int             // pods that had to leave
	evicted map[string]int  // by app
}

// effect is called before each effect of a maintenance on a node.
func (h *chaosHost) effect(kind string) *chaosHold {
	m := h.maintenance()
	if m == nil {
		h.w.breach(ruleCause, "%s: %s without a maintenance", h.name, kind)
		return &chaosHold{kinds: map[string]bool{}}
	}
	if h.hold == nil || h.hold.action != m.Action || !h.hold.since.Equal(m.StartedAt.Time) {
		h.checkBudget(m)
		h.hold = &chaosHold{action: m.Action, since: m.StartedAt.Time, kinds: map[string]bool{}, leave: h.mustLeave()}
	}
	if !h.hold.kinds[kind] {
		h.hold.kinds[kind] = true
		h.checkWindow(m, kind)
	}
	return h.hold
}

// checkBudget counts the nodes out of service when the operator starts to act on a node.
func (h *chaosHost) checkBudget(m *v1alpha1.Maintenance) {
	node := h.nodeSeen()
	serves := node != nil && nodestate.IsReady(node) && !node.Spec.Unschedulable
	if m.Action == v1alpha1.ActionLeave && (node == nil || !nodestate.IsReady(node)) {
		return // nothing is lost
	}
	out, held := 0, 1
	names := h.name
	for _, o := range h.w.hosts {
		if o == h || !o.announced {
			continue
		}
		switch {
		case o.nodeSeen() == nil && (o.hold == nil || !rollout.NeedsNode(o.hold.action)):
		case o.hold != nil:
			out, held = out+1, held+1
			names += ", " + o.name + " held"
		case o.isOut() && !o.outSince.IsZero() && time.Since(o.outSince) >= stale:
			out++
			names += ", " + o.name + " out"
		}
	}
	limit := h.w.limit()
	if serves && out >= limit {
		h.w.breach(ruleBudget, "%s serves and is taken out of service for %s as number %d of %d (%s)", h.name, m.Action, out+1, limit, names)
	}
	if held > limit {
		h.w.breach(ruleHeld, "the operator works on %s for %s as on number %d of %d (%s)", h.name, m.Action, held, limit, names)
	}
}

// checkWindow checks that a planned action starts in a maintenance window.
func (h *chaosHost) checkWindow(m *v1alpha1.Maintenance, kind string) {
	isPlanned := m.Action != v1alpha1.ActionLeave && m.RequestToken == ""
	if !isPlanned || h.w.inWindow(m.StartedAt.Time) {
		return
	}
	if !h.notReadySince.IsZero() && time.Since(h.notReadySince) >= taintEvicts {
		return
	}
	h.w.breach(ruleWindow, "%s: %s for %s, which began out of a window", h.name, kind, m.Action)
}

// isPaused reports whether the rollout has been paused for longer than stale.
func (w *chaosWorld) isPaused(at time.Time) bool {
	return !w.pausedSince.IsZero() && at.Sub(w.pausedSince) > stale
}

// begins is called when the operator records the start of an action.
func (h *chaosHost) begins(m *v1alpha1.Maintenance) {
	h.w.record("%s: %s begins: %s", h.name, m.Action, m.Message)
	if h.w.isPaused(time.Now()) {
		h.w.breach(rulePause, "%s: %s begins although the rollout is paused", h.name, m.Action)
	}
	if m.Action == v1alpha1.ActionUpgrade {
		h.checkCanary(m.Version)
	}
}

// checkCanary counts the nodes that try a version when another one starts to.
func (h *chaosHost) checkCanary(version string) {
	c := h.w.rules().Spec.Rollout.Canary
	if c == nil || h.version == version {
		return
	}
	soak, err := time.ParseDuration(c.Soak)
	h.w.must(err)
	soaked, tries, dead := 0, 1, 0
	names := h.name
	for _, o := range h.w.hosts {
		m := o.maintenance()
		upgrading := o.targetVersion == version || m != nil && m.Action == v1alpha1.ActionUpgrade && m.Version == version
		if o == h || !o.announced || o.version != version && !upgrading {
			continue
		}
		works := time.Since(o.healthyAt) <= stale+30*time.Second
		switch {
		case o.version == version && works && o.healthyAt.Sub(o.versionAt) >= soak-stale:
			soaked++
		case o.firstJoined == version:
		case !o.alive() || o.nodeSeen() == nil || o.dies.isActive() || !o.notReadySince.IsZero() && time.Since(o.notReadySince) >= taintEvicts:
			dead++
			tries++
			names += ", " + o.name + " (dead)"
		default:
			tries++
			names += ", " + o.name
		}
	}
	if soaked < int(c.Count) && tries > int(c.Count)+min(dead, 1) {
		h.w.breach(ruleCanary, "%d nodes try %s (%s), %d have worked for %s, the canary is %d", tries, version, names, soaked, c.Soak, c.Count)
	}
}

// checkTurn checks that WICD goes to a version only during an upgrade of its host.
func (h *chaosHost) checkTurn(version string) {
	m := h.maintenance()
	if m != nil && m.Action == v1alpha1.ActionUpgrade && (m.Version == version || m.PreviousVersion == version) {
		return
	}
	node := h.nodeSeen()
	h.w.record("%s upgrades to %s out of turn", h.name, version)
	h.w.breach(ruleTurn, "%s goes from %s to %s; cordoned: %v, pods on it: %d, under way: %+v", h.name, h.version, version, node.Spec.Unschedulable, h.mustLeave(), m)
}

// checkCordons checks that the users' cordons remain.
func (w *chaosWorld) checkCordons() {
	for _, h := range w.hosts {
		if node := h.nodeSeen(); h.userCordon && node != nil && !node.Spec.Unschedulable {
			w.breach(ruleCordon, "%s was uncordoned, and not by a user", h.name)
			h.userCordon = false
		}
	}
}

// checkRestarts counts restarts by the operator.
func (h *chaosHost) checkRestarts() {
	h.w.restarts++
	m := h.maintenance()
	if m == nil || m.RequestToken != "" {
		if h.restartsDone++; h.restartsDone > h.restartRequests {
			h.w.breach(ruleRestarts, "%s restarts for the %dth time, and users requested %d restarts", h.name, h.restartsDone, h.restartRequests)
		}
		return
	}
	cause := "cause " + string(rune('0'+h.restartCauses))
	h.restartsFor[cause]++
	if n := h.restartsFor[cause]; n > 1 {
		h.w.breach(ruleRestarts, "%s restarts for the %dth time for the same cause", h.name, n)
	}
	h.restarted = append(h.restarted, time.Now())
	if n := len(h.restarted); n > 4 && time.Since(h.restarted[n-5]) < 24*time.Hour {
		h.w.breach(ruleRestarts, "%s restarts for the fifth time in a day", h.name)
	}
}

// isOut reports whether the node accepts no pods.
func (h *chaosHost) isOut() bool {
	node := h.nodeSeen()
	return node != nil && (!nodestate.IsReady(node) || node.Spec.Unschedulable)
}

// look records since when the node has been NotReady, out of service or healthy, as users see it.
func (h *chaosHost) look() {
	node, now := h.nodeSeen(), time.Now()
	since := func(at *time.Time, holds bool) {
		switch {
		case !holds:
			*at = time.Time{}
		case at.IsZero():
			*at = now
		}
	}
	since(&h.notReadySince, node != nil && !nodestate.IsReady(node))
	since(&h.outSince, h.isOut())
	if h.alive() && !h.dies.isActive() && !h.fails.isActive() && h.version != "" {
		h.healthyAt = now
	}
}
