package storytest

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// reconciler is a controller.
type reconciler interface {
	Reconcile(context.Context, reconcile.Request) (reconcile.Result, error)
}

// attackJob is the work of a controller on one object. Unlike in other stories, it may take any time: a host that does not answer blocks one worker
// while time advances.
type attackJob struct {
	seen     string
	due      time.Time
	running  bool
	since    time.Time
	failures int
}

// run reconciles an object that has changed since the last pass or is due. It returns when the pass has ended or blocks.
func (w *attackWorld) run(name, seen string, do func(context.Context) (reconcile.Result, error)) (did bool) {
	w.mu.Lock()
	j := w.jobs[name]
	if j == nil {
		j = &attackJob{seen: "nothing"}
		w.jobs[name] = j
	}
	isDue := !j.due.IsZero() && !time.Now().Before(j.due)
	if j.running || seen == j.seen && !isDue {
		w.mu.Unlock()
		return false
	}
	j.seen, j.due, j.running, j.since = seen, time.Time{}, true, time.Now()
	w.mu.Unlock()
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				w.breach(attackEnds, "%s panics: %v\n%s", name, cause, debug.Stack())
			}
		}()
		result, err := do(w.ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		j.running = false
		switch {
		case err != nil:
			j.failures++
			j.due = time.Now().Add(min(time.Second<<min(j.failures, 10), 5*time.Minute))
		case result.RequeueAfter > 0:
			j.failures, j.due = 0, time.Now().Add(result.RequeueAfter)
		default:
			j.failures = 0
		}
	}()
	synctest.Wait()
	return true
}

// wake makes a controller's work on an object due although the object has not changed.
func (w *attackWorld) wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[name]; j != nil {
		j.due = time.Now()
	}
}

// operateAll runs the controllers until none has work, for at most eight rounds.
func (w *attackWorld) operateAll() {
	w.releases.Update(w.ctx)
	for len(w.released) > 0 {
		<-w.released
	}
	for range 8 {
		if !w.operateEach() {
			return
		}
	}
}

func (w *attackWorld) operateEach() (did bool) {
	on := func(c reconciler, id types.NamespacedName) func(context.Context) (reconcile.Result, error) {
		return func(ctx context.Context) (reconcile.Result, error) {
			return c.Reconcile(ctx, reconcile.Request{NamespacedName: id})
		}
	}
	did = w.run("settings", w.settingsSigned(), on(w.settings, types.NamespacedName{}))
	did = w.run("fleet", w.fleetView(), on(w.fleet, types.NamespacedName{})) || did
	for len(w.fleet.Plans) > 0 {
		w.wake("instance " + (<-w.fleet.Plans).Object.GetName())
	}
	for len(w.sources.Hosts.Answered) > 0 {
		<-w.sources.Hosts.Answered
		w.wake("entries")
	}
	view := fmt.Sprint(len(w.cache.objects["WindowsInstance"]), w.versionOf("ConfigMap", "ns", api.InstancesConfigMap), w.versionOf("ConfigMap", "ns", api.KnownHostsConfigMap))
	did = w.run("entries", view, on(w.configMap, types.NamespacedName{})) || did
	for _, m := range w.cache.sorted("Machine") {
		id := client.ObjectKeyFromObject(m)
		did = w.run("machine "+id.String(), m.GetResourceVersion()+view, on(w.machines, id)) || did
	}
	for _, i := range w.allInstances() {
		did = w.run("instance "+i.Name, w.instanceView(&i), on(w.instances, client.ObjectKeyFromObject(&i))) || did
	}
	for _, o := range w.cache.sorted("CertificateSigningRequest") {
		request := o.DeepCopyObject().(*certificatesv1.CertificateSigningRequest)
		if len(request.Status.Conditions) > 0 {
			continue
		}
		did = w.run("request "+request.Name, request.ResourceVersion, func(ctx context.Context) (reconcile.Result, error) {
			w.keep(request)
			return w.certificates.Reconcile(ctx, request)
		}) || did
	}
	return did
}

