package fleet

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
)

// lockedOut returns an instance of a Machine whose node has rejected the key for some time.
func lockedOut(since time.Duration) *v1alpha1.WindowsInstance {
	i := controllertest.Instance("win-1", api.SourceMachine, "openshift-machine-api/win-1", "10.0.0.1")
	i.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-1"}
	i.Status.Conditions = []metav1.Condition{{
		Type: api.ConditionReachable, Status: metav1.ConditionFalse, Reason: api.ReasonAuthenticationFailed,
		LastTransitionTime: metav1.NewTime(time.Now().Add(-since)),
	}}
	return i
}

// The original operator considered a host lost if it rejected the key while its first-boot script was still running, and deleted good machines.
func TestReplaceReasons(t *testing.T) {
	with := func(i *v1alpha1.WindowsInstance, change func(*v1alpha1.WindowsInstance)) *v1alpha1.WindowsInstance {
		change(i)
		return i
	}
	broken := func(attempts int32) *v1alpha1.WindowsInstance {
		return with(lockedOut(0), func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = nil
			i.Status.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionRepair, Attempts: attempts, Message: "its kubelet is silent"}
		})
	}
	const never, onRotation, whenBroken = v1alpha1.ReplaceNever, v1alpha1.ReplaceOnKeyRotation, v1alpha1.ReplaceWhenBroken
	for _, test := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		allowed  v1alpha1.MachineReplacement
		want     string // begins with
	}{
		{"host rejects the key", lockedOut(2 * keyTimeout), onRotation, "its host has rejected the SSH key"},
		{"replacement is disabled", lockedOut(2 * keyTimeout), never, ""},
		{"host has rejected the key briefly", lockedOut(keyTimeout / 2), onRotation, ""},
		{"host without a Node may still run its first-boot script", with(lockedOut(24*time.Hour), func(i *v1alpha1.WindowsInstance) {
			i.Status.NodeRef = nil
		}), whenBroken, ""},
		{"host without a Machine", with(lockedOut(2*keyTimeout), func(i *v1alpha1.WindowsInstance) {
			i.Labels[api.LabelSource] = api.SourceConfigMap
		}), whenBroken, ""},
		{"Machine of Cluster API", with(lockedOut(2*keyTimeout), func(i *v1alpha1.WindowsInstance) {
			i.Labels[api.LabelSource] = api.SourceClusterAPI
		}), whenBroken, ""},
		{"host times out", with(lockedOut(2*keyTimeout), func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions[0].Reason = api.ReasonConnectionTimeout
		}), whenBroken, ""},
		{"host key has changed", with(lockedOut(2*keyTimeout), func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions[0].Reason = api.ReasonHostKeyChanged
		}), whenBroken, ""},
		{"repairs have failed", broken(join.MaxRepairs), whenBroken, "its node could not be repaired: its kubelet is silent"},
		{"repairs have failed and replacement is for key rotation only", broken(join.MaxRepairs), onRotation, ""},
		{"repairs continue", broken(join.MaxRepairs - 1), whenBroken, ""},
		{"upgrade has failed", with(broken(9), func(i *v1alpha1.WindowsInstance) {
			i.Status.Failure.Action = v1alpha1.ActionUpgrade
		}), whenBroken, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ReplaceReason(test.instance, test.allowed)
			if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("ReplaceReason() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestEstimate(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	host := func(version string, ago time.Duration) rollout.Host {
		return rollout.Host{Node: &rollout.Node{Version: version}, Since: now.Add(-ago)}
	}
	arrivals := func(minutes ...int) (list []rollout.Host) {
		for _, m := range minutes {
			list = append(list, host("2", time.Duration(m)*time.Minute))
		}
		return list
	}
	began, hourAgo := metav1.NewTime(now.Add(-5*time.Minute)), metav1.NewTime(now.Add(-time.Hour))
	upgrading := host("1", 24*time.Hour)
	upgrading.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, StartedAt: began}
	earlier := host("1", 24*time.Hour)
	earlier.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, StartedAt: hourAgo}
	restarts := host("1", 24*time.Hour)
	restarts.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionReboot, StartedAt: began}
	for _, test := range []struct {
		name    string
		hosts   []rollout.Host
		nodes   int32
		before  *metav1.Time // the start that was reported before
		started *metav1.Time
		left    time.Duration // zero if unknown
	}{
		{"no maintenance", arrivals(60, 30), 4, nil, nil, 0},
		{"restart only", append(arrivals(60, 30), restarts), 4, nil, nil, 0},
		{"first node is under way", []rollout.Host{upgrading}, 4, nil, &began, 0},
		{"earliest start of several nodes", []rollout.Host{upgrading, earlier, upgrading}, 4, nil, &hourAgo, 0},
		{"earlier arrivals are ignored", append(arrivals(60, 30), upgrading), 4, nil, &began, 0},
		{"one arrival is too few", append(arrivals(60), upgrading), 4, &hourAgo, &hourAgo, 0},
		{"remaining nodes take as long as the finished ones", append(arrivals(60, 30), upgrading), 4, &hourAgo, &hourAgo, time.Hour},
		{"half of the nodes in an hour", append(arrivals(60, 45, 30, 15), upgrading), 8, &hourAgo, &hourAgo, time.Hour},
		{"all nodes have arrived", append(arrivals(60, 30), upgrading), 2, &hourAgo, &hourAgo, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := fleetSeen{Fleet: rollout.Fleet{Hosts: test.hosts, Now: now}, config: &v1alpha1.WindowsConfig{}}
			if test.before != nil {
				s.config.Status.Rollout = &v1alpha1.RolloutStatus{Version: "2", StartedAt: test.before}
			}
			started, end := estimate(s, v1alpha1.RolloutStatus{Version: "2", Nodes: test.nodes})
			if !started.Equal(test.started) {
				t.Errorf("it started at %v, want %v", started, test.started)
			}
			switch {
			case (end == nil) != (test.left == 0):
				t.Errorf("it ends at %v, want in %s", end, test.left)
			case end != nil && !end.Time.Equal(now.Add(test.left)):
				t.Errorf("it ends in %s, want %s", end.Sub(now), test.left)
			}
		})
	}
	s := fleetSeen{Fleet: rollout.Fleet{Hosts: []rollout.Host{upgrading}, Now: now}, config: &v1alpha1.WindowsConfig{}}
	s.config.Status.Rollout = &v1alpha1.RolloutStatus{Version: "1", StartedAt: &hourAgo}
	if started, _ := estimate(s, v1alpha1.RolloutStatus{Version: "2", Nodes: 4}); !started.Equal(&began) {
		t.Errorf("after another version, it started at %v, want %v", started, began)
	}
}

