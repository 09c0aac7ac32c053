//go:build linux

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

func TestMain(m *testing.M) { lab.RunTests(m) }

// waitTimeout is the timeout for operations that take seconds on an idle machine, at speed factor 1. It is longer than the two minutes after which WICD
// kills a service that does not stop: on Wine, programs sometimes hang at exit.
const waitTimeout = 5 * time.Minute

// needs skips a test if something is missing, with the reason.
func needs(t *testing.T, missing ...error) {
	t.Helper()
	for _, err := range missing {
		if err != nil {
			t.Skip("SKIPPED:", err)
		}
	}
}

// must fails the test immediately if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// harness is a configured environment to which a test adds hosts.
type harness struct {
	*testenv.Env
	t  *testing.T
	mu *sync.Mutex
}

// newHarness opens an environment for a test and closes it at the test's end. If the test fails, it logs the operator's log. A data
// race in the operator fails the test. Tests mostly wait, so two run in parallel.
func newHarness(t *testing.T, o testenv.Options) harness {
	t.Helper()
	t.Parallel()
	env := testenv.Start(t, o)
	t.Cleanup(func() {
		if env.Operator != nil {
			if races := env.Operator.Races(); races != "" {
				t.Errorf("the operator has data races:\n%s", races)
			}
		}
		expectDeclaredReasons(t, env)
	})
	must(t, env.Configure(t.Context()))
	return harness{env, t, &sync.Mutex{}}
}

// withT returns the harness for a subtest.
func (p harness) withT(t *testing.T) harness {
	p.t = t
	return p
}

// joinAll announces all hosts, and waits until each is a Ready node.
func (p harness) joinAll() {
	p.t.Helper()
	must(p.t, p.Announce(p.t.Context(), p.Hosts()...))
	p.eventually("each host has an instance", func(context.Context) string {
		if n := len(p.instances()); n != len(p.Hosts()) {
			return fmt.Sprintf("got %d instances, want %d", n, len(p.Hosts()))
		}
		return ""
	})
	p.expectAllReady()
}

// host starts a simulated host without announcing it. By default its Windows has no quirks, because tests inject faults of their own.
func (p harness) host(o sim.Options) (*sim.Host, testenv.Host) {
	p.t.Helper()
	o.Windows.NoQuirks = cmp.Or(o.Windows.NoQuirks, "one fault at a time")
	p.mu.Lock()
	defer p.mu.Unlock()
	host, h, err := p.AddSimulated(o)
	must(p.t, err)
	return host, h
}

// announce creates a WindowsInstance for a host; change may modify it first.
func (p harness) announce(h testenv.Host, change func(*v1alpha1.WindowsInstance)) types.NamespacedName {
	p.t.Helper()
	i := h.Instance()
	if change != nil {
		change(i)
	}
	p.create(i)
	return client.ObjectKeyFromObject(i)
}

func (p harness) instance(name types.NamespacedName) *v1alpha1.WindowsInstance {
	p.t.Helper()
	var i v1alpha1.WindowsInstance
	p.get(name, &i)
	return &i
}

func (p harness) node(name string) *corev1.Node {
	p.t.Helper()
	var node corev1.Node
	p.get(types.NamespacedName{Name: name}, &node)
	return &node
}

// operatorObject returns the name of an object in the operator's namespace.
func operatorObject(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: api.DefaultNamespace, Name: name}
}

func (p harness) get(name types.NamespacedName, object client.Object) {
	p.t.Helper()
	must(p.t, p.Client.Get(p.t.Context(), name, object))
}

func (p harness) create(object client.Object) {
	p.t.Helper()
	must(p.t, p.Client.Create(p.t.Context(), object))
}

// webserver deploys count pods of the web server; change may modify the Deployment first.
func (p harness) webserver(name string, count int32, change func(*appsv1.Deployment)) *appsv1.Deployment {
	p.t.Helper()
	d, err := p.WinWebserver(p.t.Context(), name, count, change)
	must(p.t, err)
	return d
}

func (p harness) remove(object client.Object) {
	p.t.Helper()
	must(p.t, p.Client.Delete(p.t.Context(), object))
}

// eventually waits until check returns "". Check returns what is missing.
func (p harness) eventually(what string, check func(context.Context) (missing string)) {
	p.t.Helper()
	testenv.Eventually(p.t, waitTimeout, what, check)
}

