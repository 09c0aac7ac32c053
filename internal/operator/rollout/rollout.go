// Package rollout decides, without side effects, which host is acted on next and what the others wait for.
//
// Decide considers all hosts together: each needs at most one action, actions are ordered, and as many begin as the budget allows. Verify reports
// whether the node of a host in maintenance works again. The caller carries the actions out.
package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Fleet is the input of Decide.
type Fleet struct {
	Policy Policy
	Hosts  []Host
	// Orphans are the names of the Windows nodes without an instance, in order. They are left alone and do not count; otherwise a cordoned orphan
	// would block every rollout.
	Orphans []string
	Now     time.Time
}

// Policy is what the user allows, and the version that hosts should have.
type Policy struct {
	// Version is the version that nodes should have. VersionFault explains why no node may go to it; empty if nodes may.
	Version      string
	VersionFault string
	// Kubelet is the kubelet version of Version, for example v1.34.4; empty if unknown.
	Kubelet string
	// Unpublished means that the settings of the version are not published yet; until then, the disruption of an upgrade is unknown.
	Unpublished bool
	Paused      bool
	// MaxUnavailable is a number or a percentage of all Windows nodes.
	MaxUnavailable intstr.IntOrString
	// Canary is nil if the rollout has no canary.
	Canary *Canary
	// Windows are the times at which nodes in service may be drained; none means always.
	Windows []Window
	// Updates is what is allowed about Windows updates; nil if none are installed.
	Updates *Updates
	// Reboots allows restarts for Windows.
	Reboots bool
	// Faults are the errors in the user's settings, for the summary.
	Faults []string
}

// Canary is the number of nodes that get a version first, and how long they must work before the others follow.
type Canary struct {
	Count int
	Soak  time.Duration
}

// Host is the known state of one host.
type Host struct {
	// Name is the name of its WindowsInstance.
	Name string
	// Node is nil if there is none.
	Node *Node
	// Leaving means that the instance is being deleted; Released, that its host is not cleaned up; Paused, that the user has paused it; Joined, that
	// a join was completed.
	Leaving, Released, Paused, Joined bool
	// AdoptionPending means that another program configured the node, which must be drained before it joins.
	AdoptionPending bool
	// ReplaceReason is the reason for replacing the host's Machine; empty if there is none.
	ReplaceReason string
	// ReplaceWith is the name of the host that the user wants in its place; empty if there is none. Source is where the WindowsInstance comes from;
	// empty if the user created it.
	ReplaceWith, Source string
	// Staged means that the version's content is on the host. Disruption is the disruption of the upgrade.
	Staged     bool
	Disruption v1alpha1.PlanDisruption
	// Since is when the node reached its version. Arrived means that it reached the policy's version, although its Node may be gone.
	Since   time.Time
	Arrived bool
	// Former means that it reached another version than the policy's, and not the policy's since.
	Former bool
	// SettlesAt is the end of the time in which the pods of the last drain can start elsewhere; zero if there is none. The host keeps its place in the
	// budget until then.
	SettlesAt time.Time
	// MissingSince is when the host's Node disappeared; zero if it exists or never did.
	MissingSince time.Time
	// LastReboot is the last restart that Windows required.
	LastReboot *v1alpha1.LastReboot
	// Installed are the Windows updates that the operator has had installed.
	Installed []v1alpha1.InstalledUpdate
	// Maintenance is the current maintenance. Granted is an action that may begin but is not in the status yet.
	Maintenance *v1alpha1.Maintenance
	Granted     v1alpha1.PlanAction
	// Failure is the last failed action.
	Failure *v1alpha1.Failure
}

// Next is the next action on one host.
type Next struct {
	v1alpha1.Plan
	// Begin means that the action may begin or continue. Joins and staging have their own limits.
	Begin bool
	// InProgress means that maintenance was in progress, so that no new action begins.
	InProgress bool
	// Broken means that the node was broken; the action must not begin on a node that is not.
	Broken bool
	// RequestToken is the value of the annotation that requested a reboot.
	RequestToken string
	// Updates are the articles that a Patch installs, separated by commas, so that two of this type can be compared.
	Updates string
}

// PatchUpdates returns the articles that a Patch installs.
func (n Next) PatchUpdates() []string {
	if n.Updates == "" {
		return nil
	}
	return strings.Split(n.Updates, updatesSeparator)
}

