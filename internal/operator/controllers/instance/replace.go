package instance

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
)

// replace deletes the Machine of a host, so that its MachineSet creates another. The instance is deleted with it. A newer Machine of the same name, or
// one that is no longer a Windows Machine, stays.
func (m *maintenance) replace(ctx context.Context) error {
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
