//go:build linux

package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/testing/documents"
)

// example is an object in a document.
type example struct {
	document string
	*unstructured.Unstructured
}

// foreignGroups returns the API groups in examples that this cluster does not serve.
func foreignGroups() []string {
	return []string{"cert-manager.io", "config.openshift.io", "kustomize.config.k8s.io", "monitoring.coreos.com", "olm.operatorframework.io", "operators.coreos.com", "windows.k8s.io"}
}

// examples returns all objects in documents. A block that starts with spec is a part of a WindowsConfig, or of a
// WindowsInstance if it has one of its fields.
func examples(t *testing.T) (all []example) {
	t.Helper()
	files := []string{"../../../README.md", "../../../deploy/README.md"}
	for _, pattern := range []string{"../../../docs/*.md", "../../../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		files = append(files, found...)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		must(t, err)
		blocks, err := documents.Blocks(strings.TrimPrefix(name, "../../../"), string(text))
		must(t, err)
		for _, b := range blocks {
			if b.Language == "yaml" {
				all = append(all, objectsOf(t, b)...)
			}
		}
	}
	return all
}

func objectsOf(t *testing.T, b documents.Block) (all []example) {
	t.Helper()
	for text := range strings.SplitSeq(b.Text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(text), &o.Object); err != nil {
			t.Fatalf("%s: %v in:\n%s", b, err, text)
		}
		if complete(o) {
			all = append(all, example{b.Document, o})
		}
	}
	return all
}

// complete adds the missing parts to a fragment of one of the operator's objects, and reports whether it is an object at all.
func complete(o *unstructured.Unstructured) bool {
	if o.GetKind() != "" {
		return true
	}
	spec, ok := o.Object["spec"].(map[string]any)
	if !ok {
		return false
	}
	kind, name := "WindowsConfig", "cluster"
	for _, field := range []string{"address", "additionalAddresses", "hostname", "nodeLabels", "paused"} {
		if _, ok := spec[field]; ok {
			kind, name = "WindowsInstance", "example"
		}
	}
	if kind == "WindowsInstance" {
		o.SetNamespace(namespace)
		for field, value := range map[string]any{"address": "10.1.42.1", "username": "Administrator"} {
			if _, ok := spec[field]; !ok {
				spec[field] = value
			}
		}
	}
	o.SetAPIVersion(group + "/v1alpha1")
	o.SetKind(kind)
	o.SetName(name)
	return true
}

// testExamples checks that the API server accepts the examples under strict field validation, and that their pods run on Windows nodes.
func (c *cluster) testExamples(t *testing.T) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.admin.Discovery()))
	kinds := map[string]int{}
	isolated := windowsClass("windows2022")
	makeHyperV(isolated)
	for _, class := range []*nodev1.RuntimeClass{windowsClass("windows2022"), isolated} {
		if _, err := c.admin.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err) // the examples use classes that the operator creates
		}
		defer func() {
			if err := c.admin.NodeV1().RuntimeClasses().Delete(t.Context(), class.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}()
	}
	for _, o := range examples(t) {
		if slices.Contains(foreignGroups(), o.GroupVersionKind().Group) {
			continue
		}
		kinds[o.GetKind()]++
		mapping, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			t.Errorf("%s: %v", o.document, err)
			continue
		}
		isKubernetes, isMachines := isOfKubernetes(o), o.GroupVersionKind().Group == "cluster.x-k8s.io"
		if isKubernetes || isMachines { // readers choose the namespace of Machines
			o.SetNamespace(metav1.NamespaceDefault)
		}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace && o.GetNamespace() == "" {
			t.Errorf("%s: %s %s has no namespace", o.document, o.GetKind(), o.GetName())
			continue
		}
		options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
		if o.GetKind() == "RuntimeClass" {
			options.DryRun = nil // pods of other examples use it
		}
		_, err = c.admin.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()).Create(t.Context(), o.Unstructured, options)
		if err != nil && !apierrors.IsAlreadyExists(err) { // the API server validates first
			t.Errorf("%s: %s %s: %v", o.document, o.GetKind(), o.GetName(), err)
		}
		if template, found, _ := unstructured.NestedMap(o.Object, "spec", "template"); found && !isKubernetes && !isMachines {
			if err := runsOnWindows(template); err != nil {
				t.Errorf("%s: %s %s: %v", o.document, o.GetKind(), o.GetName(), err)
			}
		}
	}
	for _, kind := range []string{"WindowsConfig", "WindowsInstance", "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim", "Deployment", "StatefulSet"} {
		if kinds[kind] == 0 {
			t.Errorf("found no example of kind %s", kind)
		}
	}
}

// isOfKubernetes reports whether an example is copied from Kubernetes' documentation. It has no namespace, and ignores the
// operator's rules.
func isOfKubernetes(o example) bool {
	return o.document == "docs/examples.md" && slices.Contains([]string{"win-webserver", "iis-2019", "iis"}, o.GetName()) && o.GetNamespace() == ""
}

