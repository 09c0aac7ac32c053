package lease

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// world is a cluster with operators.
type world struct {
	*fake.Clientset
	mu        sync.Mutex
	installed map[string]bool // by namespace
	fails     error           // error of every list of Leases
}

func newWorld(installed ...string) *world {
	w := &world{Clientset: fake.NewClientset(), installed: map[string]bool{}}
	for _, namespace := range installed {
		w.installed[namespace] = true
	}
	w.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		namespace := strings.TrimSuffix(strings.TrimPrefix(review.Spec.User, "system:serviceaccount:"), ":windows-machine-config-operator")
		review.Status.Allowed = w.installed[namespace] && review.Spec.ResourceAttributes.Subresource == "approval"
		return true, review, nil
	})
	w.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return w.fails != nil, nil, w.fails })
	return w
}

func (w *world) uninstall(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.installed[namespace] = false
}

// operator returns the lock of an operator, as leader election uses it.
func (w *world) operator(namespace string) *Lock {
	lease := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}, Client: w.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: namespace},
	}
	return New(lease, Cluster{w}, namespace)
}

func attempt(ctx context.Context, l *Lock) error {
	now := metav1.Now()
	record := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 15, RenewTime: now, AcquireTime: now}
	if _, _, err := l.Get(ctx); err != nil {
		return l.Create(ctx, record)
	}
	return l.Update(ctx, record)
}

// lease creates a Lease in a namespace that was renewed some time ago.
func (w *world) lease(t *testing.T, namespace, holder string, ago time.Duration) {
	t.Helper()
	renewed := metav1.NewMicroTime(time.Now().Add(-ago))
	_, err := w.CoordinationV1().Leases(namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMostRecentOperatorKeepsTheLease(t *testing.T) {
	type lease struct {
		namespace, holder string
		ago               time.Duration
	}
	for name, test := range map[string]struct {
		installed []string
		leases    []lease
		waitsFor  string
	}{
		"alone":                                    {installed: []string{"b"}},
		"another is running":                       {[]string{"a", "b"}, []lease{{"a", "x", time.Second}}, "a"},
		"another is restarting":                    {[]string{"a", "b"}, []lease{{"a", "", time.Second}}, "a"},
		"another expired a day ago":                {[]string{"a", "b"}, []lease{{"a", "x", 24 * time.Hour}}, "a"},
		"another was uninstalled":                  {[]string{"b"}, []lease{{"a", "x", time.Second}}, ""},
		"Lease of a user":                          {[]string{"b"}, []lease{{"tenant", "x", -time.Hour}}, ""},
		"Lease of a user while another is running": {[]string{"a", "b"}, []lease{{"tenant", "x", -time.Hour}, {"a", "x", time.Second}}, "a"},
		"own restart":                              {[]string{"b"}, []lease{{"b", "", time.Second}}, ""},
		"own restart after another had expired":    {[]string{"a", "b"}, []lease{{"a", "x", time.Hour}, {"b", "", time.Second}}, ""},
		"own restart after another took over":      {[]string{"a", "b"}, []lease{{"a", "x", time.Second}, {"b", "", time.Hour}}, "a"},
		"latest of two others":                     {[]string{"a", "b", "c"}, []lease{{"a", "", time.Hour}, {"c", "x", time.Minute}}, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(test.installed...)
				for _, l := range test.leases {
					w.lease(t, l.namespace, l.holder, l.ago)
				}
				l := w.operator("b")
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- attempt(ctx, l) }()
				time.Sleep(2 * renewalCheckInterval) // a held Lease is checked twice
				if first := l.First(); first != test.waitsFor {
					t.Errorf("it waits for %q, want %q", first, test.waitsFor)
				}
				cancel()
				if err := <-done; (err == nil) != (test.waitsFor == "") {
					t.Errorf("the attempt returns %v", err)
				}
				select {
				case <-l.Taken():
					if test.waitsFor != "" {
						t.Error("it has taken the Lease")
					}
				default:
					if test.waitsFor == "" {
						t.Error("it has not taken the Lease")
					}
				}
			})
		})
	}
}

