// Package rollout decides, purely, which host is acted on next, and what the others wait for.
//
// Decide looks at all hosts at once: each needs at most one action, actions are put in order, and as many begin as the budget
// lets out of service. Verify, for a host that is under way, says whether its node works again. Both only look; whoever asks
// acts.
package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Fleet is all that Decide looks at.
type Fleet struct {
	Policy Policy
	Hosts  []Host
	// Orphans are the names of the Windows nodes without an instance, in order. Nothing is done to them, and they do not count: whoever leaves
	// them out of service would hold up all others for ever.
	Orphans []string
	Now     time.Time
}

// Policy is what the user allows, and what hosts shall become.
type Policy struct {
	// Version that nodes shall have. Unfit says why no node may go there; empty when they may.
	Version string
	Unfit   string
	// Kubelet is the one of Version, as in v1.34.4; empty where it is not known.
	Kubelet string
	// Unpublished says that nodes cannot read yet what the version is; what it disrupts is not known before.
	Unpublished bool
	Paused      bool
	// MaxUnavailable is a number or a percentage of all Windows nodes.
	MaxUnavailable intstr.IntOrString
	// Canary is nil where no node goes first.
	Canary *Canary
	// Windows are when serving nodes may be taken out of service; without any, always.
	Windows []Window
	// Reboots allows the restarts that Windows needs.
	Reboots bool
	// Faults are what is wrong with the user's settings, for the summary.
	Faults []string
}

// Canary is how many nodes go first, and for how long they must work before the others follow.
type Canary struct {
	Count int
	Soak  time.Duration
}

// Host is what is known of one host.
type Host struct {
	// Name of its WindowsInstance.
	Name string
	// Node is nil where there is none.
	Node *Node
	// Leaving says that the instance is being deleted, Released that its host is let go as it is, Paused that the user holds it, Joined that
	// a join was completed.
	Leaving, Released, Paused, Joined bool
	// AdoptionPending says that the node was configured by somebody else and has to be drained before it is joined.
	AdoptionPending bool
	// Replace says why the Machine of the host is to be replaced; empty when it is not.
	Replace string
	// Staged says that the content of the version is on the host, Disruption what it costs to go there.
	Staged     bool
	Disruption v1alpha1.PlanDisruption
	// Since is when the node came to the version it has; Arrived says that it had come to the policy's version, though its Node may be gone.
	Since   time.Time
	Arrived bool
	// Former says that it had come to another version than the policy's, and not to that since.
	Former bool
	// Settles is until when the pods that left the node in its last drain are given time to start elsewhere; zero when they are not. The host
	// holds its place until then.
	Settles time.Time
	// MissingSince is since when the Node of a host that had one has not been there; zero where it is, or never was.
	MissingSince time.Time
	// LastReboot is the last restart for which Windows waited.
	LastReboot *v1alpha1.LastReboot
	// UnderWay is what is being done with the host, and Granted what it was told to begin and has not yet written down.
	UnderWay *v1alpha1.Maintenance
	Granted  v1alpha1.PlanAction
	// Failure is what was tried in vain.
	Failure *v1alpha1.Failure
}

// Next is what happens to one host.
type Next struct {
	v1alpha1.Plan
	// Begin says that the action may begin, or go on. Joins and staging have limits of their own.
	Begin bool
	// GoesOn says that something was under way with the host, so that nothing begins anew by this.
	GoesOn bool
	// Broken says that the node was broken, and that the action may begin on no other.
	Broken bool
	// Asked is the value of the annotation that asked for a reboot.
	Asked string
}

// Plan is what happens to all hosts.
type Plan struct {
	// Hosts by name; one that needs nothing is not in it.
	Hosts map[string]Next
	// Sick says of hosts on which the version does not work since when, and what is wrong: that is a failure of the version.
	Sick map[string]string
	// Unrepaired are the silent hosts that are not joined again: so many are silent that the cause is hardly theirs.
	Unrepaired map[string]bool
	// Summary without StartedAt and EstimatedEnd.
	Summary v1alpha1.RolloutStatus
	// Again is when to look again although nothing happened; zero for never.
	Again time.Time
}

