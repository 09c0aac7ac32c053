package drain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/drain"
)

func now() time.Time { return time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC) }

func pod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Controller: new(true)}}
	}
}

// ends gives the pod the end of its grace.
func ends(in time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { at := metav1.NewTime(now().Add(in)); p.DeletionTimestamp = &at }
}

func mirror(p *corev1.Pod)   { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
func finished(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
func onDisk(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func TestLook(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  corev1.Pod
		want string
	}{
		{"of a Deployment", pod("web", ownedBy("apps/v1", "ReplicaSet")), "evict"},
		{"of nobody", pod("lonely"), "evict"},
		{"with an emptyDir", pod("scratch", onDisk), "evict"},
		{"of a DaemonSet", pod("log", ownedBy("apps/v1", "DaemonSet")), "stays"},
		{"of somebody else's DaemonSet", pod("log", ownedBy("example.com/v1", "DaemonSet")), "evict"},
		{"static", pod("static", mirror), "stays"},
		{"finished", pod("job", finished), "stays"},
		{"within its grace", pod("web", ends(30*time.Second)), "leaving"},
		{"just over it", pod("web", ends(-30*time.Second)), "leaving"},
		{"long over it", pod("web", ends(-2*time.Minute)), "stuck"},
		{"static, and deleted", pod("static", mirror, ends(-2*time.Minute)), "stays"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := drain.Look([]corev1.Pod{test.pod}, now())
			got := "stays"
			for name, list := range map[string][]corev1.Pod{"evict": p.Evict, "leaving": p.Leaving, "stuck": p.Stuck} {
				if len(list) == 1 {
					got = name
				}
			}
			if got != test.want || p.Gone() != (test.want == "stays") {
				t.Errorf("the pod %s, gone is %v; want %s", got, p.Gone(), test.want)
			}
		})
	}
}

func TestReportNamesWhatStandsInTheWay(t *testing.T) {
	held := func(p *corev1.Pod) { p.Finalizers = []string{"example.com/backup"} }
	p := drain.Look([]corev1.Pod{pod("web"), pod("db", ends(-2*time.Minute), held), pod("mail", ends(20*time.Second))}, now())
	for _, test := range []struct {
		name    string
		refused map[string]string
		late    bool
		reason  string
	}{
		{"stuck", nil, false, api.ReasonPodStuck},
		{"blocked", map[string]string{"shop/web": "budget web needs 2"}, false, api.ReasonDrainBlocked},
		{"late", nil, true, api.ReasonDrainTimeout},
	} {
		reason, message := drain.Report(p, test.refused, test.late)
		if reason != test.reason {
			t.Errorf("%s: reason is %s, want %s", test.name, reason, test.reason)
		}
		for _, part := range []string{"have to leave: 3", "shop/db should have ended at 11:58:00Z and is held by finalizers example.com/backup", "shop/mail ends by 12:00:20Z"} {
			if !strings.Contains(message, part) {
				t.Errorf("%s: message %q does not say %q", test.name, message, part)
			}
		}
		if test.refused != nil && !strings.Contains(message, "shop/web cannot be evicted: budget web needs 2") {
			t.Errorf("message %q does not name pod and budget", message)
		}
	}
}

func TestReportStaysShort(t *testing.T) {
	var pods []corev1.Pod
	for n := range 250 {
		pods = append(pods, pod(fmt.Sprintf("web-%d", n), ends(20*time.Second)))
	}
	_, message := drain.Report(drain.Look(pods, now()), nil, false)
	if len(message) > 1000 || !strings.Contains(message, "and 240 more") {
		t.Errorf("message of %d characters: %s", len(message), message)
	}
}