func TestStandbyOperatorTakesOverAfterUninstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a", "b")
		a, b := w.operator("a"), w.operator("b")
		if err := attempt(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- attempt(t.Context(), b) }()
		time.Sleep(time.Hour)
		if b.First() != "a" {
			t.Errorf("after an hour it waits for %q", b.First())
		}
		w.uninstall("a")
		time.Sleep(renewalCheckInterval)
		synctest.Wait()
		if err := <-done; err == nil {
			t.Error("the attempt that waited took the Lease with the time at which it began")
		}
		if err := attempt(t.Context(), b); err != nil || b.First() != "" {
			t.Errorf("the second does not begin (%v), it waits for %q", err, b.First())
		}
		if err := attempt(t.Context(), b); err != nil {
			t.Errorf("it cannot renew the Lease: %v", err)
		}
	})
}

// TestFutureRenewalTimeGrantsNoPrecedence restarts an operator whose Lease has a renewal time in the future.
func TestFutureRenewalTimeGrantsNoPrecedence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a", "b")
		w.lease(t, "b", "", -time.Hour)
		a := w.operator("a")
		w.uninstall("b")
		if err := attempt(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.installed["b"] = true
		w.mu.Unlock()
		b := w.operator("b")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- attempt(ctx, b) }()
		for range 10 {
			time.Sleep(2 * time.Second)
			if err := attempt(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		if b.First() != "a" || b.holding {
			t.Errorf("the second waits for %q", b.First())
		}
		cancel()
		<-done
	})
}

// TestKilledOperatorDoesNotBlockOthers has a held Lease that is not renewed.
func TestKilledOperatorDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a", "b")
		w.lease(t, "a", "killed", time.Hour)
		w.lease(t, "b", "", time.Minute)
		if err := attempt(t.Context(), w.operator("b")); err != nil {
			t.Error(err)
		}
	})
}

// TestConcurrentStartReleasesLease has another operator take its Lease between the check and the write.
func TestConcurrentStartReleasesLease(t *testing.T) {
	w := newWorld("a", "b")
	w.lease(t, "b", "", time.Hour)
	l := w.operator("b")
	before, _, err := l.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taken := metav1.NowMicro()
	once := sync.OnceValue(func() error {
		return w.Tracker().Add(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("x"), RenewTime: &taken},
		})
	})
	w.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return false, nil, once() })
	if err := attempt(t.Context(), l); err == nil || !strings.Contains(err.Error(), "namespace a started at the same time") {
		t.Errorf("the attempt returns %v", err)
	}
	got, _, err := l.Get(t.Context())
	if err != nil || got.HolderIdentity != "" || !got.RenewTime.Time.Equal(before.RenewTime.Time) {
		t.Errorf("the Lease is %+v (%v), want the previous one: %+v", got, err, before)
	}
}

func TestOnlyOneOperatorHoldsLease(t *testing.T) {
	for range 200 {
		w := newWorld("a", "b")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		var all sync.WaitGroup
		locks := []*Lock{w.operator("a"), w.operator("b")}
		for _, l := range locks {
			all.Go(func() { _ = attempt(ctx, l) })
		}
		all.Wait()
		cancel()
		if locks[0].holding && locks[1].holding {
			t.Fatal("both have taken their Lease")
		}
	}
}

func TestLeaseIsNotTakenWhenListFails(t *testing.T) {
	w := newWorld("b")
	w.fails = errors.New("leases is forbidden")
	l := w.operator("b")
	if err := attempt(t.Context(), l); err == nil || !strings.Contains(err.Error(), "looking for other operators: leases is forbidden") {
		t.Errorf("the attempt returns %v", err)
	}
	if _, err := w.CoordinationV1().Leases("b").Get(t.Context(), Name, metav1.GetOptions{}); err == nil {
		t.Error("the Lease is taken")
	}
}
