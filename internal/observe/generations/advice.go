package generations

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// maxListed limits the labels that a step lists.
const maxListed = 5

// next returns the steps after which a workload can move, or what new hosts need for it.
func (a *assessor) next(w *Workload, d demands, found Assessment) (steps []string) {
	for _, image := range found.Images {
		steps = append(steps, a.nextForImage(w, image)...)
	}
	if d.unknown != "" {
		steps = append(steps, "Check what the pods select: "+d.unknown+".")
	}
	for _, p := range found.Pins {
		if step := a.nextForPin(d, p); step != "" {
			steps = append(steps, step)
		}
	}
	if len(steps) > 0 && w.ManagedBy != "" {
		steps = append(steps, "Make changes in "+w.ManagedBy+", which manages this "+w.Kind+".")
	}
	if len(steps) > 0 && w.Kind == "DaemonSet" {
		steps = append(steps, "Until then, new hosts run without it.")
	}
	if found.State == Movable {
		steps = append(steps, a.preparation(d)...)
	}
	return steps
}

func (a *assessor) nextForImage(w *Workload, image Image) []string {
	label := a.target.Label()
	switch {
	case image.Builds[label] == Runs:
		return nil
	case image.Builds[label] == Unknown:
		step := fmt.Sprintf("Check which builds image %s supports: %s.", image.Image, image.Unread)
		if r := a.read[ImageKey{image.Image, w.Access}]; r.Remedy != "" {
			step += " " + r.Remedy
		}
		return []string{step}
	case len(image.For) == 0:
		return []string{fmt.Sprintf("Replace image %s, which has no entry for Windows on amd64.", image.Image)}
	case strings.Contains(image.Image, "@"):
		return nil // nextForPin
	}
	return []string{fmt.Sprintf("Build image %s also from %s, and push an index with the old and the new entry under its tag; its entries are for %s.",
		image.Image, a.baseImages(), strings.Join(image.For, ", "))}
}

// baseImages names the base images that hosts with the target run.
func (a *assessor) baseImages() string {
	var tags []string
	for _, r := range windowsbuild.Releases() {
		if windowsbuild.Runs(a.target, r.Build) {
			tags = append(tags, r.Tag)
		}
	}
	return "a base image with tag " + strings.Join(tags, " or ")
}

func (a *assessor) nextForPin(d demands, p Pin) string {
	release, _ := windowsbuild.ReleaseOf(a.target)
	class := release.Class
	if d.fromClass[api.LabelHyperV] != "" {
		class = release.HyperVClass()
	}
	switch p.By {
	case PinRuntimeClass:
		return a.nextForClass(d, class)
	case PinNodeSelector:
		if key, value, _ := strings.Cut(p.Value, "="); key == corev1.LabelHostname {
			return fmt.Sprintf("Remove the node selector for host %s, or give the new host this name.", value)
		}
		return fmt.Sprintf("Replace node selector %s, for example by RuntimeClass %s.", p.Value, class)
	case PinAffinity:
		return fmt.Sprintf("Change the required node affinity so that it matches nodes with %s=%s; it is: %s.", corev1.LabelWindowsBuild, a.target.Label(), p.Value)
	case PinNodeName:
		return fmt.Sprintf("Remove nodeName %s from the template, or give the new host this name.", p.Value)
	case PinDigest:
		return fmt.Sprintf("Name image %s by its tag, or by the digest of an index that has an entry for %s.", p.Value, a.target)
	case PinNoController:
		return "Delete the pod and create it again after its host is drained, or manage it with a Deployment: no controller recreates it."
	}
	return ""
}

// nextForClass returns how pods get to nodes with the target that their RuntimeClass does not select.
func (a *assessor) nextForClass(d demands, class string) string {
	step := fmt.Sprintf("Change RuntimeClass %s to %s", d.class, class)
	if d.isAssigned {
		step = fmt.Sprintf("Set RuntimeClass %s: pods get %s when they are created, by the tags of their images", class, d.class)
	}
	selected, err := windowsbuild.Parse(d.fromClass[corev1.LabelWindowsBuild])
	if d.isManaged && err == nil && windowsbuild.Runs(a.target, selected) {
		step += fmt.Sprintf("; or set spec.runtimeClasses.newerHosts of WindowsConfig, with which %s also selects newer hosts that run its images", d.class)
	}
	return step + "."
}

// preparation returns what hosts with the target need, so that the scheduler places the pods of a workload that can move.
func (a *assessor) preparation(d demands) []string {
	var existing []*corev1.Node
	fits := matcher(d.selector, d.affinity)
	var taint *corev1.Taint
	for i := range a.cluster.Nodes {
		n := &a.cluster.Nodes[i]
		if nodestate.WindowsBuild(n) != a.target {
			continue
		}
		existing = append(existing, n)
		if !fits(n) {
			continue
		}
		if taint = d.notTolerated(n); taint == nil {
			return nil
		}
	}
	if taint != nil {
		return []string{fmt.Sprintf("The existing nodes with %s have taint %s, which the pods do not tolerate.", a.target, taint.ToString())}
	}
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(d.selector)) {
		value := d.selector[key]
		has := func(n *corev1.Node) bool { return n.Labels[key] == value }
		if !slices.ContainsFunc(append(existing, a.hosts[0]), has) {
			missing = append(missing, key+"="+value)
		}
	}
	if len(missing) > 0 {
		return []string{"Give new hosts the labels that the pods select: " + truncate.List(missing, maxListed, ", ") + "."}
	}
	if len(existing) > 0 || !fits(a.hosts[0]) {
		return []string{"Give new hosts labels that match the pods' node selector and required affinity."}
	}
	return nil
}
