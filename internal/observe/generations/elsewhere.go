package generations

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Elsewhere answers whether pods of a node can run on other nodes. It knows only what the cluster proves, and asks no registry.
type Elsewhere struct {
	build  windowsbuild.Build
	nodes  []corev1.Node
	proofs proofs
}

// NewElsewhere returns the answers for the pods of a node. Of the Windows nodes, it considers the others that take pods.
func NewElsewhere(from *corev1.Node, all []corev1.Node) Elsewhere {
	e := Elsewhere{build: nodestate.WindowsBuild(from)}
	for i := range all {
		if n := &all[i]; n.Name != from.Name && !n.Spec.Unschedulable && nodestate.IsReady(n) {
			e.nodes = append(e.nodes, *n)
		}
	}
	e.proofs = proofsOf(Cluster{Nodes: e.nodes})
	return e
}

// Missing returns why a pod may find no place on the other nodes; empty if one of them matches its selector and tolerations and is known to run its
// images. It does not consider CPU, memory, volumes and rules between pods.
func (e Elsewhere) Missing(pod *corev1.Pod) string {
	d := demands{selector: pod.Spec.NodeSelector, affinity: pod.Spec.Affinity, tolerations: pod.Spec.Tolerations}
	if d.count() > maxRequirements {
		return "its node selector and affinity are too large to analyze"
	}
	matches := matcher(d.selector, d.affinity)
	missing := "no other node that takes pods matches its node selector, its required affinity and its tolerations"
	for i := range e.nodes {
		n := &e.nodes[i]
		if !matches(n) || d.notTolerated(n) != nil {
			continue
		}
		image := e.unknownImage(pod, nodestate.WindowsBuild(n))
		if image == "" {
			return ""
		}
		missing = fmt.Sprintf("image %s is not known to run on node %s with %s: no node with this version has pulled it", truncate.Text(image, truncate.Quoted), n.Name, nodestate.WindowsBuild(n))
	}
	return missing
}

// unknownImage returns the first image of a pod that hosts with a build are not known to run; empty if there is none.
func (e Elsewhere) unknownImage(pod *corev1.Pod, build windowsbuild.Build) string {
	if podrules.IsHostProcess(&pod.Spec) || windowsbuild.Implies(e.build, build) {
		return ""
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !e.proofs.of(c.Image).appliesTo(build) {
			return c.Image
		}
	}
	return ""
}
