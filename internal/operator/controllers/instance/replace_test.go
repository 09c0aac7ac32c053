package instance

import (
	"context"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// TestOnlyMatchingMachineIsReplaced expects a Machine that was replaced or relabeled since the maintenance began to stay.
func TestOnlyMatchingMachineIsReplaced(t *testing.T) {
	began := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		change    func(*unstructured.Unstructured)
		isDeleted bool
	}{
		"same Machine":                     {func(*unstructured.Unstructured) {}, true},
		"newer Machine with the same name": {func(m *unstructured.Unstructured) { m.SetCreationTimestamp(metav1.NewTime(began.Add(time.Second))) }, false},
		"Machine is for Linux now":         {func(m *unstructured.Unstructured) { m.SetLabels(map[string]string{api.LabelMachineOS: "Linux"}) }, false},
		"Machine has no label any more":    {func(m *unstructured.Unstructured) { m.SetLabels(nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &unstructured.Unstructured{}
			machine.SetGroupVersionKind(schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "Machine"})
			machine.SetNamespace("openshift-machine-api")
			machine.SetName("win-1")
			machine.SetUID("one")
			machine.SetLabels(map[string]string{api.LabelMachineOS: "Windows"})
			machine.SetCreationTimestamp(metav1.NewTime(began))
			tc.change(machine)
			var by []types.UID
			c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(machine).WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					if p := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions; p != nil && p.UID != nil {
						by = append(by, *p.UID)
					}
					return c.Delete(ctx, o, opts...)
				},
			}).Build()
			i := controllertest.Instance("win-1", api.SourceMachine, "openshift-machine-api/win-1", "10.0.0.1")
			i.Status.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionReplace, StartedAt: metav1.NewTime(began)}
			controller := newTestInstances(c)
			m := &maintenance{Controller: controller, view: &view{}, status: controller.newStatus(i)}
			m.view.Instance = i
			if err := m.replace(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(machine), machine)
			if apierrors.IsNotFound(err) != tc.isDeleted || tc.isDeleted && !slices.Equal(by, []types.UID{"one"}) {
				t.Errorf("its Machine: %v, deleted with UIDs %q; want it deleted: %t", err, by, tc.isDeleted)
			}
		})
	}
}

// TestMachineStaysOnceItNeedNotBeReplaced expects spec.replaceWith, which is for hosts that users declare, to be no reason to delete a Machine.
func TestMachineStaysOnceItNeedNotBeReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		instance *v1alpha1.WindowsInstance
		want     bool
	}{
		"host of a Machine": {controllertest.Instance("win-1", api.SourceMachine, "openshift-machine-api/win-1", "10.0.0.1"), false},
		"host of a user":    {&v1alpha1.WindowsInstance{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			test.instance.Spec.ReplaceWith = "win-2"
			m := &maintenance{view: &view{}, next: rollout.Next{Plan: v1alpha1.Plan{Action: v1alpha1.ActionReplace}, Begin: true}}
			m.view.Instance = test.instance
			if got := m.stillNeeded(); got != test.want {
				t.Errorf("the replacement is still needed: %t, want %t", got, test.want)
			}
		})
	}
}
