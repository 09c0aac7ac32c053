//go:build linux

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/lab/cluster/helm"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// newHelm builds Helm, with a home folder that is removed at the test's end.
func newHelm(t *testing.T) (program *helm.Helm, root string) {
	t.Helper()
	root, err := testenv.Repository(t.Context())
	must(t, err)
	program, err = helm.New(t.Context(), root, t.TempDir(), os.Stderr)
	must(t, err)
	return program, root
}

func chartOf(t *testing.T, h *helm.Helm, version, image string) (folder string) {
	t.Helper()
	folder, err := h.Chart(t.Context(), version, image)
	must(t, err)
	return folder
}

// TestHelmChart renders the chart without a cluster.
func TestHelmChart(t *testing.T) {
	t.Parallel()
	h, root := newHelm(t)
	folder := chartOf(t, h, "0.1.0", "")
	if out, err := h.Run(t.Context(), "lint", "--strict", folder); err != nil {
		t.Error(err)
	} else if !strings.Contains(out, "0 chart(s) failed") {
		t.Errorf("output of helm lint: %s", out)
	}
	t.Run("default objects equal those of kustomize", func(t *testing.T) {
		want := kustomized(t, root+"/deploy")
		got := rendered(t, h, folder, "--set", "namespace.create=true")
		for _, key := range []string{"ValidatingAdmissionPolicy/", "ValidatingAdmissionPolicyBinding/", "ConfigMap/" + api.DefaultNamespace + "/"} {
			if key += "windows-machine-config-operator-uninstall"; got[key] == nil { // only Helm has this object
				t.Errorf("%s is missing", key)
			}
			delete(got, key)
		}
		compare(t, got, want)
		delete(want, "Namespace/"+api.DefaultNamespace)
		got = rendered(t, h, folder, "--no-hooks")
		for key := range got {
			if strings.HasSuffix(key, "-uninstall") {
				delete(got, key)
			}
		}
		compare(t, got, want)
	})
	t.Run("objects for OpenShift equal those of kustomize", func(t *testing.T) {
		want := kustomized(t, root+"/deploy/openshift", root+"/deploy/openshift/cluster-api")
		got := rendered(t, h, folder, "--set", "openshift.enabled=true,openshift.clusterAPI=true")
		for key := range rendered(t, h, folder) {
			delete(got, key)
		}
		compare(t, got, want)
	})
	t.Run("objects for monitoring equal those of kustomize", func(t *testing.T) {
		for set, dir := range map[string]string{"openshift.enabled=false": "/deploy/monitoring", "openshift.enabled=true": "/deploy/monitoring/openshift"} {
			got := rendered(t, h, folder, "--set", set+",monitoring.objects=true")
			for key := range rendered(t, h, folder, "--set", set) {
				delete(got, key)
			}
			compare(t, got, kustomized(t, root+dir))
		}
	})
	t.Run("values change the objects", func(t *testing.T) { checkValues(t, h, folder) })
	t.Run("invalid values are rejected", func(t *testing.T) {
		for set, want := range map[string]string{
			"image.repository=3":           "'/image/repository': got number, want string",
			"image.repository=wmco'":       "'/image/repository': 'wmco\\'' does not match pattern",
			"image.tag=v1'":                "'/image/tag': 'v1\\'' does not match pattern",
			"image.tag=":                   "'/image': 'anyOf' failed",
			"image.digest=sha256:1":        "'/image/digest'",
			"image.pullSecrets=registry":   "'/image/pullSecrets': got string, want array",
			"resources.limits.memory=true": "'/resources/limits/memory'",
			"resources.limits.memory=1GB":  "'/resources/limits/memory'",
			"nodeSelector.a=1":             "'/nodeSelector/a': got number, want string",
			"tolerations[0].operator=Is":   "'/tolerations/0/operator'",
			"openshift.enabled=1":          "'/openshift/enabled': got number, want boolean",
			"openshift=true":               "'/openshift': got boolean, want object",
			"crds.keep=no":                 "'/crds/keep': got string, want boolean",
			"monitoring.objects=yes":       "'/monitoring/objects': got string, want boolean",
			"nodSelector.a=b":              "'nodSelector' not allowed",
		} {
			if _, err := h.Run(t.Context(), "template", "wmco", folder, "--set", set); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("--set %s: got error %v, want %s in it", set, err, want)
			}
		}
		if _, err := h.Run(t.Context(), "template", "wmco", folder, "--kube-version", "1.32.9"); err == nil || !strings.Contains(err.Error(), kubeversions.MinKubernetes) {
			t.Errorf("Kubernetes 1.32: got error %v, want %s in it", err, kubeversions.MinKubernetes)
		}
	})
}

