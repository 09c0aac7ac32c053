//go:build linux

package deploytest

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/observe/podrules/podrulestest"
)

// testPodRules violates each rule: the API server must reject a pod for Windows that violates a rule with Refused, with an
// error about the rule's field, and accept all others.
func (c *cluster) testPodRules(t *testing.T) {
	for _, rule := range podrules.Rules() {
		lists := []string{""}
		if strings.HasPrefix(rule.Path, "containers[*].") {
			lists = []string{"containers"}
		}
		if strings.Contains(rule.Path, "].securityContext.") { // the only fields of init containers that rules cover
			lists = append(lists, "initContainers")
		}
		for _, list := range lists {
			spec := map[string]any{
				"os":             map[string]any{"name": "windows"},
				"initContainers": []any{map[string]any{"name": "first", "image": "first"}},
				"containers":     []any{map[string]any{"name": "then", "image": "then"}},
			}
			at := podrulestest.Break(t, spec, rule, list)
			addVolumes(spec)
			pod := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "rule", "namespace": metav1.NamespaceDefault}, "spec": spec,
			}}
			_, err := c.admin.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(metav1.NamespaceDefault).
				Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			switch {
			case !rule.Refused && err != nil:
				t.Errorf("%s = %s: got error %v, want success", at, rule.Example, err)
			case c.minor != "" && rule.Refused && err == nil && c.drops(t, spec, rule):
			case rule.Refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec."+at)):
				t.Errorf("%s = %s: got error %v, want one about spec.%s", at, rule.Example, err, at)
			}
		}
	}
}

// addVolumes adds the other fields of volumes that the API server requires.
func addVolumes(spec map[string]any) {
	volume := map[string]any{"name": "example", "emptyDir": map[string]any{}}
	if all, _ := spec["volumes"].([]any); len(all) > 0 {
		volume, _ = all[0].(map[string]any)
	}
	completeSources(volume, map[string]string{"configMap": "name", "secret": "secretName", "downwardAPI": ""})
	if projected, _ := volume["projected"].(map[string]any); projected != nil {
		sources, _ := projected["sources"].([]any)
		for _, source := range sources {
			delete(source.(map[string]any), "name") // Break sets it
			completeSources(source.(map[string]any), map[string]string{"configMap": "name", "secret": "name", "downwardAPI": ""})
		}
	}
	claim := map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data"}}
	spec["volumes"] = []any{volume, claim}
	container, _ := spec["containers"].([]any)[0].(map[string]any)
	if resources, _ := container["resources"].(map[string]any); resources != nil { // huge pages require memory
		resources["limits"].(map[string]any)["memory"] = "1Gi"
	}
	if mounts, _ := container["volumeMounts"].([]any); len(mounts) > 0 {
		mounts[0].(map[string]any)["mountPath"] = `C:\example`
	}
}

// completeSources adds the other fields of file sources that the API server requires. names maps each kind of source to the
// field with its name, or to "".
func completeSources(of map[string]any, names map[string]string) {
	for kind, name := range names {
		source, _ := of[kind].(map[string]any)
		if source == nil {
			continue
		}
		if name != "" {
			source[name] = "example"
		}
		items, _ := source["items"].([]any)
		for _, i := range items {
			item := i.(map[string]any)
			delete(item, "name")
			item["path"] = "example"
			if kind == "downwardAPI" {
				item["fieldRef"] = map[string]any{"fieldPath": "metadata.name"}
			} else {
				item["key"] = "example"
			}
		}
	}
}

// testHostProcess tries all values of hostProcess: lint must find an error in exactly the pods that the API server rejects.
func (c *cluster) testHostProcess(t *testing.T) {
	w := c.newWriter(t)
	values := []*bool{nil, new(false), new(true)}
	for i := range 2 * 3 * 3 * 3 {
		network := i%2 == 1
		option := func(step int) *corev1.WindowsSecurityContextOptions {
			return &corev1.WindowsSecurityContextOptions{HostProcess: values[i/step%3]}
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "host-process"}, Spec: corev1.PodSpec{
			OS: &corev1.PodOS{Name: corev1.Windows}, HostNetwork: network, SecurityContext: &corev1.PodSecurityContext{WindowsOptions: option(2)},
			InitContainers: []corev1.Container{{Name: "first", Image: "first", SecurityContext: &corev1.SecurityContext{WindowsOptions: option(6)}}},
			Containers:     []corev1.Container{{Name: "then", Image: "then", SecurityContext: &corev1.SecurityContext{WindowsOptions: option(18)}}},
		}}
		_, err := w.dryRun(t.Context(), pod, metav1.NamespaceDefault)
		found := podrulestest.Fields(podrulestest.Lint(t, pod))
		isFound := slices.ContainsFunc(found, func(field string) bool {
			return strings.HasSuffix(field, "hostProcess") || field == "hostNetwork" && !network // with it, only the kubelet rejects the pod
		})
		if isFound != (err != nil) {
			t.Errorf("lint found %q, but the API server returned %v\n%+v", found, err, pod.Spec)
		}
	}
}