// settingsSigned is what the watches of the settings controller see; users do not change WindowsConfig here.
func (w *attackWorld) settingsSigned() string {
	return w.version + w.versionOf("Secret", "ns", api.PrivateKeySecret) + w.versionOf("Secret", "ns", api.SigningKeySecret)
}

func (w *attackWorld) versionOf(kind, namespace, name string) string {
	if o, found := w.cache.objects[kind][client.ObjectKey{Namespace: namespace, Name: name}]; found {
		return o.GetResourceVersion()
	}
	return ""
}

// noQueue discards requests: the story schedules them itself.
type noQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (noQueue) AddAfter(reconcile.Request, time.Duration) {}

// notifyNode sends the operator the create event of a Node and records the Node's owner.
func (w *attackWorld) notifyNode(node *corev1.Node, owner string) {
	w.mu.Lock()
	w.owners[node.UID] = owner
	w.mu.Unlock()
	w.instances.NodeEvents().Create(w.ctx, ctrlevent.CreateEvent{Object: node.DeepCopy()}, noQueue{})
}

// kinds returns the kinds that attackers create and for which the operator's cache has shares and limits.
func (w *attackWorld) kinds() []client.Object {
	return []client.Object{&certificatesv1.CertificateSigningRequest{}, &corev1.Service{}, &corev1.Pod{}, &corev1.Node{}}
}

// keep reduces an object to what the operator's cache stores.
func (w *attackWorld) keep(o runtime.Object) {
	for _, i := range w.informers {
		isTheirs := slices.ContainsFunc(w.kinds(), func(kind client.Object) bool { return reflect.TypeOf(kind) == reflect.TypeOf(o) })
		if !isTheirs || reflect.TypeOf(i.Object) != reflect.TypeOf(o) {
			continue
		}
		kept, err := i.Transform(o)
		w.must(err)
		reflect.ValueOf(o).Elem().Set(reflect.ValueOf(kept).Elem())
	}
}

// watchedClient returns the operator's client: it reads what the cache stores, and its writes are checked.
func (w *attackWorld) watchedClient() client.Client {
	wrote := func(o client.Object, err error) error {
		if err == nil {
			w.checkWritten(o)
		}
		return err
	}
	return interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if err == nil {
				w.keep(o)
			}
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if err := c.List(ctx, l, opts...); err != nil {
				return err
			}
			return meta.EachListItem(l, func(o runtime.Object) error {
				w.keep(o)
				return nil
			})
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, isInstance := o.(*v1alpha1.WindowsInstance); isInstance {
				o.SetUID(types.UID(fmt.Sprintf("uid-%s-%d", o.GetName(), time.Now().UnixNano())))
				o.SetGeneration(1)
			}
			return wrote(o, c.Create(ctx, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return wrote(o, c.Update(ctx, o, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			w.checkDeletes(o)
			return wrote(o, c.Delete(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			w.checkPatches(o, p)
			return wrote(o, c.Patch(ctx, o, p, opts...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return wrote(o, c.SubResource(sub).Patch(ctx, o, p, opts...))
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if request, isRequest := o.(*certificatesv1.CertificateSigningRequest); isRequest && sub == "approval" {
				return w.approve(request)
			}
			return wrote(o, c.SubResource(sub).Update(ctx, o, opts...))
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			return w.createOfOperator(ctx, c, sub, o, s, opts...)
		},
	})
}

// createOfOperator creates a subresource; tokens get the form of an API server's tokens.
func (w *attackWorld) createOfOperator(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := c.SubResource(sub).Create(ctx, o, s, opts...); err != nil {
		return err
	}
	if request, isToken := s.(*authenticationv1.TokenRequest); isToken {
		request.Status.Token = tokenLike(request.Status.Token)
		w.tokens = append(w.tokens, request.Status.Token)
	}
	return nil
}
