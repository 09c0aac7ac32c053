package replace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
	"github.com/windows-machine-config/wmco/internal/operator/drain"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
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

// explain describes a failed request. Failures that may pass get the code with which loop tries again.
func explain(err error, operation string) error {
	explained := session.Explain(err, operation)
	if apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) {
		return session.Failf(session.CodeUnreachable, "%w", explained)
	}
	return explained
}

// getSet reads a MachineSet. It must be one that this command may scale.
func (r *run) getSet(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(session.MachineAPI().WithKind("MachineSet"))
	err := r.client.Get(ctx, client.ObjectKey{Namespace: session.MachineNamespace, Name: name}, set)
	if apierrors.IsNotFound(err) {
		return nil, session.Failf(session.CodeNotFound, "MachineSet %q not found in namespace %s", name, session.MachineNamespace)
	}
	if err != nil {
		return nil, explain(err, "reading MachineSet "+name)
	}
	labels, _, _ := unstructured.NestedStringMap(set.Object, "spec", "template", "metadata", "labels")
	switch {
	case set.GetDeletionTimestamp() != nil:
		return nil, session.Failf(session.CodeFailed, "MachineSet %s is being deleted", name)
	case labels[api.LabelMachineOS] != "Windows":
		return nil, session.Failf(session.CodeFailed, "MachineSet %s: label %s of spec.template is %.64q; Windows is required", name, api.LabelMachineOS, labels[api.LabelMachineOS])
	}
	for _, part := range []string{"spec", "status"} {
		if authority, _, _ := unstructured.NestedString(set.Object, part, "authoritativeAPI"); authority != "" && authority != "MachineAPI" {
			return nil, session.Failf(session.CodeFailed, "MachineSet %s: %s.authoritativeAPI is %.64q, so that its replicas have no effect: scale the MachineSets of Cluster API",
				name, part, authority)
		}
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
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(session.MachineAPI().WithKind("MachineList"))
	if err := r.client.List(ctx, &list, client.InNamespace(session.MachineNamespace)); err != nil {
		return state{}, explain(err, "listing Machines in namespace "+session.MachineNamespace)
	}
	var instances v1alpha1.WindowsInstanceList
	if err := r.client.List(ctx, &instances, client.InNamespace(r.namespace)); err != nil {
		return state{}, explain(err, "listing windowsinstances in namespace "+r.namespace)
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.MatchingLabels{corev1.LabelOSStable: string(corev1.Windows)}); err != nil {
		return state{}, explain(err, "listing nodes")
	}
	r.nodes = nodes.Items
	var config v1alpha1.WindowsConfig
	if err := r.client.Get(ctx, client.ObjectKey{Name: api.WindowsConfigName}, &config); client.IgnoreNotFound(err) != nil {
		return state{}, explain(err, "reading WindowsConfig "+api.WindowsConfigName)
	}
	r.isPaused = config.Spec.Rollout.Paused
	s := state{
		now: time.Now(), total: r.total, keep: r.keep, soak: r.options.soak,
		from: machineSet{name: r.options.from, replicas: replicasOf(r.from)}, to: machineSet{name: r.options.to, replicas: replicasOf(r.to)},
	}
	for i := range list.Items {
		switch m := &list.Items[i]; {
		case metav1.IsControlledBy(m, r.from):
			s.from.machines = append(s.from.machines, r.machineOf(m, instances.Items))
		case metav1.IsControlledBy(m, r.to):
			s.to.machines = append(s.to.machines, r.machineOf(m, instances.Items))
		}
	}
	return s, nil
}

func (r *run) machineOf(o *unstructured.Unstructured, instances []v1alpha1.WindowsInstance) machine {
	annotations := o.GetAnnotations()
	m := machine{
		name: o.GetName(), isDeleting: o.GetDeletionTimestamp() != nil, node: statusOf(o, "nodeRef", "name"),
		isMarked: annotations[annotationDelete] != "" || annotations[annotationDeleteOlder] != "",
		status:   "its phase is " + statusOf(o, "phase"), object: o,
	}
	for _, field := range []string{"errorReason", "errorMessage"} {
		_, found, _ := unstructured.NestedFieldNoCopy(o.Object, "status", field)
		m.isFailed = m.isFailed || found
	}
	if m.isFailed {
		m.status += ": " + statusOf(o, "errorMessage")
	}
	if m.isDeleting {
		m.status = deletionOf(o)
	}
	for i := range instances {
		if instances[i].Annotations[api.AnnotationMachine] != machines.ID(o.GetNamespace(), o.GetName()) {
			continue
		}
		node := r.node(instances[i].Status.Hostname)
		h := rollout.HostOf(&instances[i], node)
		m.host = &h
		m.isPulling = node != nil && slices.ContainsFunc(node.Spec.Taints, nodestate.IsForImages)
	}
	return m
}

// statusOf returns a text of an object's status.
func statusOf(o *unstructured.Unstructured, names ...string) string {
	value, _, _ := unstructured.NestedString(o.Object, append([]string{"status"}, names...)...)
	return truncate.Text(value, truncate.Reported)
}

// deletionOf returns what the deletion of a Machine waits for. Lifecycle hooks are conditions; what a drain waits for is only in events.
func deletionOf(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		kind, _ := c["type"].(string)
		message, _ := c["message"].(string)
		if (kind == "Drainable" || kind == "Drained" || kind == "Terminable") && c["status"] == "False" && message != "" {
			return truncate.Text(message, truncate.Reported)
		}
	}
	return fmt.Sprintf("if it takes long, see kubectl get events -n %s --field-selector involvedObject.name=%s, and the PodDisruptionBudgets of its pods", session.MachineNamespace, o.GetName())
}

