package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// nextVersion represents a version that is not known yet.
const nextVersion = "(next)"

// planFleet gathers the input of rollout.Decide with the user's permissions. next is the release of another operator; nil if unknown.
func (a *action) planFleet(ctx context.Context, p planOptions, in fleetstatus.Input, spec v1alpha1.WindowsConfigSpec, next *kubeversions.Release) (rollout.Fleet, error) {
	version := a.fleet.Rollout.Version
	switch {
	case next != nil:
		version = next.Version
	case p.upgrade:
		version = nextVersion
	}
	f := rollout.Fleet{Policy: rollout.PolicyOf(spec, version), Now: in.Now, Orphans: a.fleet.Orphans}
	nodes := map[string]*corev1.Node{}
	for i := range in.Nodes {
		nodes[in.Nodes[i].Name] = &in.Nodes[i]
	}
	removed := map[string]bool{}
	for _, name := range p.remove {
		h, found := a.fleet.Find(name)
		if !found {
			return f, session.NotFound(name, in.Namespace, len(in.Instances))
		}
		removed[h.Name] = true
	}
	published := sync.OnceValue(func() *desired.Node { return a.published(ctx, version) })
	costs := versionCosts{action: a, known: map[string]v1alpha1.PlanDisruption{}, to: func(previous desired.Node) *desired.Node {
		if next == nil {
			return published()
		}
		current := withContent(previous, *next)
		return &current
	}}
	for i := range in.Instances {
		instance := &in.Instances[i]
		h := rollout.HostOf(instance, nodes[instance.Status.Hostname])
		h.Leaving = h.Leaving || removed[h.Name]
		payload := instance.Status.Payload
		h.Staged = !p.upgrade && payload.Staged != "" && payload.Staged == payload.Desired
		h.Disruption = v1alpha1.PlanDisruption(p.disruption)
		if (!p.upgrade || next != nil) && h.Node != nil && h.Node.Version != version {
			h.Disruption = costs.from(ctx, h.Node.Version)
		}
		if next := instance.Status.Plan; next != nil && !p.upgrade {
			if next.Action == v1alpha1.ActionReplace && h.ReplaceWith == "" {
				h.ReplaceReason = next.Message
			}
			if next.WaitsFor == api.ReasonVersionSkewUnsupported {
				f.Policy.VersionFault = next.Message
			}
		}
		f.Hosts = append(f.Hosts, h)
	}
	return f, nil
}

// versionCosts returns how disruptive an upgrade from one version is, from the settings that the operator published for each. Unlike the
// operator, it does not verify their signature.
type versionCosts struct {
	*action
	// to returns the new settings of a node; nil if unknown.
	to    func(was desired.Node) *desired.Node
	known map[string]v1alpha1.PlanDisruption
}

func (v *versionCosts) from(ctx context.Context, version string) v1alpha1.PlanDisruption {
	if d, known := v.known[version]; known {
		return d
	}
	d := v1alpha1.DisruptionDrain // as the operator assumes for versions that are no longer published
	if previous := v.published(ctx, version); previous != nil {
		if current := v.to(*previous); current != nil {
			d = desired.DisruptionOf(*previous, *current)
		}
	}
	v.known[version] = d
	return d
}

// published returns the settings for nodes of a version; nil if they cannot be read.
func (a *action) published(ctx context.Context, version string) *desired.Node {
	var cm corev1.ConfigMap
	err := a.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: api.ServicesConfigMapPrefix + version}, &cm)
	if err != nil && !apierrors.IsNotFound(err) || cm.Data == nil {
		return nil
	}
	node, err := desired.FromData(cm.Data)
	if err != nil {
		return nil
	}
	return &node
}

// paceOf returns the duration of one action at the pace of the rollout so far. With n nodes at a time, each takes n times the average interval.
func paceOf(in fleetstatus.Input, f rollout.Fleet) (each time.Duration, measured bool) {
	if in.Config == nil || in.Config.Status.Rollout == nil || in.Config.Status.Rollout.StartedAt == nil {
		return assumedPace, false
	}
	started := in.Config.Status.Rollout.StartedAt.Time
	updated, last := 0, started
	for i := range f.Hosts {
		h := &f.Hosts[i]
		if h.Node != nil && h.Node.Version == f.Policy.Version && h.Since.After(started) {
			updated++
			if h.Since.After(last) {
				last = h.Since
			}
		}
	}
	if updated == 0 {
		return assumedPace, false
	}
	atOnce := max(1, min(int(in.Config.Status.Rollout.MaxUnavailable), updated))
	return last.Sub(started) * time.Duration(atOnce) / time.Duration(updated), true
}

func printable(message string) string { return truncate.Printable(message, truncate.Reported) }

func printPlanned(p *terminal.Printer, r planned) {
	if r.Version != "" {
		p.Field("Version", r.Version)
	}
	for _, setting := range r.Settings {
		p.Text(0, terminal.Plain, setting)
	}
	if len(r.Steps) == 0 {
		p.Line("No actions are due.")
	} else {
		var rows [][]string
		disrupted := map[string]bool{}
		for _, s := range r.Steps {
			start := "now"
			if s.InSeconds > 0 {
				start = "+" + seconds(s.InSeconds)
			}
			rows = append(rows, []string{start, s.Host, s.Action, s.Disruption, firstLine(s.Message)})
			if s.Disruption == string(v1alpha1.DisruptionDrain) || s.Disruption == string(v1alpha1.DisruptionReboot) {
				disrupted[s.Host] = true
			}
		}
		p.Table([]terminal.Column{{Name: "START", Weight: 6}, {Name: "HOST", Weight: 9}, {Name: "ACTION", Weight: 8}, {Name: "DISRUPTION", Weight: 7}, {Name: "MESSAGE", Weight: 7}}, rows)
		basis := "assumed; set it with --each"
		if r.Measured {
			basis = "the pace so far"
		}
		p.Text(0, terminal.Plain, fmt.Sprintf("%s; pods are evicted from %s; about %s in total, at %s for each action that takes a node out of service (%s).",
			count(len(r.Steps), "action"), count(len(disrupted), "node"), seconds(r.Seconds), seconds(r.EachSeconds), basis))
	}
	if len(r.Waiting) > 0 {
		part(p, "Waiting")
		slices.SortStableFunc(r.Waiting, func(a, b plannedStep) int { return strings.Compare(a.WaitsFor, b.WaitsFor) })
		for _, w := range r.Waiting {
			p.Line(fmt.Sprintf("%s  %s for %s", w.Host, w.Action, p.Styled(terminal.Warn, w.WaitsFor)))
			p.Text(4, terminal.Plain, w.Message)
			p.Text(4, terminal.Bold, "→ "+w.Remedy)
		}
	}
	for _, note := range r.Notes {
		p.Text(0, terminal.Faint, "Note: "+note)
	}
}

func seconds(s float64) string {
	return duration.HumanDuration(time.Duration(s * float64(time.Second)))
}
