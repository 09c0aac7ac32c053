package generations

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

const (
	// maxRequirements limits the labels and values of a workload that are compared with all nodes.
	maxRequirements = 1000
	// maxText limits the requirements of an affinity in a message, in bytes.
	maxText = 300
)

// demands are what a workload requires of its nodes.
type demands struct {
	// selector and tolerations include those of the RuntimeClass.
	selector    map[string]string
	tolerations []corev1.Toleration
	affinity    *corev1.Affinity
	class       string
	// fromClass is the part of selector that the RuntimeClass requires.
	fromClass map[string]string
	// isAssigned means that pods get the class when they are created: the template names none.
	isAssigned bool
	// isManaged means that the operator maintains the class.
	isManaged bool
	// unknown is why the demands are not known; empty if they are.
	unknown string
}

// demandsOf returns the demands of a workload with the scheduling of its RuntimeClass, as the API server merges them.
func demandsOf(w *Workload, classes map[string]*nodev1.RuntimeClass) demands {
	d := demands{selector: maps.Clone(w.Template.NodeSelector), tolerations: w.Template.Tolerations, affinity: w.Template.Affinity}
	name := w.Template.RuntimeClassName
	if name == nil && len(w.Pods) > 0 && w.Pods[0].Spec.RuntimeClassName != nil {
		name, d.isAssigned = w.Pods[0].Spec.RuntimeClassName, true
	}
	if d.count() > maxRequirements {
		d.unknown = "its node selector and affinity are too large to analyze"
		return d
	}
	if name == nil {
		return d
	}
	d.class = *name
	class, exists := classes[d.class]
	switch {
	case exists && class.Scheduling != nil:
		d.isManaged = class.Labels[api.LabelManagedBy] == api.ManagedBy
		d.fromClass = class.Scheduling.NodeSelector
		d.tolerations = slices.Concat(d.tolerations, class.Scheduling.Tolerations)
	case !exists && releaseOfClass(d.class) != 0:
		d.fromClass = map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: releaseOfClass(d.class).Label()}
	case !exists && classes == nil:
		d.unknown = fmt.Sprintf("RuntimeClass %s could not be read", d.class)
	case !exists:
		d.unknown = fmt.Sprintf("RuntimeClass %s does not exist, so the API server rejects its pods", d.class)
	}
	if d.selector == nil {
		d.selector = map[string]string{}
	}
	maps.Copy(d.selector, d.fromClass)
	return d
}

// releaseOfClass returns the build that a RuntimeClass selects, by its usual name; zero if the name is another.
func releaseOfClass(name string) windowsbuild.Build {
	for _, r := range windowsbuild.Releases() {
		if name == r.Class || name == r.HyperVClass() {
			return r.Build
		}
	}
	return 0
}

func (d demands) terms() []corev1.NodeSelectorTerm {
	if d.affinity == nil || d.affinity.NodeAffinity == nil || d.affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return d.affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func (d demands) count() int {
	n := len(d.selector)
	for _, t := range d.terms() {
		for _, e := range slices.Concat(t.MatchExpressions, t.MatchFields) {
			n += 1 + len(e.Values)
		}
	}
	return n
}

// matcher returns a function that reports whether a node satisfies a selector and a required affinity, by the scheduler's own rules.
func matcher(selector map[string]string, affinity *corev1.Affinity) func(*corev1.Node) bool {
	required := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: selector, Affinity: affinity}})
	return func(n *corev1.Node) bool {
		fits, err := required.Match(n)
		return fits && err == nil
	}
}

// notTolerated returns a taint that keeps the pods off a node; nil if there is none. Kubernetes' own taints, such as that of cordoned nodes, pass.
func (d demands) notTolerated(n *corev1.Node) *corev1.Taint {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			continue
		}
		if !slices.ContainsFunc(d.tolerations, func(o corev1.Toleration) bool { return o.ToleratesTaint(klog.Logger{}, t, false) }) {
			return t
		}
	}
	return nil
}

// hostsWith returns the nodes with a build: the existing ones, a node without labels of its own, and all others as they would be with this build
// and another name.
func hostsWith(target windowsbuild.Build, nodes []corev1.Node) []*corev1.Node {
	hosts := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Labels: labelsFor(target, map[string]string{corev1.LabelArchStable: "amd64"})}}}
	for i := range nodes {
		if nodestate.WindowsBuild(&nodes[i]) == target {
			hosts = append(hosts, &nodes[i])
			continue
		}
		hosts = append(hosts, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labelsFor(target, nodes[i].Labels)}})
	}
	return hosts
}

// labelsFor returns labels of a node with those that depend on its build and its name replaced.
func labelsFor(b windowsbuild.Build, labels map[string]string) map[string]string {
	result := maps.Clone(labels)
	maps.DeleteFunc(result, func(key, _ string) bool {
		return key == corev1.LabelHostname || strings.HasPrefix(key, api.LabelRunsPrefix)
	})
	result[corev1.LabelOSStable], result[corev1.LabelWindowsBuild] = "windows", b.Label()
	for _, r := range windowsbuild.Releases() {
		if windowsbuild.Runs(b, r.Build) {
			result[api.LabelRunsPrefix+r.Class] = "true"
		}
	}
	return result
}

// pins returns what binds a workload to hosts with other builds.
func (a *assessor) pins(w *Workload, d demands, found Assessment) (all []Pin) {
	for _, image := range found.Images {
		if strings.Contains(image.Image, "@") && image.Builds[a.target.Label()] == NoEntry && len(image.For) == 1 {
			all = append(all, Pin{PinDigest, image.Image})
		}
	}
	if w.Kind == "Pod" {
		all = append(all, Pin{By: PinNoController})
	} else if name := w.Template.NodeName; name != "" && a.buildOf(name) != a.target {
		all = append(all, Pin{PinNodeName, name})
	}
	if d.count() > maxRequirements || slices.ContainsFunc(a.hosts, matcher(d.selector, d.affinity)) {
		return all
	}
	before := len(all)
	for _, key := range slices.Sorted(maps.Keys(d.selector)) {
		value := d.selector[key]
		if slices.ContainsFunc(a.hosts, func(n *corev1.Node) bool { return n.Labels[key] == value }) {
			continue
		}
		pin := Pin{PinNodeSelector, key + "=" + value}
		if d.fromClass[key] == value {
			pin = Pin{PinRuntimeClass, d.class}
		}
		if !slices.Contains(all, pin) {
			all = append(all, pin)
		}
	}
	if !slices.ContainsFunc(a.hosts, matcher(nil, d.affinity)) {
		all = append(all, Pin{PinAffinity, d.affinityText()})
	}
	if len(all) == before { // each matches some host, but no host matches all
		all = append(all, Pin{PinNodeSelector, truncate.Text(metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: d.selector}), maxText)})
	}
	return all
}

// affinityText returns the required node affinity as text.
func (d demands) affinityText() string {
	var terms []string
	for _, t := range d.terms() {
		var parts []string
		for _, e := range slices.Concat(t.MatchExpressions, t.MatchFields) {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))))
		}
		terms = append(terms, strings.Join(parts, " and "))
	}
	return truncate.Text(strings.Join(terms, " or "), maxText)
}

func (a *assessor) buildOf(node string) windowsbuild.Build {
	for i := range a.cluster.Nodes {
		if a.cluster.Nodes[i].Name == node {
			return nodestate.WindowsBuild(&a.cluster.Nodes[i])
		}
	}
	return 0
}