// Plan is the result of Decide.
type Plan struct {
	// Hosts has the next action by host name. It omits hosts that need none.
	Hosts map[string]Next
	// Unhealthy describes, by host name, why the version does not work and since when; it counts as failed there.
	Unhealthy map[string]string
	// Unrepaired has the silent hosts that do not join again, because so many are silent that they are unlikely to be the cause.
	Unrepaired map[string]bool
	// Summary lacks StartedAt and EstimatedEnd.
	Summary v1alpha1.RolloutStatus
	// RecheckAt is when to decide again if nothing changes before; zero means never.
	RecheckAt time.Time
}

// Decide returns the next action on each host.
func Decide(f Fleet) Plan {
	p := &planner{Fleet: f, budget: newBudget(f), next: map[string]Next{}}
	p.countCanaries()
	p.countUpdates()
	p.stopped = p.failedUpgrades()
	p.checkWindows()
	p.countSilent()
	var needs []need
	for i := range f.Hosts {
		if n, needed := p.needOf(&f.Hosts[i]); needed {
			needs = append(needs, n)
		}
	}
	slices.SortStableFunc(needs, compare)
	for _, n := range needs {
		p.place(n)
	}
	return Plan{Hosts: p.next, Unhealthy: p.first.unhealthy, Unrepaired: p.silence.unrepaired, Summary: p.summary(), RecheckAt: p.recheckAt}
}

type planner struct {
	Fleet
	budget    *budget
	stopped   []stopped
	first     first
	updates   map[string]*update // by article
	windows   windows
	silence   silence
	next      map[string]Next
	recheckAt time.Time
}

// place lets the action begin or records what it waits for. The first check that returns a reason wins. Actions in progress continue.
func (p *planner) place(n need) {
	next := Next{Plan: v1alpha1.Plan{Action: n.action, Disruption: n.disruption, Message: n.reason}, RequestToken: n.requestToken, Updates: n.updates}
	next.InProgress = n.host.Maintenance != nil
	next.Broken = n.host.Node != nil && n.host.Node.Broken(p.Now)
	checks := []func(need) (reason, message string){
		p.paused, p.failed, p.replacement, p.unsupportedVersion, p.unpublished, p.stop, p.heldBack, p.coolingDown, p.fleetSilent, p.mayRecover, p.canary, p.updateCanary,
		p.window, p.outOfBudget,
	}
	if n.isInProgress() {
		checks = nil
	}
	for _, check := range checks {
		if reason, message := check(n); reason != "" {
			next.WaitsFor, next.Message = reason, n.reason+"; "+message
			p.next[n.host.Name] = next
			return
		}
	}
	next.Begin = true
	p.next[n.host.Name] = next
	if n.counts() {
		p.budget.reserve(n.host)
	}
	if n.changesVersion() {
		p.beginUpgrade(n.host)
	}
	if n.action == v1alpha1.ActionPatch {
		p.beginPatch(n)
	}
}

func (n need) isInProgress() bool {
	return n.host.Maintenance != nil || n.host.Granted == n.action
}

func (p *planner) paused(n need) (reason, message string) {
	switch {
	case n.host.Paused:
		return api.ReasonPaused, "paused by spec.paused of the WindowsInstance"
	case p.Policy.Paused:
		return api.ReasonPaused, fmt.Sprintf("paused by spec.rollout.paused of WindowsConfig %q", api.WindowsConfigName)
	}
	return "", ""
}

// failed blocks an action that failed on this host until something changes. A new reboot request is not blocked.
func (p *planner) failed(n need) (reason, message string) {
	f := n.host.Failure
	if !Failed(f, n.action, n.requestToken, p.Policy.Version) {
		return "", ""
	}
	return api.ReasonFailed, failedText(f)
}

func failedText(f *v1alpha1.Failure) string {
	return fmt.Sprintf("failed: %s; to retry, annotate the WindowsInstance with %s=true", f.Message, api.AnnotationRetry)
}

// Failed reports whether f, which may be nil, prevents an action from beginning again. It prevents an Upgrade only to the same version, a Patch only with
// the same updates (see holdBack), and never an action that the user requested.
func Failed(f *v1alpha1.Failure, action v1alpha1.PlanAction, requested, version string) bool {
	return f != nil && f.Action == action && action != v1alpha1.ActionPatch && requested == "" && (action != v1alpha1.ActionUpgrade || f.Version == version)
}

func (p *planner) unsupportedVersion(n need) (reason, message string) {
	if p.Policy.VersionFault != "" && (n.changesVersion() || n.action == v1alpha1.ActionStage) {
		return api.ReasonVersionSkewUnsupported, p.Policy.VersionFault
	}
	return "", ""
}

// unpublished blocks a version whose settings are not published: a new operator is about to publish them.
func (p *planner) unpublished(n need) (reason, message string) {
	if p.Policy.Unpublished && n.changesVersion() {
		return api.ReasonUnpublished, "the settings for that version are not published yet"
	}
	return "", ""
}

