package userdata

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// userDataWorld is a cluster for the user data. closed are namespaces that do not exist or in which the operator has no Role.
type userDataWorld struct {
	t *testing.T
	client.WithWatch
	*controllertest.Recorder
	*Controller
	closed map[string]error
	writes int
}

func newUserDataWorld(t *testing.T, platform string, objects ...client.Object) *userDataWorld {
	t.Helper()
	w := &userDataWorld{t: t, Recorder: &controllertest.Recorder{}, closed: map[string]error{}}
	if platform != "" {
		infrastructure := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"platformStatus": map[string]any{"type": platform}}}}
		infrastructure.SetGroupVersionKind(schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Infrastructure"})
		infrastructure.SetName("cluster")
		objects = append(objects, infrastructure)
	}
	w.WithWatch = fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, name client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if err := w.closed[name.Namespace]; err != nil {
				return err
			}
			return c.Get(ctx, name, o, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			w.writes++
			if err := w.closed[o.GetNamespace()]; err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			w.writes++
			var now corev1.Secret
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), &now); err == nil && now.Immutable != nil && *now.Immutable {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, o.GetName(), nil) // as the API server does
			}
			return c.Update(ctx, o, options...)
		},
	}).Build()
	w.Controller = New(Options{Namespace: "ns", Client: w.WithWatch, Live: w.WithWatch, Events: kube.NewEvents(w.Recorder)})
	return w
}

// keyOf returns a Secret with the private key of a number, and the line with its public key.
func keyOf(t *testing.T, number byte) (secret *corev1.Secret, line string) {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = number
	private := ed25519.NewKeyFromSeed(seed)
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.PrivateKeySecret},
		Data:       map[string][]byte{api.PrivateKeyKey: pem.EncodeToMemory(block)},
	}, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

func (w *userDataWorld) pass() {
	w.t.Helper()
	if _, err := w.Reconcile(w.t.Context(), reconcile.Request{}); err != nil {
		w.t.Fatal(err)
	}
}

// secret returns the user data in a namespace, or nil.
func (w *userDataWorld) secret(namespace string) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	err := w.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: api.UserDataSecret}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func TestUserDataIsWrittenToMachineNamespaces(t *testing.T) {
	key, line := keyOf(t, 1)
	w := newUserDataWorld(t, "AWS", key)
	w.pass()
	mapi, capi := w.secret(source.MachineAPINamespace), w.secret(source.ClusterAPINamespace)
	if mapi == nil || capi == nil {
		t.Fatal("a Secret is missing")
	}
	text := string(mapi.Data["userData"])
	if !strings.Contains(text, "'"+line+"'") || !strings.Contains(text, "EC2Launch") || len(mapi.Data) != 1 {
		t.Errorf("the Secret has %d keys; userData is\n%s", len(mapi.Data), text)
	}
	if string(capi.Data["userData"]) != text || string(capi.Data["value"]) != text {
		t.Error("Cluster API, which reads key value, gets another text")
	}
	writes := w.writes
	w.pass()
	if w.writes != writes || len(w.Events) > 0 {
		t.Errorf("a second reconcile causes %d writes; events %q", w.writes-writes, w.Events)
	}
}

func TestUserDataContainsAllowedRanges(t *testing.T) {
	key, _ := keyOf(t, 1)
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Network.AllowFrom = []string{"10.0.7.7/16"}
	w := newUserDataWorld(t, "AWS", key, config)
	w.pass()
	before := string(w.secret(source.MachineAPINamespace).Data["userData"])
	if !strings.Contains(before, "$allowFrom = @(\n    '10.0.0.0/16'\n)") {
		t.Errorf("userData is\n%s", before)
	}
	config.Spec.Network.AllowFrom = []string{"10.0.0.0/16", "none"}
	if err := w.WithWatch.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.pass()
	if after := string(w.secret(source.MachineAPINamespace).Data["userData"]); after != before {
		t.Errorf("with an invalid range, userData is\n%s", after)
	}
}

