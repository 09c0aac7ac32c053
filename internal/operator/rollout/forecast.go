package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// Step is one action of a forecast.
type Step struct {
	// Host is the name of the WindowsInstance.
	Host string
	// Plan is the action when it begins.
	v1alpha1.Plan
	// At is when the action begins.
	At time.Time
}

// Forecast returns the order in which actions begin if each of them succeeds, and each one that takes a node out of service lasts actionDuration. Joins
// and staging take no time. Hosts that still wait at the end need a change from outside. end is when the last action is done.
func Forecast(f Fleet, actionDuration time.Duration) (steps []Step, waiting map[string]Next, end time.Time) {
	f = f.clone()
	end = f.Now
	for range 8*len(f.Hosts) + 8 { // each host has a few actions, with a possible wait between them
		plan := Decide(f)
		waiting = map[string]Next{}
		done := map[string]Next{}
		elapsed := time.Duration(0)
		for _, name := range slices.Sorted(maps.Keys(plan.Hosts)) {
			next := plan.Hosts[name]
			if !next.Begin {
				waiting[name] = next
				continue
			}
			steps = append(steps, Step{Host: name, Plan: next.Plan, At: f.Now})
			done[name] = next
			if next.Action != v1alpha1.ActionJoin && next.Action != v1alpha1.ActionStage {
				elapsed = actionDuration
			}
		}
		switch {
		case len(done) > 0:
			f.Now = f.Now.Add(elapsed)
			f.finish(done)
			end = f.Now
		case plan.RecheckAt.After(f.Now):
			f.Now = plan.RecheckAt
		default:
			return steps, waiting, end
		}
	}
	return steps, waiting, end
}

// clone copies everything that finish changes.
func (f Fleet) clone() Fleet {
	f.Hosts = slices.Clone(f.Hosts)
	for i := range f.Hosts {
		if node := f.Hosts[i].Node; node != nil {
			current := *node
			f.Hosts[i].Node = &current
		}
	}
	return f
}

// finish applies the results of the actions to the hosts.
func (f *Fleet) finish(done map[string]Next) {
	f.Hosts = slices.DeleteFunc(f.Hosts, func(h Host) bool {
		next, acts := done[h.Name]
		return acts && (next.Action == v1alpha1.ActionLeave || next.Action == v1alpha1.ActionReplace)
	})
	for i := range f.Hosts {
		h := &f.Hosts[i]
		next, acts := done[h.Name]
		if !acts {
			continue
		}
		version := f.Policy.Version
		if h.Maintenance != nil {
			version = cmp.Or(h.Maintenance.Version, version)
		}
		h.Maintenance, h.Granted, h.Failure = nil, "", nil
		if h.Node == nil && next.Action != v1alpha1.ActionStage {
			h.Node = &Node{Name: h.Name, Version: version}
		}
		switch next.Action {
		case v1alpha1.ActionStage:
			h.Staged = true
			continue
		case v1alpha1.ActionUpgrade:
			h.Node.Version, h.Since, h.AdoptionPending = version, f.Now, false
		case v1alpha1.ActionReboot:
			h.Node.RebootRequested, h.Node.RebootPending = "", ""
		case v1alpha1.ActionPatch:
			h.finishPatch(next.Updates, f.Now)
		}
		h.Joined, h.Node.Ready, h.Node.Silent, h.Node.WaitsForCloud = true, true, false, false
		h.Node.NotReadySince, h.Node.UnhealthySince, h.Node.Unhealthy = time.Time{}, time.Time{}, ""
		if h.Node.CordonedFor != "" {
			h.Node.Unschedulable, h.Node.CordonedFor = false, ""
		}
	}
}

// finishPatch applies the result of an installation of updates.
func (h *Host) finishPatch(updates string, at time.Time) {
	installed := strings.Split(updates, updatesSeparator)
	h.Node.Offers = slices.DeleteFunc(slices.Clone(h.Node.Offers), func(o windowsupdate.Offer) bool { return slices.Contains(installed, o.KB) })
	h.Installed = slices.Clone(h.Installed)
	for _, kb := range installed {
		h.Installed = append(h.Installed, v1alpha1.InstalledUpdate{Article: kb, At: metav1.NewTime(at)})
	}
	h.Node.RebootPending = ""
}
