package podcause

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// maxListed limits the nodes, labels or builds that a message lists.
const maxListed = 4

// unscheduled finds why the scheduler has no Windows node for a pod. It returns no cause if a node matches and its taints are tolerated: then
// the scheduler's own message suffices, because what is missing, such as CPU or volumes, is not specific to Windows.
func unscheduled(pod *corev1.Pod, known Cluster) Cause {
	if pod.Spec.NodeName != "" || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	}) {
		return Cause{}
	}
	if isTooLarge(pod) {
		return Cause{Reason: api.EventPodTooLarge, Message: "no node was found for the pod, and its selectors, affinity, tolerations and containers are too " +
			"large to analyze; see the scheduler's message in the events of the pod"}
	}
	var fits []*corev1.Node
	for i := range known.Nodes {
		if selects(pod, &known.Nodes[i]) {
			fits = append(fits, &known.Nodes[i])
		}
	}
	if len(fits) == 0 {
		return explainNoMatch(pod, known.Nodes)
	}
	return explainTaints(pod, fits)
}

// selects reports whether a node satisfies the pod's node selector and required affinity, by the scheduler's own rules.
func selects(pod *corev1.Pod, node *corev1.Node) bool {
	fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return fits && err == nil
}

// explainNoMatch returns what the pod requires and no Windows node has.
func explainNoMatch(pod *corev1.Pod, nodes []corev1.Node) Cause {
	builds := map[windowsbuild.Build]bool{}
	for i := range nodes {
		builds[nodestate.WindowsBuild(&nodes[i])] = true
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		value := pod.Spec.NodeSelector[key]
		release, isRuns := strings.CutPrefix(key, api.LabelRunsPrefix)
		requirement := "runs images of " + release
		if key == corev1.LabelWindowsBuild {
			requirement = "has build " + value
			if b, err := windowsbuild.Parse(value); err == nil {
				requirement = "has build " + b.String()
			}
		} else if !isRuns {
			continue
		}
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Labels[key] == value }) {
			return Cause{Reason: api.EventNoNodeForBuild, Message: fmt.Sprintf("no Windows node %s; %s", requirement, availableBuilds(builds))}
		}
	}
	if len(nodes) == 0 {
		return Cause{Reason: api.EventNoNodeFits, Message: "the cluster has no Windows node"}
	}
	if value, selected := pod.Spec.NodeSelector[api.LabelGMSA]; selected && !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Labels[api.LabelGMSA] == value }) {
		return Cause{Reason: api.EventNodeNotInDomain, Message: "the pod selects nodes for group Managed Service Accounts, and no Windows node " + gmsaRequirement}
	}
	if value, selected := pod.Spec.NodeSelector[api.LabelHyperV]; selected && !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Labels[api.LabelHyperV] == value }) {
		return Cause{Reason: api.EventNoNodeWithHyperV, Message: fmt.Sprintf("the pod needs Hyper-V isolation, and none of the Windows nodes (%d) has it; "+
			"condition %s of each Node says why", len(nodes), api.ConditionHyperVCapable)}
	}
	message := fmt.Sprintf("none of the Windows nodes (%d) matches the pod's node selector and required affinity", len(nodes))
	if selector := pod.Spec.NodeSelector; len(selector) > 0 {
		message += "; the selector is " + truncate.Text(labels.FormatLabels(selector), 300)
	}
	return Cause{Reason: api.EventNoNodeFits, Message: message}
}

// availableBuilds lists the builds of the nodes.
func availableBuilds(builds map[windowsbuild.Build]bool) string {
	var texts []string
	for b := range builds {
		if b != 0 {
			texts = append(texts, b.String())
		}
	}
	if len(texts) == 0 {
		return "the cluster has no Windows node"
	}
	slices.Sort(texts)
	return "the cluster has nodes with " + truncate.List(texts, maxListed, ", ")
}

// explainTaints returns the taints that keep the pod off the matching nodes.
func explainTaints(pod *corev1.Pod, fits []*corev1.Node) Cause {
	var down, short, tainted []string
	for _, node := range fits {
		taints := notTolerated(pod, node)
		isOf := func(keys ...string) bool {
			return !slices.ContainsFunc(taints, func(t corev1.Taint) bool {
				return !slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(t.Key, key) })
			})
		}
		switch {
		case len(taints) == 0:
			return Cause{}
		case isOf(corev1.TaintNodeMemoryPressure):
			short = append(short, node.Name)
		case isOf("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"):
			down = append(down, node.Name)
		default:
			tainted = append(tainted, node.Name+" has "+taints[0].ToString())
		}
	}
	switch {
	case len(short) > 0 && !limitsMemory(pod):
		return Cause{Reason: api.EventMemoryLimitMissing, Message: "the pod has no memory request or limit, and the nodes that it could run on are short of memory: " + truncate.List(short, maxListed, ", ")}
	case len(down)+len(short) > 0:
		return Cause{Reason: api.EventNodesUnavailable, Message: "the nodes that the pod could run on are cordoned, not Ready or short of resources: " + truncate.List(append(down, short...), maxListed, ", ")}
	}
	return Cause{Reason: api.EventTaintNotTolerated, Message: "the pod does not tolerate the taints of the nodes that it could run on: " + truncate.List(tainted, maxListed, ", ")}
}

// notTolerated returns the taints of a node that repel the pod.
func notTolerated(pod *corev1.Pod, node *corev1.Node) (taints []corev1.Taint) {
	for _, t := range node.Spec.Taints {
		isTolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool { return o.ToleratesTaint(klog.Logger{}, &t, false) })
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !isTolerated {
			taints = append(taints, t)
		}
	}
	return taints
}

// limitsMemory reports whether any container has a request or limit of memory.
func limitsMemory(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return !c.Resources.Limits.Memory().IsZero() || !c.Resources.Requests.Memory().IsZero()
	})
}
