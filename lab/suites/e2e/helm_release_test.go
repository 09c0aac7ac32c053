//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/helm"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const operatorName = "windows-machine-config-operator"

// releaseTest is a cluster in which Helm installed the operator.
type releaseTest struct {
	harness
	helm *helm.Helm
	// first and second are the folders of the charts of two versions.
	first, second string
}

// TestHelmRelease installs, upgrades, rolls back and uninstall the chart. The operator runs as the pod of the release on a real Linux node, and a
// simulated host joins through it.
func TestHelmRelease(t *testing.T) {
	needs(t, lab.CanRunLinuxNodes())
	h, _ := newHelm(t)
	r := releaseTest{helm: h, first: chartOf(t, h, "0.1.0", ""), second: chartOf(t, h, "0.2.0", "ghcr.io/windows-machine-config/wmco:v0.2.0")}
	var notes string
	r.harness = newHarness(t, testenv.Options{SimulatedHosts: 1, Pod: true, Install: func(_ context.Context, env *testenv.Env) error {
		h.Kubeconfig = env.Kubeconfig
		var err error
		notes, err = r.run("install", "wmco", r.first, "--create-namespace", "--wait")
		return err
	}})
	for _, part := range []string{
		"kubectl label namespace " + api.DefaultNamespace + " pod-security.kubernetes.io/enforce=privileged", "secret generic cloud-private-key", "configmap windows-instances",
	} {
		if !strings.Contains(notes, part) {
			t.Errorf("Helm's notes lack %q:\n%s", part, notes)
		}
	}
	if strings.Contains(notes, "openshift.enabled") {
		t.Errorf("Helm's notes mention OpenShift:\n%s", notes)
	}
	r.joinAll()
	joined := r.node("win-1").UID

	t.Run("the operator reports missing permissions", func(t *testing.T) { r.withT(t).reportMissingPermissions() })
	t.Run("upgrade and rollback replace the pod", func(t *testing.T) {
		r := r.withT(t)
		must(t, r.Pod.Push(t.Context(), r.Payload, "v0.2.0"))
		r.must("upgrade", "wmco", r.second, "--wait", "--set", "resources.limits.memory=2Gi")
		r.expectPod("v0.2.0", "2Gi")
		r.must("rollback", "wmco", "1", "--wait")
		r.expectPod("v0.1.0", "1Gi")
		if now := r.node("win-1").UID; now != joined {
			t.Error("the node was replaced by an upgrade of the release")
		}
	})
	t.Run("a second release is rejected", func(t *testing.T) {
		if _, err := r.helm.Run(t.Context(), "install", "other", r.first, "--namespace", "other", "--create-namespace"); err == nil || !strings.Contains(err.Error(), "wmco") {
			t.Errorf("installing a second release: got %v, want an error that names the first", err)
		}
	})
	t.Run("uninstall is rejected while a host is joined", func(t *testing.T) { r.withT(t).rejectUninstall() })
	t.Run("uninstall removes all objects after all hosts have left", func(t *testing.T) { r.withT(t).uninstall() })
}

func (r releaseTest) withT(t *testing.T) releaseTest {
	r.harness = r.harness.withT(t)
	return r
}

// run runs Helm in the operator's namespace.
func (r releaseTest) run(args ...string) (string, error) {
	return r.helm.Run(context.Background(), append(args, "--namespace", api.DefaultNamespace)...)
}

func (r releaseTest) must(args ...string) (output string) {
	r.t.Helper()
	output, err := r.run(args...)
	must(r.t, err)
	return output
}

// expectPod checks the image and the memory limit of the operator's pod.
func (r releaseTest) expectPod(tag, memory string) {
	r.t.Helper()
	c := r.readyPod().Spec.Containers[0]
	if want := "ghcr.io/windows-machine-config/wmco:" + tag; c.Image != want || c.Resources.Limits.Memory().String() != memory {
		r.t.Errorf("image and memory limit of the container: got %s and %s, want %s and %s", c.Image, c.Resources.Limits.Memory(), want, memory)
	}
}

func (r releaseTest) rejectUninstall() {
	before := r.objects()
	_, err := r.run("uninstall", "wmco")
	if err == nil {
		r.t.Fatal("the release was uninstalled")
	}
	for _, part := range []string{r.Hosts()[0].Address, "Nothing was uninstalled", "kubectl delete windowsinstances --all -n " + api.DefaultNamespace, "release=true", "--no-hooks"} {
		if !strings.Contains(err.Error(), part) {
			r.t.Errorf("Helm's error lacks %q: %v", part, err)
		}
	}
	r.t.Logf("error of helm uninstall: %v", err)
	compare(r.t, r.objects(), before)
	// Helm considers the release partly uninstalled, and can upgrade it only after a rollback (deploy/README.md).
	r.must("rollback", "wmco", "3")
	r.must("upgrade", "wmco", r.first)
}

