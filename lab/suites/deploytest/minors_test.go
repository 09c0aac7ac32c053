//go:build linux

package deploytest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/payload/build"
)

const (
	// firstWithWorkloads is the first version that serves the kinds in deploy/workloads.
	firstWithWorkloads = "1.36"
	// firstWithValues is the first version whose messages of CRD validation rules contain the value instead of its type.
	firstWithValues = "1.35"
)

// before reports whether the cluster's version is earlier than minor.
func (c *cluster) before(minor string) bool {
	return c.minor != "" && version.MustParse(c.minor).LessThan(version.MustParse(minor))
}

// invalid returns how the message of a CRD validation rule shows a string.
func (c *cluster) invalid(value string) string {
	if c.before(firstWithValues) {
		value = "string"
	}
	return fmt.Sprintf("Invalid value: %q", value)
}

// drops reports whether the API server drops the field of a rule because its feature gate is off.
func (c *cluster) drops(t *testing.T, spec map[string]any, rule podrules.Rule) bool {
	t.Helper()
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "rule", "namespace": metav1.NamespaceDefault}, "spec": runtime.DeepCopyJSON(spec),
	}}
	created, err := c.admin.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(metav1.NamespaceDefault).
		Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return false
	}
	at := created.Object["spec"]
	for part := range strings.SplitSeq(rule.Path, ".") {
		name, isList := strings.CutSuffix(part, "[*]")
		object, _ := at.(map[string]any)
		if at = object[name]; isList {
			items, _ := at.([]any)
			at = nil
			if len(items) > 0 {
				at = items[0]
			}
		}
	}
	dropped := at == nil && !strings.Contains(rule.Path, "hugepages-*")
	if dropped && c.minor == "" && rule.Path != "containers[*].lifecycle.stopSignal" {
		t.Errorf("the newest API server drops %s", rule.Path)
	}
	return dropped
}

// TestManifestsOnEarlierKubernetes runs the tests of TestManifests on the control planes of earlier minor versions: of the oldest one, or of all.
func TestManifestsOnEarlierKubernetes(t *testing.T) {
	all := build.Minors()
	minors := all[:len(all)-1]
	switch requested := os.Getenv("WMCO_KUBERNETES"); requested {
	case "all":
	case "oldest":
		minors = minors[:1]
	case "":
		t.Skip("SKIPPED: WMCO_KUBERNETES is not set; it can be oldest or all, and building a control plane takes ten minutes the first time")
	default:
		t.Fatalf("WMCO_KUBERNETES is %q; it can be oldest or all", requested)
	}
	for _, minor := range minors {
		t.Run(minor, func(t *testing.T) {
			c := startClusterOf(t, minor)
			c.testManifests(t)
			if c.before(firstWithWorkloads) {
				t.Run("no default RuntimeClass", c.testWorkloadsAreRejected)
			} else {
				t.Run("default RuntimeClass", c.testDefaultRuntimeClass)
			}
			t.Run("deletion of the namespace", c.testNamespaceDeletion)
		})
	}
}

// testWorkloadsAreRejected expects the error that docs/workloads.md documents for earlier versions.
func (c *cluster) testWorkloadsAreRejected(t *testing.T) {
	err := manifest.Apply(t.Context(), c.config, deployDir+"/workloads")
	if err == nil || !strings.Contains(err.Error(), `no matches for kind "MutatingAdmissionPolicy" in version "admissionregistration.k8s.io/v1"`) {
		t.Errorf("applying deploy/workloads: got error %v, want one about MutatingAdmissionPolicy", err)
	}
}