// Decide says what happens to each host.
func Decide(f Fleet) Plan {
	p := &planner{Fleet: f, budget: newBudget(f), next: map[string]Next{}}
	p.lookAtFirst()
	p.stopped = p.failedUpgrades()
	p.lookAtWindows()
	p.lookAtSilence()
	var needs []need
	for i := range f.Hosts {
		if n, some := needOf(f.Policy, &f.Hosts[i], f.Now); some {
			needs = append(needs, n)
		}
	}
	slices.SortStableFunc(needs, compare)
	for _, n := range needs {
		p.place(n)
	}
	return Plan{Hosts: p.next, Sick: p.first.sick, Unrepaired: p.silence.unrepaired, Summary: p.summary(), Again: p.again}
}

// planner is the work of one Decide.
type planner struct {
	Fleet
	budget  *budget
	stopped []stopped
	first   first
	windows windows
	silence silence
	next    map[string]Next
	again   time.Time
}

// place lets the action begin, or says what it waits for. The first check that speaks decides. What has begun goes on.
func (p *planner) place(n need) {
	next := Next{Plan: v1alpha1.Plan{Action: n.action, Disruption: n.disruption, Message: n.why}, Asked: n.asked}
	next.GoesOn = n.host.UnderWay != nil
	next.Broken = n.host.Node != nil && n.host.Node.Broken(p.Now)
	checks := []func(need) (reason, message string){
		p.paused, p.failed, p.unfit, p.unpublished, p.stop, p.settles, p.fleetSilent, p.notBroken, p.canary, p.window, p.outOfBudget,
	}
	if n.isUnderWay() {
		checks = nil
	}
	for _, check := range checks {
		if reason, message := check(n); reason != "" {
			next.WaitsFor, next.Message = reason, n.why+"; "+message
			p.next[n.host.Name] = next
			return
		}
	}
	next.Begin = true
	p.next[n.host.Name] = next
	if n.counts() {
		p.budget.take(n.host)
	}
	if n.changesVersion() {
		p.goes(n.host)
	}
}

// isUnderWay says whether the action has begun, or was told to.
func (n need) isUnderWay() bool {
	return n.host.UnderWay != nil || n.host.Granted == n.action
}

func (p *planner) paused(n need) (reason, message string) {
	switch {
	case n.host.Paused:
		return api.ReasonPaused, "spec.paused of the WindowsInstance holds it"
	case p.Policy.Paused:
		return api.ReasonPaused, fmt.Sprintf("spec.rollout.paused of WindowsConfig %q holds it", api.WindowsConfigName)
	}
	return "", ""
}

// failed holds what was tried on this host in vain, until something changes. Who asks for a restart again, asks anew.
func (p *planner) failed(n need) (reason, message string) {
	f := n.host.Failure
	if !Failed(f, n.action, n.asked, p.Policy.Version) {
		return "", ""
	}
	return api.ReasonFailed, fmt.Sprintf("it failed: %s; annotate the WindowsInstance with %s=true to try it again",
		f.Message, api.AnnotationRetry)
}

// Failed says whether f, which may be nil, keeps an action from beginning again: an Upgrade if it was to the same version, and nothing that
// a user asked for.
func Failed(f *v1alpha1.Failure, action v1alpha1.PlanAction, asked, version string) bool {
	return f != nil && f.Action == action && asked == "" && (action != v1alpha1.ActionUpgrade || f.Version == version)
}

func (p *planner) unfit(n need) (reason, message string) {
	if p.Policy.Unfit != "" && (n.changesVersion() || n.action == v1alpha1.ActionStage) {
		return api.ReasonVersionSkewUnsupported, p.Policy.Unfit
	}
	return "", ""
}

// unpublished holds a version back that nodes could not read: an operator that has just started is about to publish it.
func (p *planner) unpublished(n need) (reason, message string) {
	if p.Policy.Unpublished && n.changesVersion() {
		return api.ReasonUnpublished, "what nodes of that version must have is not published yet"
	}
	return "", ""
}

