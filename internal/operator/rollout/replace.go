package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// ReplacementSoak is how long a host must have worked before it takes the place of another.
const ReplacementSoak = 10 * time.Minute

// replaceNeed returns the replacement of a host that the user requested with spec.replaceWith. It waits as long as any action that the node needs
// otherwise, so that a node that cannot be replaced for weeks is still upgraded.
func (p *planner) replaceNeed(h *Host) (need, bool) {
	if h.ReplaceWith == "" || h.Leaving || h.Maintenance != nil || h.AdoptionPending || !h.Joined || h.Node == nil {
		return need{}, false
	}
	return need{
		host: h, action: v1alpha1.ActionReplace, disruption: v1alpha1.DisruptionDrain,
		reason: fmt.Sprintf("spec.replaceWith is %s", h.ReplaceWith),
	}, true
}

// replacement blocks a requested replacement until the other host can take over, and the join of a host that should be replaced: it would begin again
// after a replacement if a user, or a program that applies files, creates its WindowsInstance again.
func (p *planner) replacement(n need) (reason, message string) {
	switch {
	case n.host.ReplaceWith == "" || n.host.ReplaceReason != "": // a Machine is replaced by its MachineSet
		return "", ""
	case n.action == v1alpha1.ActionJoin && n.host.Source == "":
		return api.ReasonReplaced, fmt.Sprintf("spec.replaceWith is %s, so this host does not join: delete its WindowsInstance, or remove the field", n.host.ReplaceWith)
	case n.action != v1alpha1.ActionReplace:
		return "", ""
	}
	var with *Host
	if i := slices.IndexFunc(p.Hosts, func(h Host) bool { return h.Name == n.host.ReplaceWith }); i >= 0 {
		with = &p.Hosts[i]
	}
	fault, until := ReplacementFault(*n.host, with, p.Now)
	if fault == "" {
		return "", ""
	}
	if !until.IsZero() {
		p.scheduleRecheck(until)
	}
	return api.ReasonReplacementNotReady, fault
}

// ReplacementFault returns why a host cannot take the place of another now, and when it can if it only has to wait; fault is empty if it can now.
// with is nil if there is no such WindowsInstance.
func ReplacementFault(h Host, with *Host, now time.Time) (fault string, until time.Time) {
	switch {
	case h.Source == api.SourceMachine:
		return "this WindowsInstance belongs to a Machine: scale MachineSets instead", until
	case h.Source != "":
		return fmt.Sprintf("this WindowsInstance belongs to an entry of ConfigMap %s: remove the entry instead", api.InstancesConfigMap), until
	case with == nil:
		return fmt.Sprintf("WindowsInstance %s does not exist", h.ReplaceWith), until
	case h.Node == nil:
		return "the host has no Node", until
	}
	return TakeoverFault(*with, h.Node.Build, ReplacementSoak, now)
}

// TakeoverFault returns why a host cannot take the pods of one with a build of Windows now, and when it can if it only has to wait; fault is empty if
// it can now. soak is how long it must have worked.
func TakeoverFault(with Host, build windowsbuild.Build, soak time.Duration, now time.Time) (fault string, until time.Time) {
	switch {
	case with.Leaving:
		return fmt.Sprintf("WindowsInstance %s is being deleted", with.Name), until
	case with.ReplaceWith != "":
		return fmt.Sprintf("WindowsInstance %s is itself to be replaced", with.Name), until
	case with.Node == nil || !with.Joined:
		return fmt.Sprintf("the host of WindowsInstance %s is not a node", with.Name), until
	case with.Node.Build < build:
		return fmt.Sprintf("node %s has %s, an older version of Windows than %s", with.Node.Name, with.Node.Build, build), until
	case with.Node.Unschedulable:
		return fmt.Sprintf("node %s is cordoned", with.Node.Name), until
	case with.busy():
		return fmt.Sprintf("maintenance of node %s is in progress", with.Node.Name), until
	}
	if problem := with.Node.NotWorking(nil); problem != "" {
		return fmt.Sprintf("node %s does not work: %s", with.Node.Name, problem), until
	}
	if until = with.Node.WorksSince.Add(soak); until.After(now) {
		return fmt.Sprintf("node %s must work until %s", with.Node.Name, until.UTC().Format(time.RFC3339)), until
	}
	return "", time.Time{}
}
