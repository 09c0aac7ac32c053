//go:build linux

package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// A Cloud creates and deletes machines.
type Cloud interface {
	// Create creates a machine that runs the user data on its first boot, and returns its address and provider ID. It can take a while.
	// A machine of this name that exists is returned: the provider could not record it.
	Create(ctx context.Context, name string, userData []byte) (address, providerID string, err error)
	// Delete deletes a machine. It succeeds if the machine does not exist.
	Delete(ctx context.Context, name string) error
}

// A Provider is an infrastructure provider, and a provider of externally managed control planes. It implements Cluster API's
// contract v1beta2: LabClusters and LabControlPlanes are provisioned at once. For a LabMachine, it creates a machine in the
// cloud as soon as Cluster API has set an owner with bootstrap data, and keeps a finalizer until the cloud has deleted the
// machine.
type Provider struct {
	client client.Client
	cloud  Cloud
	failed func(error)

	mu sync.Mutex
	// machines are the LabMachines that are being reconciled. They are reconciled concurrently.
	machines map[types.NamespacedName]struct{}
	running  sync.WaitGroup
}

// poll is the interval between two reconciliations.
const poll = 500 * time.Millisecond

// NewProvider returns a provider. It calls failed with errors, and retries.
func NewProvider(c client.Client, cloud Cloud, failed func(error)) *Provider {
	return &Provider{client: c, cloud: cloud, failed: failed, machines: map[types.NamespacedName]struct{}{}}
}

// Run reconciles until the context ends.
func (p *Provider) Run(ctx context.Context) {
	defer p.running.Wait()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := p.reconcileAll(ctx); err != nil && ctx.Err() == nil {
			p.failed(err)
		}
	}, poll)
}

func (p *Provider) reconcileAll(ctx context.Context) error {
	clusters, err := p.list(ctx, labCluster())
	if err != nil {
		return err
	}
	controlPlanes, err := p.list(ctx, labControlPlane())
	if err != nil {
		return err
	}
	machines, err := p.list(ctx, labMachine())
	if err != nil {
		return err
	}
	for i := range clusters {
		err = errors.Join(err, p.report(ctx, &clusters[i], map[string]any{"initialization": map[string]any{"provisioned": true}}))
	}
	for i := range controlPlanes {
		err = errors.Join(err, p.report(ctx, &controlPlanes[i], map[string]any{
			"initialization": map[string]any{"controlPlaneInitialized": true}, "externalManagedControlPlane": true,
		}))
	}
	for i := range machines {
		p.begin(ctx, &machines[i])
	}
	return err
}

func (p *Provider) list(ctx context.Context, gvk schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(gvk)
	err := p.client.List(ctx, &list)
	return list.Items, err
}

// begin starts to reconcile a machine, unless that is in progress already.
func (p *Provider) begin(ctx context.Context, machine *unstructured.Unstructured) {
	name := client.ObjectKeyFromObject(machine)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, busy := p.machines[name]; busy {
		return
	}
	p.machines[name] = struct{}{}
	p.running.Go(func() {
		if err := p.reconcile(ctx, machine); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
			p.failed(fmt.Errorf("LabMachine %s: %w", name, err))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.machines, name)
	})
}

func (p *Provider) reconcile(ctx context.Context, machine *unstructured.Unstructured) error {
	if machine.GetDeletionTimestamp() != nil {
		return p.remove(ctx, machine)
	}
	if provisioned, _, _ := unstructured.NestedBool(machine.Object, "status", "initialization", "provisioned"); provisioned {
		return nil
	}
	userData, err := p.userData(ctx, machine)
	if err != nil || userData == nil {
		return err
	}
	if controllerutil.AddFinalizer(machine, machineFinalizer) {
		if err := p.client.Update(ctx, machine); err != nil {
			return err
		}
	}
	address, id, err := p.cloud.Create(ctx, machine.GetName(), userData)
	if err != nil {
		return fmt.Errorf("creating the machine: %w", err)
	}
	if err := unstructured.SetNestedField(machine.Object, id, "spec", "providerID"); err != nil {
		return err
	}
	if err := p.client.Update(ctx, machine); err != nil {
		return err
	}
	return p.report(ctx, machine, map[string]any{
		"initialization": map[string]any{"provisioned": true},
		"addresses":      []any{map[string]any{"type": string(corev1.NodeInternalIP), "address": address}},
	})
}

func (p *Provider) remove(ctx context.Context, machine *unstructured.Unstructured) error {
	if !slices.Contains(machine.GetFinalizers(), machineFinalizer) {
		return nil
	}
	if err := p.cloud.Delete(ctx, machine.GetName()); err != nil {
		return fmt.Errorf("deleting the machine: %w", err)
	}
	controllerutil.RemoveFinalizer(machine, machineFinalizer)
	return client.IgnoreNotFound(p.client.Update(ctx, machine))
}

// userData returns the bootstrap data of the Machine that owns a LabMachine, or nil until Cluster API has set both.
func (p *Provider) userData(ctx context.Context, machine *unstructured.Unstructured) ([]byte, error) {
	owners := machine.GetOwnerReferences()
	i := slices.IndexFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == "Machine" })
	if i < 0 {
		return nil, nil
	}
	owner := object(Kind("Machine"), machine.GetNamespace(), owners[i].Name, nil)
	if err := p.client.Get(ctx, client.ObjectKeyFromObject(owner), owner); err != nil {
		return nil, err
	}
	name, _, err := unstructured.NestedString(owner.Object, "spec", "bootstrap", "dataSecretName")
	if err != nil || name == "" {
		return nil, err
	}
	var secret corev1.Secret
	if err := p.client.Get(ctx, types.NamespacedName{Namespace: machine.GetNamespace(), Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("reading the bootstrap data: %w", err)
	}
	data := secret.Data[bootstrapSecretValue]
	if len(data) == 0 {
		return nil, fmt.Errorf("bootstrap Secret %s has no key %s", name, bootstrapSecretValue)
	}
	return data, nil
}

// report writes the status of an object that has none.
func (p *Provider) report(ctx context.Context, o *unstructured.Unstructured, status map[string]any) error {
	if _, reported := o.Object["status"]; reported {
		return nil
	}
	o.Object["status"] = status
	return p.client.Status().Update(ctx, o)
}
