package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// Updates is what the user allows about Windows updates.
type Updates struct {
	// Blocked are articles that are not installed.
	Blocked []string
	// Rings are in the order in which they get updates. Without any, all nodes are in one that defers nothing.
	Rings []Ring
}

// Ring is a group of nodes that get updates together.
type Ring struct {
	Name     string
	Selector labels.Selector
	// Defer is how long after its publication an update is installed at the earliest.
	Defer time.Duration
}

// UpdatesOf returns what a spec allows; nil if no updates are installed. An invalid selector selects no nodes; faults describe it.
func UpdatesOf(spec v1alpha1.WindowsUpdatesSpec) (u *Updates, faults []string) {
	if spec.Policy != v1alpha1.UpdatesInstall {
		return nil, nil
	}
	u = &Updates{Blocked: spec.Blocked}
	for i, r := range spec.Rings {
		selector, err := metav1.LabelSelectorAsSelector(&r.NodeSelector)
		if err != nil {
			selector = labels.Nothing()
			faults = append(faults, fmt.Sprintf("spec.windowsUpdates.rings[%d].nodeSelector: %v", i, err))
		}
		u.Rings = append(u.Rings, Ring{Name: r.Name, Selector: selector, Defer: time.Duration(r.DeferDays) * 24 * time.Hour})
	}
	return u, faults
}

// ringOf returns the index of a node's ring. fault is why the node is in none; empty if it is.
func (u *Updates) ringOf(n *Node) (index int, fault string) {
	if len(u.Rings) == 0 {
		return 0, ""
	}
	var found []int
	for i, r := range u.Rings {
		if r.Selector.Matches(labels.Set(n.Labels)) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return 0, "no ring of spec.windowsUpdates.rings selects the node"
	case 1:
		return found[0], ""
	}
	return 0, fmt.Sprintf("rings %s and %s of spec.windowsUpdates.rings both select the node", u.Rings[found[0]].Name, u.Rings[found[1]].Name)
}

// update is what is known about one update in the fleet.
type update struct {
	// failed is the first host on which it failed; nil if there is none.
	failed *stopped
	// soaked is the number of nodes that have worked with it for the soak time, tried that of all others that have or are getting it.
	soaked, tried int
	// until is when the last working node completes its soak time; zero if none is working.
	until time.Time
	// needed and soakedIn are the rings with nodes that need it, or have it, and with nodes that have worked with it for the soak time.
	needed, soakedIn map[int]bool
}

// countUpdates counts what nodes need, get and have once per plan.
func (p *planner) countUpdates() {
	p.updates = map[string]*update{}
	if p.Policy.Updates == nil {
		return
	}
	for i := range p.Hosts {
		h := &p.Hosts[i]
		if f := h.Failure; countsAgainstUpdates(f) && !h.Paused {
			for _, kb := range f.Updates {
				if u := p.update(kb); u.failed == nil || h.Name < u.failed.host {
					u.failed = &stopped{h.Name, f.Message}
				}
			}
		}
		if h.Node == nil {
			continue
		}
		ring, fault := p.Policy.Updates.ringOf(h.Node)
		if fault != "" {
			ring = -1 // it holds no other ring back
		}
		for _, o := range h.Node.Offers {
			p.update(o.KB).needed[ring] = true
		}
		if m := h.Maintenance; m != nil && m.Action == v1alpha1.ActionPatch {
			for _, kb := range m.Updates {
				p.update(kb).needed[ring] = true
			}
		}
		for _, done := range h.Installed {
			p.countInstalled(h, p.update(done.Article), ring, done.At.Time)
		}
	}
}

// countsAgainstUpdates reports whether f, which may be nil, counts against its updates. A drain that timed out does not.
func countsAgainstUpdates(f *v1alpha1.Failure) bool {
	return f != nil && f.Action == v1alpha1.ActionPatch && f.Step != v1alpha1.MaintenanceDrain
}

// PatchFailed reports whether f, which may be nil, prevents the installation of these updates on its host. A failure before the installation began
// prevents each.
func PatchFailed(f *v1alpha1.Failure, updates []string) bool {
	if f == nil || f.Action != v1alpha1.ActionPatch {
		return false
	}
	return f.Step == v1alpha1.MaintenanceDrain || len(f.Updates) == 0 || slices.ContainsFunc(updates, func(kb string) bool { return slices.Contains(f.Updates, kb) })
}

func (p *planner) update(kb string) *update {
	if p.updates[kb] == nil {
		p.updates[kb] = &update{needed: map[int]bool{}, soakedIn: map[int]bool{}}
	}
	return p.updates[kb]
}

func (p *planner) countInstalled(h *Host, u *update, ring int, at time.Time) {
	u.needed[ring] = true
	works := !h.Node.isOutOfService() && h.Node.Unhealthy == ""
	until := nodestate.Later(at, h.Node.WorksSince).Add(p.Policy.soak())
	switch {
	case works && !until.After(p.Now):
		u.soaked++
		u.soakedIn[ring] = true
		return
	case works && until.After(u.until):
		u.until = until
	}
	u.tried++
}

