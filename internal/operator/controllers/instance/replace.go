package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
	"github.com/windows-machine-config/wmco/internal/operator/drain"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// replace ends the service of a drained host. If another host takes its place, it deletes the instance, so that the host leaves.
func (m *maintenance) replace(ctx context.Context) error {
	if !isOwn(m.view.Instance) {
		return m.replaceMachine(ctx)
	}
	if m.view.Instance.DeletionTimestamp != nil {
		return nil
	}
	fault, err := m.replacementFault(ctx)
	if err != nil {
		return err
	}
	if fault != "" {
		return errors.New(fault)
	}
	uid := m.view.Instance.UID
	if err := client.IgnoreNotFound(m.Client.Delete(ctx, m.view.Instance, client.Preconditions{UID: &uid})); err != nil {
		return fmt.Errorf("deleting WindowsInstance %s: %w", m.view.Instance.Name, err)
	}
	return nil
}

// isOwn reports whether a user created the instance.
func isOwn(i *v1alpha1.WindowsInstance) bool { return i.Labels[api.LabelSource] == "" }

// isReplaceCanceled reports whether the user has removed spec.replaceWith since the replacement began, before the host leaves.
func (m *maintenance) isReplaceCanceled() bool {
	i := m.view.Instance
	return m.current().Action == v1alpha1.ActionReplace && isOwn(i) && i.Spec.ReplaceWith == "" && i.DeletionTimestamp == nil && !m.hasFailed()
}

// replacementFault returns why the other host cannot take over, from current objects.
func (m *maintenance) replacementFault(ctx context.Context) (string, error) {
	var with *rollout.Host
	var other v1alpha1.WindowsInstance
	err := m.Live.Get(ctx, types.NamespacedName{Namespace: m.view.Instance.Namespace, Name: m.view.Instance.Spec.ReplaceWith}, &other)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading WindowsInstance %s: %w", m.view.Instance.Spec.ReplaceWith, err)
	}
	if err == nil {
		node, _, err := m.node(ctx, m.Live, &other)
		if err != nil {
			return "", err
		}
		with = new(rollout.HostOf(&other, node))
	}
	fault, _ := rollout.ReplacementFault(rollout.HostOf(m.view.Instance, m.view.Node), with, time.Now())
	return fault, nil
}

// unplaceablePods returns why a node cannot be drained for a replacement: its pods may find no other node. It is empty for other actions, and once the
// operator has cordoned the node; one that an administrator has cordoned is checked throughout its drain. Evicted pods cannot be moved back.
func (m *maintenance) unplaceablePods(ctx context.Context) (string, error) {
	node := m.view.Node
	if m.current().Action != v1alpha1.ActionReplace || !isOwn(m.view.Instance) || rollout.NodeOf(node).CordonedFor == v1alpha1.ActionReplace {
		return "", nil
	}
	nodes, err := kube.WindowsNodes(ctx, m.Client)
	if err != nil {
		return "", err
	}
	elsewhere := generations.NewElsewhere(node, nodes)
	var stay []string
	check := func(pod *corev1.Pod) bool {
		one := []corev1.Pod{drain.Trim(pod, node.Name)}
		if len(drain.Classify(one, drainOf(node.Name, m.current()), time.Now()).Evict) == 0 {
			return true
		}
		if missing := elsewhere.Missing(pod); missing != "" {
			stay = append(stay, fmt.Sprintf("%s (%s)", drain.Name(pod), missing))
		}
		return len(stay) <= maxStaying
	}
	if err := kube.EachPod(ctx, m.Live, check, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", node.Name)}); err != nil {
		return "", fmt.Errorf("node %s: %w", node.Name, err)
	}
	if len(stay) == 0 {
		return "", nil
	}
	return "these pods may find no other node: " + truncate.List(stay, maxStaying, "; "), nil
}

// maxStaying limits the pods that a failure names.
const maxStaying = 3

// replaceMachine deletes the Machine of a host, so that its MachineSet creates another. The instance is deleted with it. A newer Machine of the same
// name, or one that is no longer a Windows Machine, stays.
func (m *maintenance) replaceMachine(ctx context.Context) error {
	machine, err := machineOf(m.view.Instance)
	if err != nil {
		return err
	}
	id := m.view.Instance.Annotations[api.AnnotationMachine]
	err = m.Live.Get(ctx, client.ObjectKeyFromObject(machine), machine)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Machine %s: %w", id, err)
	}
	isSameMachine := machine.GetLabels()[api.LabelMachineOS] == "Windows" && !machine.GetCreationTimestamp().After(m.current().StartedAt.Time)
	if err != nil || !isSameMachine || machine.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := machine.GetUID()
	if err := client.IgnoreNotFound(m.Client.Delete(ctx, machine, client.Preconditions{UID: &uid})); err != nil {
		return fmt.Errorf("deleting Machine %s: %w", id, err)
	}
	return nil
}

// machineOf returns the Machine of OpenShift's Machine API from which an instance was made. The operator deletes no Machines of Cluster API.
func machineOf(i *v1alpha1.WindowsInstance) (*unstructured.Unstructured, error) {
	namespace, name, ok := strings.Cut(i.Annotations[api.AnnotationMachine], "/")
	if !ok || i.Labels[api.LabelSource] != api.SourceMachine {
		return nil, fmt.Errorf("WindowsInstance %s was not created from a Machine of the Machine API", i.Name)
	}
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(schema.GroupVersionKind{Group: machines.MachineAPIGroup, Version: "v1beta1", Kind: machines.Kind})
	machine.SetNamespace(namespace)
	machine.SetName(name)
	return machine, nil
}