// objects returns the objects of the release, without the fields that Kubernetes and Helm add to their specification.
func (r releaseTest) objects() map[string]*unstructured.Unstructured {
	r.t.Helper()
	objects := rendered(r.t, r.helm, r.first, "--no-hooks")
	for key, o := range objects {
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(o.GroupVersionKind())
		if err := r.Client.Get(r.t.Context(), client.ObjectKeyFromObject(o), got); err != nil {
			r.t.Fatalf("%s: %v", key, err)
		}
		got.SetManagedFields(nil)
		got.SetResourceVersion("")
		unstructured.RemoveNestedField(got.Object, "status")
		objects[key] = got
	}
	return objects
}

func (r releaseTest) uninstall() {
	r.leaveAll()
	r.must("uninstall", "wmco", "--wait")
	for key, o := range rendered(r.t, r.helm, r.first, "--no-hooks") {
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(o.GroupVersionKind())
		err := r.Client.Get(r.t.Context(), client.ObjectKeyFromObject(o), got)
		if isKept := o.GetKind() == "CustomResourceDefinition"; isKept != (err == nil) || !isKept && !apierrors.IsNotFound(err) {
			r.t.Errorf("%s after the uninstallation: %v", key, err)
		}
	}
	var config v1alpha1.WindowsConfig
	r.get(types.NamespacedName{Name: api.WindowsConfigName}, &config)
	var secret corev1.Secret
	r.get(operatorObject(api.PrivateKeySecret), &secret)
	hook := &unstructured.Unstructured{}
	hook.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	if err := r.Client.Get(r.t.Context(), operatorObject(operatorName+"-uninstall"), hook); !apierrors.IsNotFound(err) {
		r.t.Errorf("the hook's ConfigMap remains (%v)", err)
	}
	// The release adopts objects that kubectl installed.
	root, err := testenv.Repository(r.t.Context())
	must(r.t, err)
	must(r.t, manifest.Apply(r.t.Context(), r.Lab.ControlPlane.RESTConfig(), root+"/deploy"))
	if _, err := r.run("install", "wmco", r.second); err == nil {
		r.t.Error("Helm took ownership of existing objects without --take-ownership")
	}
	r.must("install", "wmco", r.second, "--take-ownership", "--force-conflicts", "--wait")
	r.expectPod("v0.2.0", "1Gi")
}

// leaveAll removes all hosts, as the notes of the failed uninstallation describe.
func (r releaseTest) leaveAll() {
	r.t.Helper()
	r.remove(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.InstancesConfigMap}})
	for _, i := range r.instances() {
		must(r.t, client.IgnoreNotFound(r.Client.Delete(r.t.Context(), &i)))
	}
	r.eventually("all hosts have left", func(context.Context) string {
		if n := len(r.instances()); n > 0 {
			return fmt.Sprintf("%d instances remain", n)
		}
		return ""
	})
}

// reportMissingPermissions revokes permissions of the operator, checks that its termination message reports this, and restores them.
func (r releaseTest) reportMissingPermissions() {
	binding := &rbacv1.ClusterRoleBinding{}
	r.get(client.ObjectKey{Name: operatorName}, binding)
	r.remove(binding)
	r.remove(r.readyPod())
	r.eventually("the termination message reports missing permissions", func(ctx context.Context) string {
		var pods corev1.PodList
		if err := r.Client.List(ctx, &pods, client.InNamespace(operatorObject("").Namespace)); err != nil {
			return err.Error()
		}
		var messages []string
		for _, pod := range pods.Items {
			for _, s := range pod.Status.ContainerStatuses {
				for _, terminated := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
					if terminated != nil && strings.HasPrefix(terminated.Message, "missing permissions: list windowsconfigs") && !strings.Contains(terminated.Message, "\n") {
						return ""
					}
					messages = append(messages, fmt.Sprintf("%+v", terminated))
				}
			}
		}
		return fmt.Sprintf("got %q", messages)
	})
	binding.ObjectMeta = metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels, Annotations: binding.Annotations}
	r.create(binding)
	r.readyPod() // the kubelet restarts the container
}