// patchNeed returns the installation of the updates that a node offers, or why none of them may be installed.
func (p *planner) patchNeed(h *Host) (n need, needed bool) {
	if p.Policy.Updates == nil || h.Node == nil || !h.Joined || len(h.Node.Offers) == 0 {
		return need{}, false
	}
	n = need{host: h, action: v1alpha1.ActionPatch, disruption: v1alpha1.DisruptionDrain}
	var kbs, texts, held []string
	for _, o := range h.Node.Offers {
		if slices.Contains(p.Policy.Updates.Blocked, o.KB) {
			continue // the node does not know it yet
		}
		if reason, message := p.holdBack(h, o); reason != "" {
			held = append(held, o.KB)
			if n.heldReason == "" {
				n.heldReason, n.held = reason, message
			}
			continue
		}
		kbs, texts = append(kbs, o.KB), append(texts, describeOffer(o))
		if !o.NoRestart {
			n.disruption = v1alpha1.DisruptionReboot
		}
	}
	if len(kbs) == 0 {
		n.reason = "the node needs " + strings.Join(held, ", ")
		return n, len(held) > 0
	}
	n.heldReason, n.held = "", ""
	n.updates, n.reason = strings.Join(kbs, updatesSeparator), "installs "+strings.Join(texts, ", ")
	return n, true
}

// maxPatchFailures is how many installations may fail on a host before it gets no more updates: by then, the host is assumed to be the cause.
const maxPatchFailures = 3

// updatesSeparator separates articles in Next.Updates.
const updatesSeparator = ","

func describeOffer(o windowsupdate.Offer) string {
	if o.Published.IsZero() {
		return o.KB
	}
	return fmt.Sprintf("%s (published %s)", o.KB, o.Published.UTC().Format(time.DateOnly))
}

// holdBack returns why an update must not be installed on a host now; empty if it may.
func (p *planner) holdBack(h *Host, o windowsupdate.Offer) (reason, message string) {
	if !h.Node.Ready {
		return api.ReasonNodeNotReady, "the node is not Ready" // a restart might help it, new updates would not
	}
	for _, done := range h.Installed {
		if done.Article == o.KB {
			return api.ReasonUpdateNotKept, fmt.Sprintf("%s was installed, and the node worked with it at %s, but Windows offers it again; "+
				"to install it once more, annotate the WindowsInstance with %s=true", o.KB, done.At.UTC().Format(time.RFC3339), api.AnnotationRetry)
		}
	}
	if f := h.Failure; PatchFailed(f, []string{o.KB}) {
		return api.ReasonFailed, failedText(f)
	}
	if f := h.Failure; countsAgainstUpdates(f) && f.Attempts >= maxPatchFailures {
		return api.ReasonFailed, fmt.Sprintf("%d installations of updates have failed on this host, the last one: %s; to retry, annotate the WindowsInstance with %s=true",
			f.Attempts, f.Message, api.AnnotationRetry)
	}
	u := p.update(o.KB)
	if u.failed != nil {
		return api.ReasonRolloutStopped, fmt.Sprintf("%s failed on WindowsInstance %s: %s", o.KB, u.failed.host, u.failed.reason)
	}
	ring, fault := p.Policy.Updates.ringOf(h.Node)
	if fault != "" {
		return api.ReasonUpdateRing, fault
	}
	if len(p.Policy.Updates.Rings) == 0 {
		return "", ""
	}
	if reason, message := p.deferred(p.Policy.Updates.Rings[ring], o); reason != "" {
		return reason, message
	}
	for earlier := range ring {
		if u.needed[earlier] && !u.soakedIn[earlier] {
			if !u.until.IsZero() {
				p.scheduleRecheck(u.until)
			}
			return api.ReasonUpdateRing, fmt.Sprintf("no node of ring %s has worked with %s for %s", p.Policy.Updates.Rings[earlier].Name, o.KB, p.Policy.soak())
		}
	}
	return "", ""
}

func (p *planner) deferred(r Ring, o windowsupdate.Offer) (reason, message string) {
	if r.Defer == 0 {
		return "", ""
	}
	if o.Published.IsZero() {
		return api.ReasonUpdateDeferred, fmt.Sprintf("ring %s defers updates, and Windows does not know when %s was published", r.Name, o.KB)
	}
	at := o.Published.Add(r.Defer)
	if !at.After(p.Now) {
		return "", ""
	}
	p.scheduleRecheck(at)
	return api.ReasonUpdateDeferred, fmt.Sprintf("ring %s defers %s until %s", r.Name, o.KB, at.UTC().Format(time.RFC3339))
}

// heldBack blocks an installation without an update that may be installed.
func (p *planner) heldBack(n need) (reason, message string) { return n.heldReason, n.held }

// updateCanary lets only the first nodes get an update until they have worked with it for the soak time.
func (p *planner) updateCanary(n need) (reason, message string) {
	c := p.Policy.Canary
	if c == nil || n.action != v1alpha1.ActionPatch {
		return "", ""
	}
	for kb := range strings.SplitSeq(n.updates, updatesSeparator) {
		u := p.update(kb)
		switch {
		case u.soaked >= c.Count, u.soaked+u.tried < c.Count:
		case !u.until.IsZero():
			p.scheduleRecheck(u.until)
			return api.ReasonCanary, fmt.Sprintf("the canary nodes must work with %s until %s", kb, u.until.UTC().Format(time.RFC3339))
		default:
			return api.ReasonCanary, "canary nodes are getting " + kb + " or do not work with it"
		}
	}
	return "", ""
}

// beginPatch counts a host on which the installation of updates begins or is in progress.
func (p *planner) beginPatch(n need) {
	for kb := range strings.SplitSeq(n.updates, updatesSeparator) {
		p.update(kb).tried++
	}
}