func TestVersionDisruption(t *testing.T) {
	as := func(*desired.Node) {}
	program := func(name string) func(*desired.Node) {
		return func(n *desired.Node) {
			for i := range n.Payload {
				if n.Payload[i].Path == name {
					n.Payload[i].SHA256 = strings.Repeat("c", 64)
				}
			}
		}
	}
	unreadable := controllertest.PublishedFor(t, "2", as)
	clear(unreadable.Data)
	others := controllertest.PublishedFor(t, "2", as) // their publisher claims no disruption
	others.Data = controllertest.SignedBy(t, 1, others.Name, desired.Unsigned(others.Data))
	for name, test := range map[string]struct {
		current *corev1.ConfigMap
		want    v1alpha1.PlanDisruption
	}{
		"new operator with the same programs": {controllertest.PublishedFor(t, "2", as), v1alpha1.DisruptionNone},
		"new exporter":                        {controllertest.PublishedFor(t, "2", program("windows_exporter.exe")), v1alpha1.DisruptionRestart},
		"new kubelet":                         {controllertest.PublishedFor(t, "2", program("kubelet.exe")), v1alpha1.DisruptionDrain},
		"additional Windows feature":          {controllertest.PublishedFor(t, "2", func(n *desired.Node) { n.Features = []string{"Containers"} }), v1alpha1.DisruptionReboot},
		"unreadable version":                  {unreadable, v1alpha1.DisruptionDrain},
		"version signed with another key":     {others, v1alpha1.DisruptionDrain},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compareVersions(controllertest.PublishedFor(t, "1", as), test.current, controllertest.SigningKey(0)); got != test.want {
				t.Errorf("disruption is %s, want %s", got, test.want)
			}
		})
	}
}