// node returns a Windows node that was read; nil if there is none.
func (r *run) node(name string) *corev1.Node {
	if i := slices.IndexFunc(r.nodes, func(n corev1.Node) bool { return n.Name == name }); i >= 0 {
		return &r.nodes[i]
	}
	return nil
}

// maxStaying limits the pods that are named for a node.
const maxStaying = 3

// staying returns the pods that may find no other node once the Machine is drained. The other nodes of its MachineSet are none: they are replaced next. A pod
// without a controller is deleted for good.
func (r *run) staying(ctx context.Context, s state, m machine) (string, error) {
	if m.node == "" {
		return "", nil
	}
	node := r.node(m.node)
	if node == nil {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}
	}
	others := slices.DeleteFunc(slices.Clone(r.nodes), func(n corev1.Node) bool {
		return slices.ContainsFunc(s.from.machines, func(m machine) bool { return m.node == n.Name })
	})
	elsewhere := generations.NewElsewhere(node, others)
	var stay []string
	check := func(pod *corev1.Pod) bool {
		if missing := missing(pod, node.Name, elsewhere, len(s.to.machines) == 0); missing != "" {
			stay = append(stay, fmt.Sprintf("%s (%s)", drain.Name(pod), missing))
		}
		return len(stay) <= maxStaying
	}
	if err := kube.EachPod(ctx, r.client, check, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", node.Name)}); err != nil {
		return "", explain(err, "node "+node.Name)
	}
	return truncate.List(stay, maxStaying, "; "), nil
}

// missing returns why a pod may find no place. Without new nodes, it cannot be known whether a pod of a controller will.
func missing(pod *corev1.Pod, node string, elsewhere generations.Elsewhere, isFirst bool) string {
	one := []corev1.Pod{drain.Trim(pod, node)}
	switch {
	case len(drain.Classify(one, drain.Node{Name: node}, time.Now()).Evict) == 0:
		return ""
	case metav1.GetControllerOf(pod) == nil:
		return "no controller recreates it"
	case isFirst:
		return ""
	}
	return elsewhere.Missing(pod)
}
