package drain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/drain"
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

// ends sets the end of a pod's grace period.
func ends(in time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { at := metav1.NewTime(now().Add(in)); p.DeletionTimestamp = &at }
}

func mirror(p *corev1.Pod)   { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
func finished(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
func onDisk(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

// cordoned returns a node that was cordoned an hour ago; the youngest pod on it was created a minute before that.
func cordoned() drain.Node {
	return drain.Node{Name: "win-1", Began: now().Add(-time.Hour), Youngest: now().Add(-61 * time.Minute)}
}

// created sets how long after the cordon a pod was created.
func created(after time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(cordoned().Began.Add(after)) }
}

func tolerates(all ...corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = all }
}

// pinnedTo pins a pod to nodes by name, as daemon controllers do.
func pinnedTo(nodes ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: nodes}}}},
		}}}
	}
}

func TestClassify(t *testing.T) {
	everything := tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists})
	cordon := tolerates(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	noExecute := tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	replicas, kruise := ownedBy("apps/v1", "ReplicaSet"), ownedBy("apps.kruise.io/v1alpha1", "DaemonSet")

	for _, test := range []struct {
		name string
		pod  corev1.Pod
		want string
	}{
		{"pod of a Deployment", pod("web", ownedBy("apps/v1", "ReplicaSet")), "evict"},
		{"pod without a controller", pod("lonely"), "evict"},
		{"pod with an emptyDir", pod("scratch", onDisk), "evict"},
		{"pod of a DaemonSet", pod("log", ownedBy("apps/v1", "DaemonSet")), "stays"},
		{"pod of a DaemonSet in another API group", pod("log", ownedBy("example.com/v1", "DaemonSet")), "evict"},
		{"static", pod("static", mirror), "stays"},
		{"finished pod", pod("job", finished), "stays"},
		{"deleted pod within its grace period", pod("web", ends(30*time.Second)), "leaving"},
		{"deleted pod 30 seconds after its grace period", pod("web", ends(-30*time.Second)), "leaving"},
		{"deleted pod two minutes after its grace period", pod("web", ends(-2*time.Minute)), "stuck"}, // https://github.com/microsoft/Windows-Containers/issues/106
		{"deleted static pod", pod("static", mirror, ends(-2*time.Minute)), "stays"},
		{"older pod that tolerates everything", pod("agent", replicas, everything, created(-2*time.Minute)), "evict"},
		{"replacement pod that tolerates everything", pod("agent", replicas, everything, created(time.Second)), "came"}, // https://github.com/cilium/tetragon/issues/3484
		{"replacement pod that tolerates the cordon", pod("agent", replicas, cordon, created(time.Second)), "came"},
		{"replacement pod that tolerates other taints", pod("agent", replicas, noExecute, created(time.Second)), "evict"},
		{"deleted replacement pod", pod("agent", replicas, everything, created(time.Second), ends(30*time.Second)), "leaving"},
		{"new pod without a controller", pod("lonely", everything, created(time.Second)), "evict"},
		{"pod created just after the cordon", pod("web", replicas, created(10*time.Second)), "evict"},
		{"pod created long after the cordon", pod("web", replicas, created(10*time.Minute)), "came"},
		{"pod pinned to the node by a DaemonSet in another API group", pod("log", kruise, everything, pinnedTo("win-1"), created(-2*time.Minute)), "stays"}, // https://openkruise.io/docs/user-manuals/advanceddaemonset/
		{"pod pinned to two nodes", pod("log", kruise, everything, pinnedTo("win-1", "win-2"), created(-2*time.Minute)), "evict"},
		{"pinned pod without a controller", pod("log", everything, pinnedTo("win-1"), created(-2*time.Minute)), "evict"},
		{"pinned pod that does not tolerate the cordon", pod("log", kruise, pinnedTo("win-1"), created(-2*time.Minute)), "evict"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := drain.Classify([]corev1.Pod{test.pod}, cordoned(), now())
			got := "stays"
			for name, list := range map[string][]corev1.Pod{"evict": p.Evict, "leaving": p.Leaving, "stuck": p.Stuck, "came": p.Arrived} {
				if len(list) == 1 {
					got = name
				}
			}
			if got != test.want || p.Drained() != (test.want == "stays" || test.want == "came") {
				t.Errorf("the pod %s, drained is %v; want %s", got, p.Drained(), test.want)
			}
		})
	}
}

func TestReportNamesBlockingPods(t *testing.T) {
	held := func(p *corev1.Pod) { p.Finalizers = []string{"example.com/backup"} }
	p := drain.Classify([]corev1.Pod{pod("web"), pod("db", ends(-2*time.Minute), held), pod("mail", ends(20*time.Second))}, cordoned(), now())
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
		for _, part := range []string{"left to drain: 3", "shop/db should have terminated at 11:58:00Z and is held by finalizers example.com/backup", "shop/mail terminates by 12:00:20Z"} {
			if !strings.Contains(message, part) {
				t.Errorf("%s: message %q does not contain %q", test.name, message, part)
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
	_, message := drain.Report(drain.Classify(pods, cordoned(), now()), nil, false)
	if len(message) > 1000 || !strings.Contains(message, "and 240 more") {
		t.Errorf("message of %d characters: %s", len(message), message)
	}
}
