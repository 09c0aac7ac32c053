//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestHelmPod runs the operator of a release of Helm as its pod on a real Linux node. A Wine host joins through it, and leaves.
func TestHelmPod(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes())
	h, _ := newHelm(t)
	r := released{helm: h, first: chartOf(t, h, "0.1.0", ""), second: chartOf(t, h, "0.2.0", "ghcr.io/windows-machine-config/wmco:v0.2.0")}
	r.place = newPlace(t, testenv.Options{WineHosts: 1, Pod: true, Install: func(_ context.Context, env *testenv.Env) error {
		h.Kubeconfig = env.Kubeconfig
		_, err := r.run("install", "wmco", r.first, "--create-namespace", "--wait")
		return err
	}})
	r.joinAll()
	t.Run("MissingPermission", func(t *testing.T) { r.in(t).saysWhatIsMissing() })
	t.Run("UpgradeAndRollback", func(t *testing.T) {
		r := r.in(t)
		if err := r.Pod.Push(t.Context(), r.Payload, "v0.2.0"); err != nil {
			t.Fatal(err)
		}
		r.must("upgrade", "wmco", r.second, "--wait")
		r.expectImage("v0.2.0")
		r.must("rollback", "wmco", "1", "--wait")
		r.expectImage("v0.1.0")
	})
	t.Run("Uninstall", func(t *testing.T) {
		r := r.in(t)
		if _, err := r.run("uninstall", "wmco"); err == nil || !strings.Contains(err.Error(), "Nothing was uninstalled") {
			t.Errorf("with a host, helm uninstall gives %v", err)
		}
		r.leaveAll()
		r.must("uninstall", "wmco", "--wait")
		r.eventually("the pod is gone", func(ctx context.Context) string {
			var pods corev1.PodList
			if err := r.Client.List(ctx, &pods, client.InNamespace(ours("").Namespace)); err != nil || len(pods.Items) > 0 {
				return fmt.Sprintf("%d pods (%v)", len(pods.Items), err)
			}
			return ""
		})
	})
}

func (r released) expectImage(tag string) {
	r.t.Helper()
	if image := r.readyPod().Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+tag) {
		r.t.Errorf("the pod has image %s, want tag %s", image, tag)
	}
}

// saysWhatIsMissing revokes permissions of the operator, and restores them.
func (r released) saysWhatIsMissing() {
	binding := &rbacv1.ClusterRoleBinding{}
	r.get(client.ObjectKey{Name: operatorName}, binding)
	r.remove(binding)
	r.remove(r.readyPod())
	r.eventually("the termination message says what is missing", func(ctx context.Context) string {
		var pods corev1.PodList
		if err := r.Client.List(ctx, &pods, client.InNamespace(ours("").Namespace)); err != nil {
			return err.Error()
		}
		var messages []string
		for _, pod := range pods.Items {
			for _, s := range pod.Status.ContainerStatuses {
				for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
					if ended != nil && strings.HasPrefix(ended.Message, "missing permissions: list windowsconfigs") && !strings.Contains(ended.Message, "\n") {
						return ""
					}
					messages = append(messages, fmt.Sprintf("%+v", ended))
				}
			}
		}
		return fmt.Sprintf("the containers ended with %q", messages)
	})
	binding.ObjectMeta = metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels, Annotations: binding.Annotations}
	r.create(binding)
	r.readyPod() // the kubelet restarts the container
}