// stop blocks a version that failed on another host.
func (p *planner) stop(n need) (reason, message string) {
	if !n.changesVersion() || len(p.stopped) == 0 {
		return "", ""
	}
	first := p.stopped[0]
	return api.ReasonRolloutStopped, fmt.Sprintf("version %s failed on WindowsInstance %s: %s", p.Policy.Version, first.host, first.reason)
}

// upgradeCooldown is how long a node's WICD may take to confirm a version: it watches the services for a minute before it begins another update
// (internal/node/daemon/update/updater.go). A node drained before that would wait without pods.
const upgradeCooldown = 75 * time.Second

func (p *planner) coolingDown(n need) (reason, message string) {
	until := n.host.Since.Add(upgradeCooldown)
	if n.action != v1alpha1.ActionUpgrade || n.host.Since.IsZero() || !until.After(p.Now) {
		return "", ""
	}
	p.scheduleRecheck(until)
	return api.ReasonUpgradeCooldown, "the node just got its version; the next upgrade can begin at " + until.UTC().Format(time.RFC3339)
}

// window blocks disruptive actions outside the maintenance windows, except those that the user requested. It also blocks actions on broken nodes,
// because such a node may recover meanwhile.
func (p *planner) window(n need) (reason, message string) {
	if !n.disrupts() || n.requestToken != "" || n.action == v1alpha1.ActionLeave || len(p.Policy.Windows) == 0 {
		return "", ""
	}
	switch {
	case p.windows.open:
		return "", ""
	case p.windows.opens.IsZero():
		return api.ReasonMaintenanceWindow, "no maintenance window will open"
	}
	p.scheduleRecheck(p.windows.opens)
	return api.ReasonMaintenanceWindow, fmt.Sprintf("the next maintenance window opens at %s", p.windows.opens.Format(time.RFC3339))
}

func (p *planner) outOfBudget(n need) (reason, message string) {
	if !n.counts() || p.budget.allows(n.host) {
		return "", ""
	}
	for i := range p.Hosts {
		if h := &p.Hosts[i]; h.SettlesAt.After(p.Now) {
			p.scheduleRecheck(h.SettlesAt)
		}
	}
	return api.ReasonBudget, p.budget.String()
}

// stopped is a host on which the version failed, and the failure.
type stopped struct{ host, reason string }

// failedUpgrades returns the hosts on which the version failed or does not work. A drain that timed out is not the version's fault, and a paused host
// does not stop the others.
func (p *planner) failedUpgrades() []stopped {
	var all []stopped
	for i := range p.Hosts {
		h := &p.Hosts[i]
		f := h.Failure
		switch reason, isUnhealthy := p.first.unhealthy[h.Name]; {
		case h.Paused:
		case f != nil && f.Action == v1alpha1.ActionUpgrade && f.Version == p.Policy.Version && f.Step != v1alpha1.MaintenanceDrain:
			all = append(all, stopped{h.Name, f.Message})
		case isUnhealthy:
			all = append(all, stopped{h.Name, reason})
		}
	}
	slices.SortFunc(all, func(a, b stopped) int { return cmp.Compare(a.host, b.host) })
	return all
}

func (p *planner) scheduleRecheck(at time.Time) {
	if p.recheckAt.IsZero() || at.Before(p.recheckAt) {
		p.recheckAt = at
	}
}

// compare orders actions in progress first, then nodes out of service, then by least disruption.
func compare(a, b need) int {
	rank := func(x bool) int {
		if x {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(rank(a.host.busy()), rank(b.host.busy())),
		cmp.Compare(rank(a.host.isOutOfService()), rank(b.host.isOutOfService())),
		cmp.Compare(cost(a.disruption), cost(b.disruption)),
		cmp.Compare(urgency(a), urgency(b)),
		cmp.Compare(a.host.Name, b.host.Name),
	)
}

// urgency ranks what users wait for first.
func urgency(n need) int {
	switch {
	case n.action == v1alpha1.ActionLeave:
		return 0
	case n.requestToken != "":
		return 1
	case n.action == v1alpha1.ActionUpgrade:
		return 2
	}
	return 3
}

// cost ranks disruptions.
func cost(d v1alpha1.PlanDisruption) int {
	return slices.Index([]v1alpha1.PlanDisruption{
		v1alpha1.DisruptionNone, v1alpha1.DisruptionRestart, v1alpha1.DisruptionDrain, v1alpha1.DisruptionReboot,
	}, d)
}