func checkValues(t *testing.T, h *helm.Helm, folder string) {
	digest := "sha256:" + strings.Repeat("5", 64)
	objects := rendered(t, h, folder, "--set", "image.repository=registry.example.com:5000/wmco,image.digest="+digest, "--set", "image.pullSecrets[0].name=registry",
		"--set", `nodeSelector.node-role\.kubernetes\.io/control-plane=null`, "--set", "tolerations=null,monitoring.enabled=false,crds.install=false",
		"--set", "resources.limits.memory=2Gi", "--namespace", "windows")
	var deployment appsv1.Deployment
	typed(t, objects["Deployment/windows/windows-machine-config-operator"], &deployment)
	pod := deployment.Spec.Template.Spec
	if want := "registry.example.com:5000/wmco@" + digest; pod.Containers[0].Image != want {
		t.Errorf("image: got %s, want %s", pod.Containers[0].Image, want)
	}
	if len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("pull secrets: got %v, want registry", pod.ImagePullSecrets)
	}
	if diff := cmp.Diff(map[string]string{"kubernetes.io/os": "linux"}, pod.NodeSelector); diff != "" {
		t.Errorf("node selector (-want +got):\n%s", diff)
	}
	if len(pod.Tolerations) != 0 || !slices.Contains(pod.Containers[0].Args, "--metrics-bind-address=0") || pod.Containers[0].Resources.Limits.Memory().String() != "2Gi" {
		t.Errorf("tolerations, metrics address or memory limit: got pod %+v", pod)
	}
	for key, o := range objects {
		if o.GetKind() == "Service" || o.GetKind() == "CustomResourceDefinition" || o.GetNamespace() == api.DefaultNamespace {
			t.Errorf("unexpected object %s", key)
		}
		if text, _ := o.MarshalJSON(); strings.Contains(string(text), api.DefaultNamespace) {
			t.Errorf("%s of a release in another namespace names %s: %s", key, api.DefaultNamespace, text)
		}
	}
}

// rendered returns the objects that helm template prints, by their keys. Fields that only Helm reads are removed from CRDs and the Namespace.
func rendered(t *testing.T, h *helm.Helm, folder string, args ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	out, err := h.Run(t.Context(), slices.Concat([]string{"template", "wmco", folder, "--namespace", api.DefaultNamespace}, args)...)
	must(t, err)
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(out, "\n---\n") {
		o := &unstructured.Unstructured{}
		raw, err := yaml.ToJSON([]byte(document))
		if err == nil && string(raw) != "null" {
			err = o.UnmarshalJSON(raw)
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if o.Object == nil {
			continue
		}
		if o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "Namespace" {
			annotations := o.GetAnnotations()
			if annotations["helm.sh/resource-policy"] != "keep" {
				t.Errorf("%s has no resource policy keep", o.GetName())
			}
			delete(annotations, "helm.sh/resource-policy")
			o.SetAnnotations(annotations)
		}
		objects = append(objects, o)
	}
	return byKey(t, objects)
}

func kustomized(t *testing.T, folders ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, folder := range folders {
		objects, err := manifest.Render(folder)
		must(t, err)
		all = append(all, objects...)
	}
	return byKey(t, all)
}

func byKey(t *testing.T, objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	keyed := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		key := o.GetKind() + "/" + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
		if keyed[key] != nil {
			t.Errorf("duplicate object %s", key)
		}
		keyed[key] = o
	}
	return keyed
}

func compare(t *testing.T, got, want map[string]*unstructured.Unstructured) {
	t.Helper()
	for key := range want {
		if got[key] == nil {
			t.Errorf("the chart has no %s", key)
		} else if diff := cmp.Diff(want[key].Object, got[key].Object); diff != "" {
			t.Errorf("%s (-kustomize +chart):\n%s", key, diff)
		}
	}
	for key := range got {
		if want[key] == nil {
			t.Errorf("only the chart has %s", key)
		}
	}
}

func typed(t *testing.T, from *unstructured.Unstructured, to any) {
	t.Helper()
	if from == nil {
		t.Fatalf("%T is missing", to)
	}
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to))
}
