//go:build linux

package deploytest

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
)

// storageExamples are the objects in docs/storage.md.
func storageExamples(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile("../../docs/storage.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		for document := range strings.SplitSeq(block[1], "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
				t.Fatalf("%v in:\n%s", err, document)
			}
			all = append(all, o)
		}
	}
	return all
}

// testStorageExamples: the API server accepts them, field by field, and pods go to Windows nodes.
func (c *cluster) testStorageExamples(t *testing.T) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.admin.Discovery()))
	kinds := map[string]int{}
	for _, o := range storageExamples(t) {
		kinds[o.GetKind()]++
		mapping, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			t.Fatal(err)
		}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace && o.GetNamespace() == "" {
			t.Errorf("%s %s has no namespace", o.GetKind(), o.GetName())
		}
		_, err = c.admin.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})
		if err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if template, there, _ := unstructured.NestedMap(o.Object, "spec", "template"); there {
			if err := runsOnWindows(template); err != nil {
				t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
	for _, kind := range []string{"StorageClass", "PersistentVolume", "PersistentVolumeClaim", "Deployment", "StatefulSet"} {
		if kinds[kind] == 0 {
			t.Errorf("docs/storage.md has no %s", kind)
		}
	}
}

// runsOnWindows wants a pod to select Windows nodes, and to tolerate their taint.
func runsOnWindows(template map[string]any) error {
	var pod corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod); err != nil {
		return err
	}
	if pod.Spec.NodeSelector[corev1.LabelOSStable] != "windows" {
		return errors.New("its pods do not select Windows nodes")
	}
	for _, toleration := range pod.Spec.Tolerations {
		taint := corev1.Taint{Key: api.TaintKey, Value: api.TaintValue, Effect: corev1.TaintEffectNoSchedule}
		if toleration.Key == taint.Key && toleration.Value == taint.Value && toleration.Effect == taint.Effect {
			return nil
		}
	}
	return errors.New("its pods do not tolerate the taint of Windows nodes")
}
