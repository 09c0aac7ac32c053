package instance

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// newTestInstances returns a controller with a client and little else.
func newTestInstances(c client.Client) *Controller {
	log := kube.NewEvents(&controllertest.Recorder{})
	return New(Options{
		Client: c, Live: c, Events: log, Registry: prometheus.NewRegistry(), Policies: admission.New(c, log, nil), Slots: &kube.Slots{}, Names: &NameClaims{},
	})
}

func TestNodeNameIsClaimedByOneInstance(t *testing.T) {
	var n NameClaims
	if _, ok := n.Claim("win-1", controllertest.Key("a")); !ok {
		t.Fatal("a free name is taken")
	}
	if _, ok := n.Claim("win-1", controllertest.Key("a")); !ok {
		t.Error("the owner cannot claim its name again")
	}
	if holder, ok := n.Claim("win-1", controllertest.Key("b")); ok || holder != controllertest.Key("a") {
		t.Errorf("another instance got the name of %s", holder)
	}
	n.release(controllertest.Key("a"))
	if _, ok := n.Claim("win-1", controllertest.Key("b")); !ok {
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

// A thousand joining hosts must not cause six thousand events.
func TestTransientReasonsCauseNoEvents(t *testing.T) {
	recorder := &controllertest.Recorder{}
	i := &v1alpha1.WindowsInstance{}
	for _, reason := range []string{
		api.ReasonWaitingForSlot, api.ReasonJoining, api.ReasonNodeMissing, api.ReasonNodeNotReady, api.ReasonVersionPending,
		api.ReasonReady, api.ReasonNodeNotReady, api.ReasonReady, api.ReasonNodeMissing,
	} {
		s := (&Controller{Options: Options{Events: kube.NewEvents(recorder)}}).newStatus(i)
		meta.SetStatusCondition(&s.want().Conditions, metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: reason})
		s.written = s.wanted
		s.recordReason()
	}
	want := []string{
		api.ReasonJoining, api.ReasonReady, api.ReasonNodeNotReady, api.ReasonReady, api.ReasonNodeMissing,
	}
	if len(recorder.Events) != len(want) {
		t.Fatalf("%d events, want %d: %q", len(recorder.Events), len(want), recorder.Events)
	}
	for n, got := range recorder.Events {
		if !strings.Contains(got, " "+want[n]+" ") {
			t.Errorf("event %d is %q, want %s", n+1, got, want[n])
		}
	}
}

// A long step is visible while it runs, however soon it came after another.
func TestFrequentProgressIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := controllertest.Instance("win-a", "ConfigMap", "win-a", "10.0.0.1")
		join.Begin(&i.Status, 1)
		c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(i).WithStatusSubresource(i).Build()
		s := newTestInstances(c).newStatus(i)
		s.pause = 4 * time.Second
		running := func() (steps []string) {
			var current v1alpha1.WindowsInstance
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(i), &current); err != nil {
				t.Fatal(err)
			}
			for _, step := range current.Status.Steps {
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

// A host that does not answer is retried again and again. Each failed attempt causes one write at its end.
func TestUnreachableHostCausesOneWritePerAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		silent bool
		writes int
	}{
		"the first attempt": {false, 2}, // the join, and the missing answer
		"another attempt":   {true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, writes := controllertest.Instance("win-a", "ConfigMap", "win-a", "10.0.0.1"), 0
				join.Begin(&i.Status, 1)
				c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(i).WithStatusSubresource(i).WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
						writes++
						return w.SubResource(sub).Patch(ctx, o, p, opts...)
					},
				}).Build()
				s := newTestInstances(c).newStatus(i)
				s.setWriteInterval(progressInterval)
				s.silent = test.silent
				s.progress(t.Context(), join.Progress{Step: join.StepConnect, State: v1alpha1.StepRunning})
				time.Sleep(15 * time.Second)
				s.progress(t.Context(), join.Progress{Step: join.StepConnect, State: v1alpha1.StepFailed, Message: "no answer"})
				s.settle()
				time.Sleep(time.Second)
				join.Report(s.want(), 1, true, &join.StepError{Step: join.StepConnect, Err: errors.New("no answer")})
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
