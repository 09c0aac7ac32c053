//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/sim"
	"github.com/windows-machine-config/wmco/lab/world"
)

// patience is how long a test waits for what takes seconds on an idle machine. It is more than the two minutes that WICD
// gives a service to stop before it ends it by force: Wine lets a program hang at its end now and then.
const patience = 4 * time.Minute

// openWorld opens a world for a test and closes it at its end. When the test fails, it shows what the operator said.
func openWorld(t *testing.T, o world.Options) *world.World {
	t.Helper()
	o.Log = os.Stderr
	w, err := world.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log := w.Operator.Log()
			t.Logf("the end of the operator's log:\n%s\n%s", log[max(0, len(log)-20000):], w.Lab.Logs())
		}
		w.Close()
	})
	return w
}

// place is a world that is configured, in which a test adds hosts.
type place struct {
	*world.World
	t  *testing.T
	mu *sync.Mutex
}

func newPlace(t *testing.T, o world.Options) place {
	t.Helper()
	w := openWorld(t, o)
	if err := w.Configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return place{w, t, &sync.Mutex{}}
}

// in is the same place for a subtest.
func (p place) in(t *testing.T) place {
	p.t = t
	return p
}

// joinAll announces all hosts, and waits until each is a Ready node.
func (p place) joinAll() {
	p.t.Helper()
	if err := p.Announce(p.t.Context(), p.Hosts()...); err != nil {
		p.t.Fatal(err)
	}
	p.eventually("there is an instance for each host", func(context.Context) string {
		if n := len(p.instances()); n != len(p.Hosts()) {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
	p.expectAllReady()
}

// host starts a simulated host that has not been announced.
func (p place) host(o sim.Options) (*sim.Host, world.Host) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	host, h, err := p.AddSimulated(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return host, h
}

// announce writes a WindowsInstance for a host; change may change it first.
func (p place) announce(h world.Host, change func(*v1alpha1.WindowsInstance)) types.NamespacedName {
	p.t.Helper()
	i := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: h.Name},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: h.Address, Port: h.Port, Username: world.User},
	}
	if change != nil {
		change(i)
	}
	if err := p.Client.Create(p.t.Context(), i); err != nil {
		p.t.Fatal(err)
	}
	return client.ObjectKeyFromObject(i)
}

func (p place) instance(name types.NamespacedName) *v1alpha1.WindowsInstance {
	p.t.Helper()
	var i v1alpha1.WindowsInstance
	if err := p.Client.Get(p.t.Context(), name, &i); err != nil {
		p.t.Fatal(err)
	}
	return &i
}

// eventually waits until look is satisfied; look says what is missing.
func (p place) eventually(what string, look func(context.Context) (missing string)) {
	p.t.Helper()
	world.Eventually(p.t, patience, what, look)
}

// expect waits until a condition has a reason, and its message has the parts.
func (p place) expect(name types.NamespacedName, condition, reason string, parts ...string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%s of %s has reason %s", condition, name.Name, reason), func(ctx context.Context) string {
		var i v1alpha1.WindowsInstance
		if err := p.Client.Get(ctx, name, &i); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(i.Status.Conditions, condition)
		if c == nil || c.Reason != reason {
			return fmt.Sprintf("it is %+v", c)
		}
		for _, part := range parts {
			if !strings.Contains(c.Message, part) {
				return fmt.Sprintf("message %q does not say %q", c.Message, part)
			}
		}
		return ""
	})
}

// expectReady waits until a host is a Ready node.
func (p place) expectReady(name types.NamespacedName) {
	p.t.Helper()
	p.expect(name, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
}

// expectEvent waits for an event on an object whose note has the parts.
func (p place) expectEvent(about, reason string, parts ...string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("event %s on %s that says %v", reason, about, parts), func(ctx context.Context) string {
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
		for _, note := range notes {
			if containsAll(note, parts) {
				return ""
			}
		}
		return fmt.Sprintf("its events say %q", notes)
	})
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
func (p place) key(text []byte) {
	p.t.Helper()
	ctx := p.t.Context()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: v1alpha1.PrivateKeySecret}}
	if err := p.Client.Delete(ctx, secret); err != nil && !apierrors.IsNotFound(err) {
		p.t.Fatal(err)
	}
	if text == nil {
		return
	}
	secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: v1alpha1.PrivateKeySecret},
		Data: map[string][]byte{v1alpha1.PrivateKeyKey: text}}
	if err := p.Client.Create(ctx, secret); err != nil {
		p.t.Fatal(err)
	}
}
