package instance

import (
	"context"
	"encoding/base64"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// TestTokenIsSentAfterCacheHasItsID expects a token to be held until the cache has its ID, or cacheTimeout has passed: the host requests its
// certificates at once, and a request that the cache cannot match is refused.
func TestTokenIsSentAfterCacheHasItsID(t *testing.T) {
	for name, test := range map[string]struct{ lag, leaves time.Duration }{
		"up-to-date cache":      {0, 0},
		"lagging cache":         {400 * time.Millisecond, 400 * time.Millisecond},
		"cache without watches": {time.Hour, cacheTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := controllertest.Instance("win-a", "ConfigMap", "win-a", "10.0.0.1")
				former, began := i.DeepCopy(), time.Now()
				server := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(i).WithStatusSubresource(i).Build()
				cached := interceptor.NewClient(server, interceptor.Funcs{
					SubResourceCreate: makesToken,
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
						if time.Since(began) < test.lag {
							former.DeepCopyInto(into.(*v1alpha1.WindowsInstance))
							return nil
						}
						return c.Get(ctx, key, into, opts...)
					},
				})
				c := newTestInstances(cached)
				a := &attempt{Controller: c, view: &view{}, status: c.newStatus(i)}
				a.view.Instance = i
				if _, err := a.Token(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != test.leaves {
					t.Errorf("the token left after %s, want %s", took, test.leaves)
				}
				var written v1alpha1.WindowsInstance
				if err := server.Get(t.Context(), client.ObjectKeyFromObject(i), &written); err != nil || written.Status.BootstrapCredentialID != "one" {
					t.Errorf("the ID that was written is %q (%v), want one", written.Status.BootstrapCredentialID, err)
				}
			})
		})
	}
}

// makesToken issues the token with ID one.
func makesToken(_ context.Context, _ client.Client, _ string, _, sub client.Object, _ ...client.SubResourceCreateOption) error {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"jti":"one"}`))
	sub.(*authenticationv1.TokenRequest).Status.Token = "header." + claims + ".signature"
	return nil
}

// TestDeletedInstanceGetsNoToken deletes an instance while its host joins, before the cache observes the deletion.
func TestDeletedInstanceGetsNoToken(t *testing.T) {
	i := controllertest.Instance("win-a", "ConfigMap", "win-a", "10.0.0.1")
	i.Finalizers = []string{api.Finalizer}
	server := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(i).WithStatusSubresource(i).Build()
	c := newTestInstances(interceptor.NewClient(server, interceptor.Funcs{SubResourceCreate: makesToken}))
	if err := server.Delete(t.Context(), i.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &attempt{Controller: c, view: &view{}, status: c.newStatus(i)}
	a.view.Instance, a.status.deleted = i, func() { cancel(errDeleted) }
	if token, err := a.Token(ctx); !errors.Is(err, errDeleted) {
		t.Errorf("the host gets token %q (%v), want none, since its instance is being deleted", token, err)
	}
}

// TestMissingPolicyPreventsToken requests a token while one of the policies is missing.
func TestMissingPolicyPreventsToken(t *testing.T) {
	c := newTestInstances(fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).Build())
	guards, cluster := controllertest.IncompleteGuards(t)
	c.Policies = admission.New(cluster, kube.NewEvents(&controllertest.Recorder{}), guards)
	var stall *join.Stall
	if token, err := (&attempt{Controller: c}).Token(t.Context()); token != "" || !errors.As(err, &stall) || stall.Reason != api.ReasonPoliciesAltered {
		t.Errorf("token %q, error %v; want none, for reason PoliciesAltered", token, err)
	}
}
