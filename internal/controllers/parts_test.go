package controllers

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/join"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func TestFailuresSpaceOutAttemptsUpToALimit(t *testing.T) {
	r := retries{chance: rand.N[time.Duration], shortest: 5 * time.Second, longest: time.Minute}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	atLeast := []time.Duration{5, 10, 20, 40, 60, 60}
	for n, want := range atLeast {
		want *= time.Second
		if wait := r.fail(named("a"), now); wait < want || wait > want+want/5 {
			t.Errorf("failure %d waits %s, want %s and up to a fifth more", n+1, wait, want)
		}
	}
	if until := r.until(named("b")); !until.IsZero() {
		t.Errorf("an instance that did not fail waits until %s", until)
	}
	r.reset(named("a"))
	if wait := r.fail(named("a"), now); wait > 6*time.Second {
		t.Errorf("after a success the first failure waits %s", wait)
	}
}

func TestNoMoreHostsJoinThanThereArePlaces(t *testing.T) {
	var s slots
	first, ok := s.take(2)
	if !ok {
		t.Fatal("the first place is taken")
	}
	if _, ok := s.take(2); !ok || s.free(2) {
		t.Fatal("the second place is taken, or still free")
	}
	if _, ok := s.take(2); ok {
		t.Error("there is a third of two places")
	}
	if _, ok := s.take(3); !ok {
		t.Error("a raised limit gives no place")
	}
	first()
	first()
	if s.taken != 2 {
		t.Errorf("giving one place back twice leaves %d of 3 taken", s.taken)
	}
}

func TestANodeNameBelongsToOneInstance(t *testing.T) {
	var n names
	if _, ok := n.claim("win-1", named("a")); !ok {
		t.Fatal("a free name is taken")
	}
	if _, ok := n.claim("win-1", named("a")); !ok {
		t.Error("the owner cannot claim its name again")
	}
	if holder, ok := n.claim("win-1", named("b")); ok || holder != named("a") {
		t.Errorf("another instance got the name of %s", holder)
	}
	n.release(named("a"))
	if _, ok := n.claim("win-1", named("b")); !ok {
		t.Error("a released name is taken")
	}
}

func TestCredentialIDIsReadFromTheToken(t *testing.T) {
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	if id, err := credentialID(token(`{"jti":"6f0c","sub":"x"}`)); err != nil || id != "6f0c" {
		t.Errorf("got %q, %v", id, err)
	}
	for _, bad := range []string{"", "a.b", "a.!.c", token(`{}`), token(`[`), token(`{"jti":7}`)} {
		if id, err := credentialID(bad); err == nil {
			t.Errorf("token %q has ID %q", bad, id)
		} else if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("the error repeats the token: %v", err)
		}
	}
}

// A thousand hosts that join must not be six thousand events.
func TestOnlyWhatMattersOfAJoinIsAnEvent(t *testing.T) {
	recorder := &told{}
	i := &v1alpha1.WindowsInstance{}
	for _, reason := range []string{
		api.ReasonWaitingForSlot, api.ReasonJoining, api.ReasonNodeMissing, api.ReasonNodeNotReady, api.ReasonVersionPending,
		api.ReasonReady, api.ReasonNodeNotReady, api.ReasonReady, api.ReasonNodeMissing,
	} {
		s := newStatus(common{recorder: recorder}, i)
		meta.SetStatusCondition(&s.now().Conditions, metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: reason})
		s.written = s.wanted
		s.tellReason()
	}
	want := []string{
		api.ReasonJoining, api.ReasonReady, api.ReasonNodeNotReady, api.ReasonReady, api.ReasonNodeMissing,
	}
	if len(recorder.events) != len(want) {
		t.Fatalf("%d events, want %d: %q", len(recorder.events), len(want), recorder.events)
	}
	for n, is := range recorder.events {
		if !strings.Contains(is, " "+want[n]+" ") {
			t.Errorf("event %d is %q, want %s", n+1, is, want[n])
		}
	}
}

// A step that takes long is seen while it does, however soon it came after another.
func TestProgressThatCameTooSoonIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := anInstance("win-a", "ConfigMap", "win-a", "10.0.0.1")
		join.Begin(&i.Status, 1)
		c := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(i).WithStatusSubresource(i).Build()
		s := newStatus(common{client: c, recorder: &told{}, metrics: newMetrics(prometheus.NewRegistry(), c)}, i)
		s.pause = 4 * time.Second
		running := func() (steps []string) {
			var is v1alpha1.WindowsInstance
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(i), &is); err != nil {
				t.Fatal(err)
			}
			for _, step := range is.Status.Steps {
				if step.State == v1alpha1.StepRunning {
					steps = append(steps, step.Name)
				}
			}
			return steps
		}
		step := func(name string, state v1alpha1.StepState) {
			s.progress(t.Context(), join.Progress{Step: name, State: state})
		}
		step(join.StepConnect, v1alpha1.StepRunning)
		if got := running(); !slices.Equal(got, []string{join.StepConnect}) {
			t.Errorf("at once, %q is seen", got)
		}
		time.Sleep(time.Second)
		step(join.StepConnect, v1alpha1.StepDone)
		step(join.StepInspect, v1alpha1.StepRunning)
		time.Sleep(2 * time.Second)
		if got := running(); !slices.Equal(got, []string{join.StepConnect}) {
			t.Errorf("before the pause is over, %q is seen", got)
		}
		time.Sleep(2 * time.Second)
		if got := running(); !slices.Equal(got, []string{join.StepInspect}) {
			t.Errorf("after the pause, %q is seen", got)
		}
		step(join.StepInspect, v1alpha1.StepDone)
		s.settle()
		time.Sleep(time.Minute)
		if got := running(); !slices.Equal(got, []string{join.StepInspect}) {
			t.Errorf("after the join has ended, %q is seen", got)
		}
	})
}

// A host that does not answer is tried again and again. Each attempt that comes to nothing is one write, and none while it lasts.
func TestASilentHostIsOneWriteAnAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		silent bool
		writes int
	}{
		"the first attempt": {false, 2}, // that the host is joined, and that it does not answer
		"another attempt":   {true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, writes := anInstance("win-a", "ConfigMap", "win-a", "10.0.0.1"), 0
				join.Begin(&i.Status, 1)
				c := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(i).WithStatusSubresource(i).WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
						writes++
						return w.SubResource(sub).Patch(ctx, o, p, opts...)
					},
				}).Build()
				s := newStatus(common{client: c, recorder: &told{}, metrics: newMetrics(prometheus.NewRegistry(), c)}, i)
				s.spare(progressEvery)
				s.silent = test.silent
				s.progress(t.Context(), join.Progress{Step: join.StepConnect, State: v1alpha1.StepRunning})
				time.Sleep(15 * time.Second)
				s.progress(t.Context(), join.Progress{Step: join.StepConnect, State: v1alpha1.StepFailed, Message: "no answer"})
				s.settle()
				time.Sleep(time.Second)
				join.Report(s.now(), 1, true, &join.StepError{Step: join.StepConnect, Err: errors.New("no answer")})
				if err := s.write(t.Context()); err != nil {
					t.Fatal(err)
				}
				if writes != test.writes {
					t.Errorf("the attempt was %d writes, want %d", writes, test.writes)
				}
			})
		})
	}
}