func TestChangedUserDataIsRestored(t *testing.T) {
	key, _ := keyOf(t, 1)
	changes := map[string]func(w *userDataWorld, s *corev1.Secret) error{
		"edited": func(w *userDataWorld, s *corev1.Secret) error {
			s.Data["userData"] = []byte("<powershell>whoami</powershell>")
			return w.WithWatch.Update(t.Context(), s)
		},
		"added to": func(w *userDataWorld, s *corev1.Secret) error {
			s.Data["more"] = []byte("x")
			return w.WithWatch.Update(t.Context(), s)
		},
		"emptied": func(w *userDataWorld, s *corev1.Secret) error {
			s.Data = nil
			return w.WithWatch.Update(t.Context(), s)
		},
		"deleted": func(w *userDataWorld, s *corev1.Secret) error { return w.WithWatch.Delete(t.Context(), s) },
		"made immovable": func(w *userDataWorld, s *corev1.Secret) error {
			s.Data, s.Immutable = nil, new(true)
			return w.WithWatch.Update(t.Context(), s)
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := newUserDataWorld(t, "Azure", key)
			w.pass()
			s := w.secret(source.MachineAPINamespace)
			want := string(s.Data["userData"])
			s.Labels = map[string]string{"example.com/mine": "x"}
			if err := change(w, s); err != nil {
				t.Fatal(err)
			}
			w.pass()
			s = w.secret(source.MachineAPINamespace)
			if s == nil || string(s.Data["userData"]) != want || len(s.Data) != 1 {
				t.Fatalf("the Secret is %+v", s)
			}
			if name == "edited" && (s.Labels["example.com/mine"] != "x" || len(w.Events) != 1 || !strings.Contains(w.Events[0], "not changed")) {
				t.Errorf("labels %v, events %q", s.Labels, w.Events)
			}
		})
	}
}

func TestUserDataFollowsSSHKey(t *testing.T) {
	first, oldLine := keyOf(t, 1)
	second, newLine := keyOf(t, 2)
	w := newUserDataWorld(t, "GCP", first)
	w.pass()
	second.ResourceVersion = ""
	if err := w.WithWatch.Update(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	w.pass()
	for _, namespace := range []string{source.MachineAPINamespace, source.ClusterAPINamespace} {
		text := string(w.secret(namespace).Data["userData"])
		if !strings.Contains(text, newLine) || strings.Contains(text, oldLine) {
			t.Errorf("%s: the user data has not the new key, or still the old one", namespace)
		}
	}
}

func TestUserDataIsKept(t *testing.T) {
	key, _ := keyOf(t, 1)
	bad := key.DeepCopy()
	bad.Data = map[string][]byte{api.PrivateKeyKey: []byte("no key")}
	found := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source.MachineAPINamespace, Name: api.UserDataSecret}, Data: map[string][]byte{"userData": []byte("x")}}
	for name, w := range map[string]*userDataWorld{
		"without a key": newUserDataWorld(t, "AWS", found.DeepCopy()),
		"invalid key":   newUserDataWorld(t, "AWS", found.DeepCopy(), bad),
		"not OpenShift": newUserDataWorld(t, "", found.DeepCopy(), key.DeepCopy()),
	} {
		if r, err := w.Reconcile(t.Context(), reconcile.Request{}); err != nil || name == "not OpenShift" && r.RequeueAfter == 0 {
			t.Errorf("%s: got %+v, %v", name, r, err) // the platform may be reported later
		}
		if got := w.secret(source.MachineAPINamespace); string(got.Data["userData"]) != "x" || w.writes > 0 {
			t.Errorf("%s: user data became %q with %d writes", name, got.Data, w.writes)
		}
	}
}

func TestUserDataNamespacesAreIndependent(t *testing.T) {
	key, _ := keyOf(t, 1)
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, err := range map[string]error{
		"no namespace": apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, source.ClusterAPINamespace),
		"no role":      apierrors.NewForbidden(secrets, api.UserDataSecret, errors.New("no role")),
	} {
		w := newUserDataWorld(t, "VSphere", key.DeepCopy())
		w.closed[source.ClusterAPINamespace] = err
		w.pass()
		if w.secret(source.MachineAPINamespace) == nil {
			t.Errorf("%s in %s keeps the user data from %s", name, source.ClusterAPINamespace, source.MachineAPINamespace)
		}
	}
	w := newUserDataWorld(t, "VSphere", key.DeepCopy())
	w.closed[source.MachineAPINamespace] = errors.New("the API server is away")
	if _, err := w.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Error("an unavailable API server causes no error")
	}
	if w.secret(source.ClusterAPINamespace) == nil {
		t.Error("a fault in one namespace keeps the user data from the other")
	}
}