// TestUnpublishedVersionIsNotRolledOut: its disruption is not known yet, and a fleet would be drained for nothing.
func TestUnpublishedVersionIsNotRolledOut(t *testing.T) {
	c := controllertest.Cluster(t, controllertest.SigningSecret(t, 0), controllertest.PublishedFor(t, "0.9.0", func(*desired.Node) {}))
	instance := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "win"}}
	instance.Status.Hostname, instance.Status.NodeRef = "win", &v1alpha1.NodeReference{Name: "win", UID: "u1"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "win", UID: "u1", Labels: map[string]string{corev1.LabelOSStable: "windows"}, Annotations: map[string]string{api.AnnotationVersion: "0.9.0"},
	}}
	if err := errors.Join(c.Create(t.Context(), instance), c.Create(t.Context(), node)); err != nil {
		t.Fatal(err)
	}
	content := payload.New(nil, payload.File{})
	f := New(Options{
		Client: c, Namespace: "ns", Registry: prometheus.NewRegistry(), Releases: controllertest.Releases(t, "1.0.0", content, "v1.36.3"),
		Store: settings.NewStore(c, c, "ns"),
	})
	expect := func(unpublished bool, disruption v1alpha1.PlanDisruption) {
		t.Helper()
		seen, err := f.gather(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := seen.Hosts[0]; seen.Policy.Unpublished != unpublished || got.Disruption != disruption {
			t.Errorf("unpublished %v, a disruption %q, want %v and %q", seen.Policy.Unpublished, got.Disruption, unpublished, disruption)
		}
	}
	expect(true, "")
	if err := c.Create(t.Context(), controllertest.PublishedFor(t, controllertest.Version(f.Releases), func(*desired.Node) {})); err != nil {
		t.Fatal(err)
	}
	expect(false, v1alpha1.DisruptionNone)
}

func TestUnknownVersionRequiresDrain(t *testing.T) {
	current := controllertest.PublishedFor(t, "2", func(*desired.Node) {})
	c := controllertest.Cluster(t, controllertest.SigningSecret(t, 0), current)
	var known costs
	if got := known.of(t.Context(), settings.NewStore(c, c, "ns"), "1", current); got != v1alpha1.DisruptionDrain {
		t.Errorf("from a version that was not published, it costs %s", got)
	}
	if err := c.Create(t.Context(), controllertest.PublishedFor(t, "1", func(*desired.Node) {})); err != nil {
		t.Fatal(err)
	}
	if got := known.of(t.Context(), settings.NewStore(c, c, "ns"), "1", current); got != v1alpha1.DisruptionNone {
		t.Errorf("when both are known, it costs %s", got)
	}
}

func TestReturningHostHasTimeToAcceptKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := controllertest.Instance("win-1", api.SourceMachine, "openshift-machine-api/win-1", "10.0.0.1")
		i.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-1"}
		refused := func(reason string) error { return &join.Unreachable{Reason: reason, Err: errors.New("x")} }
		join.Reached(&i.Status, 1, refused(api.ReasonConnectionTimeout))
		time.Sleep(2 * keyTimeout)
		join.Reached(&i.Status, 1, refused(api.ReasonAuthenticationFailed))
		time.Sleep(time.Second)
		if cause := ReplaceReason(i, v1alpha1.ReplaceOnKeyRotation); cause != "" {
			t.Errorf("one second after the host returned, its Machine is replaced: %s", cause)
		}
		time.Sleep(keyTimeout)
		join.Reached(&i.Status, 1, refused(api.ReasonAuthenticationFailed))
		if ReplaceReason(i, v1alpha1.ReplaceOnKeyRotation) == "" {
			t.Error("an hour later, the Machine is not replaced")
		}
	})
}