// exampleOfField matches the example values in a description or a message.
func exampleOfField() *regexp.Regexp {
	return regexp.MustCompile(`(?:for example|such as) ([0-9][^ ,;]*|[a-z.]+[0-9./][^ ,;]*)(?: or ([0-9][^ ,;]*))?`)
}

// testFieldExamples checks that the API server accepts the examples in field descriptions and in messages of validation rules.
func (c *cluster) testFieldExamples(t *testing.T) {
	templates := map[string]string{
		"WindowsInstance.spec.network.cidr":                          `{address: 10.1.42.1, username: a, network: {cidr: %}}`,
		"WindowsConfig.spec":                                         `{pods: {defaultRuntimeClass: %}}`,
		"WindowsConfig.spec.images.prepull.image":                    `{images: {prepull: [{image: %}]}}`,
		"WindowsConfig.spec.kubelet.containerLogMaxSize":             `{kubelet: {containerLogMaxSize: %}}`,
		"WindowsConfig.spec.kubelet.evictionHard":                    `{kubelet: {evictionHard: {memory.available: %}}}`,
		"WindowsConfig.spec.kubelet.evictionMinimumReclaim":          `{kubelet: {evictionMinimumReclaim: {memory.available: %}}}`,
		"WindowsConfig.spec.kubelet.evictionSoft":                    `{kubelet: {evictionSoft: {nodefs.available: %}, evictionSoftGracePeriod: {nodefs.available: 90s}}}`,
		"WindowsConfig.spec.kubelet.evictionSoftGracePeriod":         `{kubelet: {evictionSoft: {memory.available: 1Gi}, evictionSoftGracePeriod: {memory.available: %}}}`,
		"WindowsConfig.spec.kubelet.kubeReserved":                    `{kubelet: {kubeReserved: {memory: %}}}`,
		"WindowsConfig.spec.kubelet.reservedMemory.memory":           `{kubelet: {memoryManagerPolicy: BestEffort, reservedMemory: [{numaNode: 0, memory: %}]}}`,
		"WindowsConfig.spec.kubelet.shutdownGracePeriod":             `{kubelet: {shutdownGracePeriod: %}}`,
		"WindowsConfig.spec.kubelet.shutdownGracePeriodCriticalPods": `{kubelet: {shutdownGracePeriod: 1h, shutdownGracePeriodCriticalPods: %}}`,
		"WindowsConfig.spec.kubelet.systemReserved":                  `{kubelet: {systemReserved: {memory: %}}}`,
		"WindowsConfig.spec.logs.age":                                `{logs: {age: %}}`,
		"WindowsConfig.spec.logs.size":                               `{logs: {size: %}}`,
		"WindowsConfig.spec.network.allowFrom":                       `{network: {allowFrom: [%]}}`,
		"WindowsConfig.spec.network.dns.servers":                     `{network: {dns: {servers: [%]}}}`,
		"WindowsConfig.spec.network.ovn.clusterSubnets":              `{network: {provider: OVNHybridOverlay, ovn: {clusterSubnets: %}}}`,
		"WindowsConfig.spec.rollout.canary.soak":                     `{rollout: {canary: {count: 1, soak: %}}}`,
		"WindowsConfig.spec.rollout.drain.settle":                    `{rollout: {drain: {settle: %}}}`,
		"WindowsConfig.spec.rollout.drain.timeout":                   `{rollout: {drain: {timeout: %}}}`,
		"WindowsConfig.spec.rollout.maintenanceWindows.duration":     `{rollout: {maintenanceWindows: [{schedule: 0 2 * * 6, duration: %}]}}`,
		"WindowsConfig.spec.rollout.stagingBandwidth":                `{rollout: {stagingBandwidth: %}}`,
		"WindowsConfig.spec.runtime.sandboxImage":                    `{runtime: {sandboxImage: %}}`,
		"WindowsConfig.spec.runtimeClasses.hyperV.memory":            `{runtimeClasses: {hyperV: {memory: %}}}`,
	}
	for path, values := range c.examplesInSchemas(t) {
		if strings.Contains(path, ".status.") {
			continue
		}
		for _, value := range values {
			spec := map[string]any{}
			if err := yaml.Unmarshal([]byte(strings.ReplaceAll(templates[path], "%", value)), &spec); err != nil || len(spec) == 0 {
				t.Errorf("%s has example %s; add a template for this field (error %v)", path, value, err)
				continue
			}
			kind, _, _ := strings.Cut(path, ".")
			o, resource := object(kind, "cluster", spec), configs(c.admin)
			if kind == "WindowsInstance" {
				o, resource = object(kind, "example", spec), instances(c.admin, namespace)
			}
			_, err := resource.Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Errorf("%s with example %s: %v", path, value, err)
			}
		}
	}
}
