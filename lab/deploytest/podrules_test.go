//go:build linux

package deploytest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/observe/podrules/podrulestest"
)

// testPodRules has the API server judge each rule: it must refuse a pod for Windows that breaks a rule with Refused, and name the rule's field. It
// must accept all others.
func (c *cluster) testPodRules(t *testing.T) {
	for _, rule := range podrules.Rules() {
		lists := []string{""}
		if strings.HasPrefix(rule.Path, "containers[*].") {
			lists = []string{"containers"}
		}
		if strings.Contains(rule.Path, "].securityContext.") { // init containers have nothing else that a rule is about
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
				t.Errorf("%s = %s is refused: %v", at, rule.Example, err)
			case c.minor != "" && rule.Refused && err == nil && c.drops(t, spec, rule):
			case rule.Refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec."+at)):
				t.Errorf("%s = %s is not refused: %v", at, rule.Example, err)
			}
		}
	}
}

// addVolumes adds the other fields that the API server requires of volumes.
func addVolumes(spec map[string]any) {
	volume := map[string]any{"name": "example", "emptyDir": map[string]any{}}
	if all, _ := spec["volumes"].([]any); len(all) > 0 {
		volume, _ = all[0].(map[string]any)
	}
	for source, field := range map[string]string{"configMap": "name", "secret": "secretName"} {
		if s, _ := volume[source].(map[string]any); s != nil {
			s[field] = "example"
		}
	}
	claim := map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data"}}
	spec["volumes"] = []any{volume, claim}
	container, _ := spec["containers"].([]any)[0].(map[string]any)
	if resources, _ := container["resources"].(map[string]any); resources != nil { // huge pages come with memory only
		resources["limits"].(map[string]any)["memory"] = "1Gi"
	}
	if mounts, _ := container["volumeMounts"].([]any); len(mounts) > 0 {
		mounts[0].(map[string]any)["mountPath"] = `C:\example`
	}
}
