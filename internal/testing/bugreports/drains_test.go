package bugreports

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/drain"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

// drainReports are reports about pods that prevented a drain or made it run forever.
func drainReports() []report {
	return []report{{
		link:  "https://github.com/cilium/tetragon/issues/3484",
		input: "a Deployment that tolerates every taint, whose pod comes back to the node that is drained",
		want:  "it stays",
		outcome: drained(func(p *corev1.Pod, began time.Time) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)}}
			p.CreationTimestamp = metav1.NewTime(began.Add(time.Second))
		}),
	}, {
		link:  "https://openkruise.io/docs/user-manuals/advanceddaemonset/",
		input: "a pod of a DaemonSet that is not Kubernetes' own",
		want:  "it belongs to the node",
		outcome: drained(func(p *corev1.Pod, began time.Time) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet", Controller: new(true)}}
			p.CreationTimestamp = metav1.NewTime(began.Add(-time.Hour))
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"win-1"}},
				}}},
			}}}
		}),
	}, {
		link:  "https://github.com/microsoft/Windows-Containers/issues/106",
		input: "a pod that should have ended an hour ago, whose log an agent holds open",
		want:  "it is given up with onTimeout Force",
		outcome: drained(func(p *corev1.Pod, began time.Time) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)}}
			p.CreationTimestamp = metav1.NewTime(began.Add(-2 * time.Hour))
			p.DeletionTimestamp = new(metav1.NewTime(began))
		}),
	}}
}

// restartReports are reports about restarts that Windows waited for and that did not help.
func restartReports() []report {
	const renames = "files are renamed at the next start (PendingFileRenameOperations)"
	return []report{{
		link:    "https://github.com/chocolatey/choco/issues/1768",
		input:   "PendingFileRenameOperations that is there again after each start",
		want:    "no restart",
		outcome: restarts(rollout.Node{BootID: "8", ReportedBoot: "8", RebootPending: renames}, &v1alpha1.LastReboot{Causes: renames}),
	}, {
		link:    "https://github.com/dsccommunity/xPendingReboot/issues/1",
		input:   "a restart after which the kubelet is Ready before anything is known of the new start of Windows",
		want:    "no restart",
		outcome: restarts(rollout.Node{BootID: "8", ReportedBoot: "7", RebootPending: renames}, nil),
	}}
}

func restarts(n rollout.Node, last *v1alpha1.LastReboot) func(*testing.T) string {
	return func(*testing.T) string {
		if (&rollout.Host{Node: &n, LastReboot: last}).RebootMayHelp() {
			return "a restart"
		}
		return "no restart"
	}
}

// drained returns how a drain treats a pod that tolerates everything on a node that was cordoned an hour ago.
func drained(change func(p *corev1.Pod, began time.Time)) func(*testing.T) string {
	return func(*testing.T) string {
		now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		began := now.Add(-time.Hour)
		pod := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"},
			Spec:       corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
		change(&pod, began)
		pods := drain.Look([]corev1.Pod{pod}, drain.Node{Name: "win-1", Began: began, Youngest: began.Add(-time.Minute)}, now)
		switch {
		case len(pods.Came) > 0 && pods.Gone():
			return "it stays"
		case len(pods.Stuck) > 0 && len(pods.GiveUp()) > 0 && pods.Gone():
			return "it is given up with onTimeout Force"
		case pods.Gone():
			return "it belongs to the node"
		}
		return "the drain waits for it"
	}
}