// eventuallyOf waits until check returns "" for an object. Check returns what is missing.
func eventuallyOf[O any, P interface {
	*O
	client.Object
}](p harness, what string, name types.NamespacedName, check func(P) (missing string)) {
	p.t.Helper()
	p.eventually(what, func(ctx context.Context) string {
		object := P(new(O))
		if err := p.Client.Get(ctx, name, object); err != nil {
			return err.Error()
		}
		return check(object)
	})
}

// repeat calls a function repeatedly until stop is called or the test ends.
func (p harness) repeat(pause time.Duration, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			do(ctx)
			time.Sleep(pause)
		}
	}()
	stop = func() { cancel(); <-done }
	p.t.Cleanup(stop)
	return stop
}

// expectGone waits until an object no longer exists.
func (p harness) expectGone(name types.NamespacedName, object client.Object) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%T %s is deleted", object, name.Name), func(ctx context.Context) string {
		now := object.DeepCopyObject().(client.Object)
		if err := p.Client.Get(ctx, name, now); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it still exists (%v): %+v", err, now)
		}
		return ""
	})
}

// expect waits until a condition has a reason, and its message has the parts.
func (p harness) expect(name types.NamespacedName, condition, reason string, parts ...string) {
	p.t.Helper()
	eventuallyOf(p, fmt.Sprintf("%s of %s has reason %s", condition, name.Name, reason), name, func(i *v1alpha1.WindowsInstance) string {
		c := meta.FindStatusCondition(i.Status.Conditions, condition)
		if c == nil || c.Reason != reason {
			return fmt.Sprintf("got condition %+v", c)
		}
		if !containsAll(c.Message, parts) {
			return fmt.Sprintf("message %q lacks one of %q", c.Message, parts)
		}
		return ""
	})
}

// expectReady waits until a host is a Ready node.
func (p harness) expectReady(name types.NamespacedName) {
	p.t.Helper()
	p.expect(name, api.ConditionReady, api.ReasonReady)
}

// expectEvent waits for an event on an object whose note contains the parts, and returns the note.
func (p harness) expectEvent(about, reason string, parts ...string) (note string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("event %s on %s with %v", reason, about, parts), func(ctx context.Context) string {
		var list eventsv1.EventList
		if err := p.Client.List(ctx, &list); err != nil {
			return err.Error()
		}
		var notes []string
		for _, e := range list.Items {
			if e.Regarding.Name == about && e.Reason == reason {
				notes = append(notes, e.Note)
			}
		}
		for _, note = range notes {
			if containsAll(note, parts) {
				return ""
			}
		}
		return fmt.Sprintf("got events %q", notes)
	})
	return note
}

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// key replaces the data of Secret cloud-private-key; nil deletes it.
func (p harness) key(text []byte) {
	p.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.PrivateKeySecret},
		Data: map[string][]byte{api.PrivateKeyKey: text}}
	must(p.t, client.IgnoreNotFound(p.Client.Delete(p.t.Context(), secret)))
	if text != nil {
		p.create(secret)
	}
}

// calledHostCompute reports whether a call to the container services on a pod's host contained all parts.
func (p harness) calledHostCompute(pod *corev1.Pod, parts ...string) bool {
	p.t.Helper()
	i := slices.IndexFunc(p.Lab.Hosts(), func(h *lab.Host) bool { return h.Name() == pod.Spec.NodeName })
	if i < 0 {
		p.t.Fatalf("pod %s runs on %q", pod.Name, pod.Spec.NodeName)
	}
	log, err := p.Lab.Hosts()[i].ReadFile(`C:\lab\hostcompute.log`)
	must(p.t, err)
	for line := range strings.Lines(string(log)) {
		if containsAll(line, parts) {
			return true
		}
	}
	return false
}

// expectPodEvent waits for an event of a pod.
func (p harness) expectPodEvent(pod *corev1.Pod, reason, part string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("pod %s has event %s: %s", pod.Name, reason, part), func(ctx context.Context) string {
		var events corev1.EventList
		if err := p.Client.List(ctx, &events, client.InNamespace(pod.Namespace)); err != nil {
			return err.Error()
		}
		var output []string
		for _, e := range events.Items {
			if e.InvolvedObject.UID == pod.UID && e.Reason == reason && strings.Contains(e.Message, part) {
				p.t.Log(e.Message)
				return ""
			}
			output = append(output, e.InvolvedObject.Name+": "+e.Reason+": "+e.Message)
		}
		return fmt.Sprintf("got events %q", output)
	})
}
