package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// reported returns a cluster with a WindowsConfig that has another condition.
func reported(t *testing.T, f interceptor.Funcs) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	meta.SetStatusCondition(&config.Status.Conditions, metav1.Condition{Type: api.ConditionPublished, Status: "True", Reason: api.ReasonPublished})
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(config).WithObjects(config).WithInterceptorFuncs(f).Build()
}

func condition(t *testing.T, c client.Reader) (message string) {
	t.Helper()
	var config v1alpha1.WindowsConfig
	if err := c.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(config.Status.Conditions, api.ConditionPublished) {
		t.Error("the condition of the first operator was removed")
	}
	if got := meta.FindStatusCondition(config.Status.Conditions, api.ConditionAnotherOperator); got != nil {
		return got.Message
	}
	return ""
}

const standsBy = "the operator in namespace b stands by, because the one in namespace a manages the Windows nodes of this cluster; uninstall one of them"

func TestStandbyOperatorReportsItself(t *testing.T) {
	for name, ends := range map[string]func(w *world, stop context.CancelFunc){
		"until it ends":                  func(_ *world, stop context.CancelFunc) { stop() },
		"until the first is uninstalled": func(w *world, _ context.CancelFunc) { w.uninstall("a") },
		"after a lost write":             func(w *world, _ context.CancelFunc) { w.uninstall("a") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := name == "after a lost write"
				c := reported(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					if lost {
						lost = false
						return errors.New("the API server is away")
					}
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				}})
				w := newWorld("a", "b")
				w.lease(t, "a", "x", time.Second)
				l := w.operator("b")
				ctx, stop := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer stop()
				go func() {
					for attempt(ctx, l) != nil && ctx.Err() == nil {
						time.Sleep(2 * time.Second)
					}
				}()
				report := &Report{Lock: l, Reader: c, Writer: c}
				done := make(chan error, 1)
				go func() { done <- report.Start(ctx) }()
				time.Sleep(3 * reportInterval)
				if got := condition(t, c); got != standsBy {
					t.Errorf("the condition has message %q, want %q", got, standsBy)
				}
				ends(w, stop)
				if err := <-done; err != nil {
					t.Errorf("the report ends with %v", err)
				}
				if got := condition(t, c); got != "" {
					t.Errorf("the message is still %q", got)
				}
			})
		})
	}
}

// TestLeaderRemovesStaleCondition starts an operator after one that stood by was killed.
func TestLeaderRemovesStaleCondition(t *testing.T) {
	c := reported(t, interceptor.Funcs{})
	w := newWorld("a")
	l := w.operator("a")
	report := &Report{Lock: l, Reader: c, Writer: c}
	report.write(t.Context(), "b")
	if condition(t, c) == "" {
		t.Fatal("missing condition")
	}
	if err := attempt(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := report.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := condition(t, c); got != "" {
		t.Errorf("the message is still %q", got)
	}
}

func TestReportWithoutWindowsConfigSucceeds(t *testing.T) {
	c := reported(t, interceptor.Funcs{})
	if err := c.Delete(t.Context(), &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}); err != nil {
		t.Fatal(err)
	}
	(&Report{Lock: newWorld("a").operator("a"), Reader: c, Writer: c}).write(t.Context(), "b")
}
