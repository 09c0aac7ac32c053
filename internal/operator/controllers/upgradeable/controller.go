// Package upgradeable reports to the Operator Lifecycle Manager when it must not replace the operator: while the operator acts on a node that is out
// of service, and until that node works again.
package upgradeable

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// checkInterval is how often the condition is compared without an event: the OperatorCondition is not watched, because the Role that OLM creates for
// it only allows get, update and patch.
const checkInterval = 5 * time.Minute

// conditionType is the condition that OLM reads (operators.coreos.com/v2, OperatorCondition).
const conditionType = "Upgradeable"

// Controller writes condition Upgradeable of the OperatorCondition that OLM has created for this version of the operator.
type Controller struct {
	Client client.Client
	Live   client.Reader
	// Namespace of the operator and of the OperatorCondition.
	Namespace string
	// Name of the OperatorCondition, from environment variable OPERATOR_CONDITION_NAME, which OLM sets; without it, Register does nothing.
	Name string

	written   metav1.Condition // the last one; a single worker reads and writes it
	writtenAt time.Time
}

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	if c.Name == "" {
		return nil
	}
	enqueue := kube.Enqueue(c.Namespace, c.Name)
	first := make(chan ctrlevent.GenericEvent, 1)
	first <- ctrlevent.GenericEvent{Object: &v1alpha1.WindowsInstance{}}
	return builder.ControllerManagedBy(m).
		Named("upgradeable").
		Watches(&v1alpha1.WindowsInstance{}, enqueue).
		WatchesRawSource(ctrlsource.Channel(first, enqueue)).
		Complete(c)
}

// Reconcile compares the condition with the state of the instances. If the OperatorCondition does not exist, it retries later.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var list v1alpha1.WindowsInstanceList
	if err := c.Client.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing WindowsInstances: %w", err)
	}
	want := decide(list.Items)
	if remaining := checkInterval - time.Since(c.writtenAt); want == c.written && remaining > 0 {
		return reconcile.Result{RequeueAfter: remaining}, nil // instances change much more often than the condition
	}
	err := c.write(ctx, want)
	switch {
	case kube.Unavailable(err):
		log.FromContext(ctx).Info("Reporting to the Operator Lifecycle Manager failed", "operatorCondition", c.Name, "error", err.Error())
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("writing OperatorCondition %s: %w", c.Name, err)
	}
	c.written, c.writtenAt = want, time.Now()
	return reconcile.Result{RequeueAfter: checkInterval}, nil
}

// decide returns the condition: False only while a node is between Act and Verify. Errors do not block an upgrade, which may fix them.
func decide(instances []v1alpha1.WindowsInstance) metav1.Condition {
	var busy []string
	for _, i := range instances {
		if m := i.Status.Maintenance; m != nil && (m.Step == v1alpha1.MaintenanceAct || m.Step == v1alpha1.MaintenanceVerify) {
			busy = append(busy, i.Name+" ("+string(m.Action)+")")
		}
	}
	if len(busy) == 0 {
		return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: api.ReasonAsExpected, Message: "no node is out of service for maintenance by the operator"}
	}
	return metav1.Condition{
		Type: conditionType, Status: metav1.ConditionFalse, Reason: api.ReasonNodesOutOfService,
		Message: truncate.Text("maintenance of these instances is in progress; the operator can be upgraded once their nodes work again: "+strings.Join(busy, ", "), truncate.Reported),
	}
}

// write sets the condition and keeps those of other writers. It does nothing if the condition is already set.
func (c *Controller) write(ctx context.Context, want metav1.Condition) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v2", Kind: "OperatorCondition"})
	if err := c.Live.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, o); err != nil {
		return err
	}
	var current struct {
		Spec struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &current); err != nil {
		return err
	}
	if !meta.SetStatusCondition(&current.Spec.Conditions, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.GetResourceVersion()}, "spec": current.Spec})
	if err != nil {
		return err
	}
	return c.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch))
}