// stop holds a version back that failed on another host.
func (p *planner) stop(n need) (reason, message string) {
	if !n.changesVersion() || len(p.stopped) == 0 {
		return "", ""
	}
	first := p.stopped[0]
	return api.ReasonRolloutStopped, fmt.Sprintf("version %s failed on WindowsInstance %s: %s", p.Policy.Version, first.host, first.why)
}

// settling is how long a node's own daemon may take to be sure of a version: it watches the services for a minute, and does not begin
// another update before (internal/daemon/update.go). A node drained meanwhile would only wait, empty.
const settling = 75 * time.Second

// settles leaves a node alone that has just come to the version it has.
func (p *planner) settles(n need) (reason, message string) {
	until := n.host.Since.Add(settling)
	if n.action != v1alpha1.ActionUpgrade || n.host.Since.IsZero() || !until.After(p.Now) {
		return "", ""
	}
	p.lookAgain(until)
	return api.ReasonUpgradeCooldown, "the node came to its version just now, and is sure of it at " + until.UTC().Format(time.RFC3339)
}

// window holds back what makes pods leave at a time the user does not allow. What the user asks for does not wait. A node that is broken
// does: it may serve again while it is acted on.
func (p *planner) window(n need) (reason, message string) {
	if !n.disrupts() || n.asked != "" || n.action == v1alpha1.ActionLeave || len(p.Policy.Windows) == 0 {
		return "", ""
	}
	switch {
	case p.windows.open:
		return "", ""
	case p.windows.opens.IsZero():
		return api.ReasonMaintenanceWindow, "no maintenance window ever opens"
	}
	p.lookAgain(p.windows.opens)
	return api.ReasonMaintenanceWindow, fmt.Sprintf("the next maintenance window opens at %s", p.windows.opens.Format(time.RFC3339))
}

func (p *planner) outOfBudget(n need) (reason, message string) {
	if !n.counts() || p.budget.allows(n.host) {
		return "", ""
	}
	for i := range p.Hosts {
		if h := &p.Hosts[i]; h.Settles.After(p.Now) {
			p.lookAgain(h.Settles)
		}
	}
	return api.ReasonBudget, p.budget.String()
}

// stopped is a host on which the version failed, and how.
type stopped struct{ host, why string }

// failedUpgrades are the hosts on which the version failed, or does not work. A drain that was given up is not the version's fault, and a host
// that the user holds stops no others.
func (p *planner) failedUpgrades() []stopped {
	var all []stopped
	for i := range p.Hosts {
		h := &p.Hosts[i]
		f := h.Failure
		switch why, isSick := p.first.sick[h.Name]; {
		case h.Paused:
		case f != nil && f.Action == v1alpha1.ActionUpgrade && f.Version == p.Policy.Version && f.Step != v1alpha1.MaintenanceDrain:
			all = append(all, stopped{h.Name, f.Message})
		case isSick:
			all = append(all, stopped{h.Name, why})
		}
	}
	slices.SortFunc(all, func(a, b stopped) int { return cmp.Compare(a.host, b.host) })
	return all
}

func (p *planner) lookAgain(at time.Time) {
	if p.again.IsZero() || at.Before(p.again) {
		p.again = at
	}
}

// compare puts what has begun first, then what is broken, then what disrupts least.
func compare(a, b need) int {
	rank := func(x bool) int {
		if x {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(rank(a.host.busy()), rank(b.host.busy())),
		cmp.Compare(rank(a.host.isOut()), rank(b.host.isOut())),
		cmp.Compare(cost(a.disruption), cost(b.disruption)),
		cmp.Compare(urgency(a), urgency(b)),
		cmp.Compare(a.host.Name, b.host.Name),
	)
}

// urgency puts what users wait for first.
func urgency(n need) int {
	switch {
	case n.action == v1alpha1.ActionLeave:
		return 0
	case n.asked != "":
		return 1
	case n.action == v1alpha1.ActionUpgrade:
		return 2
	}
	return 3
}

// cost orders disruptions.
func cost(d v1alpha1.PlanDisruption) int {
	return slices.Index([]v1alpha1.PlanDisruption{
		v1alpha1.DisruptionNone, v1alpha1.DisruptionRestart, v1alpha1.DisruptionDrain, v1alpha1.DisruptionReboot,
	}, d)
}
