package replace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// annotationDelete marks a Machine that its MachineSet deletes before others (pkg/controller/machineset/delete_policy.go of machine-api-operator). The
// older one has the same meaning.
const (
	annotationDelete      = "machine.openshift.io/delete-machine"
	annotationDeleteOlder = "machine.openshift.io/cluster-api-delete-machine"
)

// annotationLimit begins the annotations with which cluster-autoscaler-operator limits the size of a MachineSet.
const annotationLimit = "machine.openshift.io/cluster-api-autoscaler-node-group-"

// getSet reads a MachineSet. It must be one that this command may scale.
func (r *run) getSet(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(session.MachineAPI().WithKind("MachineSet"))
	err := r.client.Get(ctx, client.ObjectKey{Namespace: session.MachineNamespace, Name: name}, set)
	if apierrors.IsNotFound(err) {
		return nil, session.Failf(session.CodeNotFound, "MachineSet %q not found in namespace %s", name, session.MachineNamespace)
	}
	if err != nil {
		return nil, session.Explain(err, "reading MachineSet "+name)
	}
	labels, _, _ := unstructured.NestedStringMap(set.Object, "spec", "template", "metadata", "labels")
	authority, _, _ := unstructured.NestedString(set.Object, "spec", "authoritativeAPI")
	switch {
	case labels[api.LabelMachineOS] != "Windows":
		return nil, session.Failf(session.CodeFailed, "MachineSet %s: label %s of spec.template is %.64q; Windows is required", name, api.LabelMachineOS, labels[api.LabelMachineOS])
	case authority == "ClusterAPI":
		return nil, session.Failf(session.CodeFailed, "MachineSet %s: spec.authoritativeAPI is ClusterAPI, so that its replicas have no effect: scale the MachineSets of Cluster API", name)
	}
	for annotation := range set.GetAnnotations() {
		if strings.HasPrefix(annotation, annotationLimit) {
			return nil, session.Failf(session.CodeFailed, "MachineSet %s is scaled by the cluster autoscaler (annotation %s): delete its MachineAutoscaler first", name, annotation)
		}
	}
	return set, nil
}

func replicasOf(set *unstructured.Unstructured) int {
	n, found, err := unstructured.NestedInt64(set.Object, "spec", "replicas")
	if err != nil || !found {
		return 1 // the default of the Machine API
	}
	return int(n)
}

// read reads the cluster.
func (r *run) read(ctx context.Context) (state, error) {
	var err error
	if r.from, err = r.getSet(ctx, r.options.from); err != nil {
		return state{}, err
	}
	if r.to, err = r.getSet(ctx, r.options.to); err != nil {
		return state{}, err
	}
	var machines unstructured.UnstructuredList
	machines.SetGroupVersionKind(session.MachineAPI().WithKind("MachineList"))
	if err := r.client.List(ctx, &machines, client.InNamespace(session.MachineNamespace)); err != nil {
		return state{}, session.Explain(err, "listing Machines in namespace "+session.MachineNamespace)
	}
	if r.fleet, err = r.session.Read(ctx); err != nil {
		return state{}, err
	}
	for _, u := range r.fleet.Unread {
		if u.What == "nodes" {
			return state{}, session.Failf(session.CodeFailed, "listing nodes: %s", u.Why)
		}
	}
	s := state{
		now: r.fleet.Now, total: r.total, keep: r.keep, soak: r.options.soak,
		from: machineSet{name: r.options.from, replicas: replicasOf(r.from)}, to: machineSet{name: r.options.to, replicas: replicasOf(r.to)},
	}
	for i := range machines.Items {
		switch m := &machines.Items[i]; {
		case metav1.IsControlledBy(m, r.from):
			s.from.machines = append(s.from.machines, machineOf(m, r.fleet))
		case metav1.IsControlledBy(m, r.to):
			s.to.machines = append(s.to.machines, machineOf(m, r.fleet))
		}
	}
	return s, nil
}

func machineOf(o *unstructured.Unstructured, in fleetstatus.Input) machine {
	text := func(names ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, names...)
		return truncate.Text(value, truncate.Reported)
	}
	annotations := o.GetAnnotations()
	m := machine{
		name: o.GetName(), isDeleting: o.GetDeletionTimestamp() != nil, node: text("status", "nodeRef", "name"),
		isMarked: annotations[annotationDelete] != "" || annotations[annotationDeleteOlder] != "",
		isFailed: text("status", "errorReason") != "" || text("status", "errorMessage") != "",
		status:   "its phase is " + text("status", "phase"),
	}
	if m.isFailed {
		m.status += ": " + text("status", "errorMessage")
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if message, _ := c["message"].(string); m.isDeleting && c["type"] == "Drained" && c["status"] == "False" && message != "" {
			m.status = truncate.Text(message, truncate.Reported)
		}
	}
	for i := range in.Instances {
		instance := &in.Instances[i]
		if instance.Annotations[api.AnnotationMachine] == o.GetNamespace()+"/"+o.GetName() {
			n := nodeOf(instance.Status.Hostname, in)
			h := rollout.HostOf(instance, n)
			m.host = &h
		}
	}
	return m
}

func nodeOf(name string, in fleetstatus.Input) *corev1.Node {
	if i := slices.IndexFunc(in.Nodes, func(n corev1.Node) bool { return n.Name == name }); i >= 0 {
		return &in.Nodes[i]
	}
	return nil
}

// maxStaying limits the pods that are named for a node.
const maxStaying = 3

// staying returns the pods that may find no other node once the Machine is drained. The Machine API evicts all but those of DaemonSets, and deletes pods
// without a controller for good.
func (r *run) staying(ctx context.Context, m machine) (string, error) {
	node := nodeOf(m.node, r.fleet)
	if node == nil {
		return "", nil
	}
	elsewhere := generations.NewElsewhere(node, r.fleet.Nodes)
	var stay []string
	for next := ""; ; {
		var pods corev1.PodList
		if err := r.client.List(ctx, &pods, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", node.Name)},
			client.Limit(podsPage), client.Continue(next)); err != nil {
			return "", session.Explain(err, "listing the pods of node "+node.Name)
		}
		for i := range pods.Items {
			if missing := missing(&pods.Items[i], elsewhere); missing != "" {
				stay = append(stay, fmt.Sprintf("%s/%s (%s)", pods.Items[i].Namespace, pods.Items[i].Name, missing))
			}
		}
		if next = pods.Continue; next == "" || len(stay) > maxStaying {
			return truncate.List(stay, maxStaying, "; "), nil
		}
	}
}

// podsPage is the number of pods in a response.
const podsPage = 100

func missing(pod *corev1.Pod, elsewhere generations.Elsewhere) string {
	owner := metav1.GetControllerOf(pod)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return ""
	case owner == nil:
		return "no controller recreates it"
	case owner.Kind == "DaemonSet":
		return ""
	}
	return elsewhere.Missing(pod)
}
