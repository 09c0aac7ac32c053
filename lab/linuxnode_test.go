//go:build linux

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestLinuxNode runs a pod on a node, restarts the node, and checks that Close removes everything.
func TestLinuxNode(t *testing.T) {
	if err := CanRunLinuxNodes(); err != nil {
		t.Skip(err)
	}
	l := Start(t, Options{LinuxNode: true})
	images, err := l.StartRegistry(t.Context(), RegistryOptions{Open: true})
	must(t, err)
	n, err := l.StartLinuxNode(t.Context(), "linux-1", images)
	must(t, err)
	client, err := kubernetes.NewForConfig(l.ControlPlane.RESTConfig())
	must(t, err)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "waits"},
		Spec: corev1.PodSpec{
			HostNetwork: true,
			NodeName:    n.Name(),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "waits", Image: "example.com/" + pauseRepository + ":1"}},
		},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectRestarts(t, client, 0)
	n.PowerOff()
	must(t, n.Boot(t.Context()))
	expectRestarts(t, client, 1)
	cgroup := filepath.Base(n.folder.Path)
	l.Close()
	if left, _ := filepath.Glob(filepath.Join(cgroupFolder, "*", cgroup)); len(left) > 0 {
		t.Errorf("cgroups remain: %v", left)
	}
	if _, err := os.Stat(n.folder.Path); err == nil {
		t.Errorf("folder %s remains", n.folder.Path)
	}
}

const cgroupFolder = "/sys/fs/cgroup"

// expectRestarts waits until the pod runs, after this many restarts.
func expectRestarts(t *testing.T, client kubernetes.Interface, want int32) {
	t.Helper()
	waitUntil(t, "the pod runs", func() string {
		pod, err := client.CoreV1().Pods("default").Get(t.Context(), "waits", metav1.GetOptions{})
		if err == nil && len(pod.Status.ContainerStatuses) == 1 {
			if c := pod.Status.ContainerStatuses[0]; c.RestartCount == want && c.State.Running != nil {
				return ""
			}
		}
		return fmt.Sprintf("want %d restarts: %v, %+v", want, err, pod.Status)
	})
}
