package upgradeable

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

const version = "windows-machine-config-operator.v1.2.0"

func operatorCondition(conditions ...any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "ns", "name": version}, "spec": map[string]any{"deployments": []any{"x"}, "conditions": conditions},
	}}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v2", Kind: "OperatorCondition"})
	return o
}

func inStep(name string, step v1alpha1.MaintenanceStep) *v1alpha1.WindowsInstance {
	i := controllertest.Instance(name, api.SourceConfigMap, "", "10.0.0.1")
	if step != "" {
		i.Status.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Step: step}
	}
	return i
}

func TestOnlyActAndVerifyBlockUpgrade(t *testing.T) {
	failed := inStep("failed", "")
	failed.Status.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionUpgrade, Message: "it failed"}
	for name, tc := range map[string]struct {
		instances []*v1alpha1.WindowsInstance
		status    string
		names     string
	}{
		"no hosts":           {nil, "True", ""},
		"a node in service":  {[]*v1alpha1.WindowsInstance{inStep("a", "")}, "True", ""},
		"a node that failed": {[]*v1alpha1.WindowsInstance{failed}, "True", ""},
		"a node is drained":  {[]*v1alpha1.WindowsInstance{inStep("a", v1alpha1.MaintenanceDrain)}, "True", ""},
		"the action runs":    {[]*v1alpha1.WindowsInstance{inStep("a", v1alpha1.MaintenanceAct)}, "False", "a (Upgrade)"},
		"a node is verified": {[]*v1alpha1.WindowsInstance{inStep("a", v1alpha1.MaintenanceVerify), inStep("b", ""), inStep("c", v1alpha1.MaintenanceAct)}, "False", "a (Upgrade), c (Upgrade)"},
	} {
		t.Run(name, func(t *testing.T) {
			other := map[string]any{"type": "Other", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-11-23T10:00:00Z"}
			b := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(operatorCondition(other))
			for _, i := range tc.instances {
				b = b.WithObjects(i)
			}
			writes := 0
			c := interceptor.NewClient(b.Build(), interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				writes++
				return c.Patch(ctx, o, p, opts...)
			}})
			controller := &Controller{Client: c, Live: c, Namespace: "ns", Name: version}
			for range 2 {
				if _, err := controller.Reconcile(t.Context(), reconcile.Request{}); err != nil {
					t.Fatal(err)
				}
			}
			current := operatorCondition()
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: version}, current); err != nil {
				t.Fatal(err)
			}
			conditions, _, _ := unstructured.NestedSlice(current.Object, "spec", "conditions")
			if len(conditions) != 2 || conditions[0].(map[string]any)["type"] != "Other" {
				t.Fatalf("conditions are %v", conditions)
			}
			got := conditions[1].(map[string]any)
			if got["type"] != "Upgradeable" || got["status"] != tc.status || !strings.Contains(got["message"].(string), tc.names) || got["lastTransitionTime"] == nil {
				t.Errorf("the condition is %v, want status %s and instances %s", got, tc.status, tc.names)
			}
			if writes != 1 {
				t.Errorf("it was written %d times, want once", writes)
			}
		})
	}
}

// Without OLM's kind or Role, the operator still works.
func TestMissingOperatorConditionIsIgnored(t *testing.T) {
	for name, answer := range map[string]error{
		"absent": apierrors.NewNotFound(schema.GroupResource{}, version), "forbidden": apierrors.NewForbidden(schema.GroupResource{}, version, nil),
	} {
		t.Run(name, func(t *testing.T) {
			c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).Build(), interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return answer
				},
			})
			result, err := (&Controller{Client: c, Live: c, Namespace: "ns", Name: version}).Reconcile(t.Context(), reconcile.Request{})
			if err != nil || result.RequeueAfter != checkInterval {
				t.Errorf("%v, %v", result, err)
			}
		})
	}
}
