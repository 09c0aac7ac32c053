//go:build linux

package deploytest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/observe/podrules/podrulestest"
)

// warnings collects the warnings of the API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings of the pod policies since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	output := w.texts
	w.texts = nil
	return slices.DeleteFunc(output, func(text string) bool {
		return !strings.Contains(text, "ValidatingAdmissionPolicy '"+podrules.PolicyName)
	})
}

// writer creates objects as a user, and records the warnings.
type writer struct {
	clients
	warnings *warnings
}

func (c *cluster) newWriter(t *testing.T) writer {
	t.Helper()
	return c.newWriterAs(t, "")
}

// newWriterAs is like newWriter, but impersonates a user.
func (c *cluster) newWriterAs(t *testing.T, user string) writer {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate.UserName = user
	w := &warnings{}
	config.WarningHandler = w
	return writer{newClients(t, config), w}
}

// create creates an object as a dry run.
func (w writer) create(ctx context.Context, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	resource := kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")
	return errOf(w.dynamic.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
}

// goodSpec returns a valid spec of a pod that violates no rule. It has no os.name, because with it the API server itself
// rejects many fields.
func goodSpec() map[string]any {
	container := func(name string) map[string]any {
		return map[string]any{"name": name, "image": "example.com/web:ltsc2022", "resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}}
	}
	return map[string]any{
		"nodeSelector": map[string]any{corev1.LabelOSStable: "windows"}, "tolerations": []any{map[string]any{"key": "os", "value": "Windows", "effect": "NoSchedule"}},
		"initContainers": []any{container("first")}, "containers": []any{container("then")},
	}
}

// withPods returns objects of all kinds with pods. Their pods have the given spec.
func withPods(spec map[string]any) []*unstructured.Unstructured {
	labels := map[string]any{"app": "web"}
	template := func(policy string) map[string]any {
		s := runtime.DeepCopyJSON(spec)
		s["restartPolicy"] = policy
		return map[string]any{"metadata": map[string]any{"labels": labels}, "spec": s}
	}
	workload := map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": template("Always")}
	job := map[string]any{"template": template("Never")}
	var all []*unstructured.Unstructured
	add := func(version, kind string, field string, value map[string]any) {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": "web", "namespace": metav1.NamespaceDefault}, field: value,
		}}
		all = append(all, o)
	}
	add("v1", "Pod", "spec", runtime.DeepCopyJSON(spec))
	add("v1", "PodTemplate", "template", template("Always"))
	add("v1", "ReplicationController", "spec", map[string]any{"selector": labels, "template": template("Always")})
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"} {
		add("apps/v1", kind, "spec", workload)
	}
	add("batch/v1", "Job", "spec", job)
	add("batch/v1", "CronJob", "spec", map[string]any{"schedule": "0 0 * * *", "jobTemplate": map[string]any{"spec": job}})
	return all
}

// testPodPolicies violates each rule, and expects a warning.
func (c *cluster) testPodPolicies(t *testing.T) {
	w := c.newWriter(t)
	privileged := goodSpec()
	podrulestest.Break(t, privileged, ruleOf(t, "containers[*].securityContext.privileged"), "containers")
	eventually(t, "", func(ctx context.Context) error { // until the policies are in effect
		err := w.create(ctx, withPods(privileged)[0])
		if output := w.warnings.take(); err == nil && len(output) != 2 {
			return fmt.Errorf("got warnings %q, want two", output)
		}
		return err
	})
	t.Run("valid pod", func(t *testing.T) {
		spec := goodSpec()
		// Common fields, for which the API server sets defaults.
		spec["volumes"] = []any{
			map[string]any{"name": "a", "configMap": map[string]any{"name": "a"}}, map[string]any{"name": "b", "secret": map[string]any{"secretName": "b"}},
			map[string]any{"name": "c", "emptyDir": map[string]any{}}, map[string]any{"name": "d", "projected": map[string]any{"sources": []any{}}},
		}
		spec["securityContext"] = map[string]any{"windowsOptions": map[string]any{"runAsUserName": "ContainerUser"}}
		container, _ := spec["containers"].([]any)[0].(map[string]any)
		container["securityContext"] = map[string]any{"runAsNonRoot": true}
		container["volumeMounts"] = []any{map[string]any{"name": "a", "mountPath": `C:\a`}}
		c.expectWarning(t, w, withPods(spec), "os.name of a pod for Windows")
		spec["os"] = map[string]any{"name": "windows"}
		c.expectWarning(t, w, withPods(spec), "")
	})
	t.Run("pod for Linux", func(t *testing.T) {
		spec := runtime.DeepCopyJSON(privileged)
		spec["nodeSelector"] = map[string]any{corev1.LabelOSStable: "linux"}
		c.expectWarning(t, w, withPods(spec), "")
	})
	for _, rule := range podrules.Rules() {
		lists := []string{""}
		if strings.HasPrefix(rule.Path, "containers[*].") {
			lists = []string{"containers"}
		}
		if strings.Contains(rule.Path, "].securityContext.") {
			lists = append(lists, "initContainers")
		}
		for _, list := range lists {
			t.Run(rule.Path+" "+rule.Example+" "+list, func(t *testing.T) {
				spec := goodSpec()
				podrulestest.Break(t, spec, rule, list)
				addVolumes(spec)
				if list != "initContainers" && c.drops(t, spec, rule) {
					return // before policies are evaluated
				}
				kinds := withPods(spec)
				c.expectWarning(t, w, []*unstructured.Unstructured{kinds[0], kinds[3], kinds[8]}, rule.Path+" of a pod for Windows: "+rule.Why)
			})
		}
	}
	t.Run("all kinds", func(t *testing.T) {
		c.expectWarning(t, w, withPods(privileged), "Windows has no privileged containers")
	})
	t.Run("placement", func(t *testing.T) { c.testPlacementPolicy(t, w) })
	t.Run("namespaces", func(t *testing.T) { c.testNamespacePodPolicies(t, w, privileged) })
}

func ruleOf(t *testing.T, path string) podrules.Rule {
	t.Helper()
	for _, r := range podrules.Rules() {
		if r.Path == path {
			return r
		}
	}
	t.Fatalf("found no rule for %s", path)
	return podrules.Rule{}
}

// expectWarning creates objects, and expects success with one warning that contains want, or with none if want is "". It
// ignores the warning about os.name unless want is about it.
func (c *cluster) expectWarning(t *testing.T, w writer, objects []*unstructured.Unstructured, want string) {
	t.Helper()
	for _, o := range objects {
		w.warnings.take()
		if err := w.create(t.Context(), o); err != nil {
			t.Errorf("creating %s: %v", o.GetKind(), err)
			continue
		}
		output := w.warnings.take()
		if !strings.Contains(want, "os.name") {
			output = slices.DeleteFunc(output, func(text string) bool { return strings.Contains(text, "os.name of a pod") })
		}
		if want == "" && len(output) > 0 || want != "" && (len(output) != 1 || !strings.Contains(output[0], want)) {
			t.Errorf("%s: got warnings %q, want %q", o.GetKind(), output, want)
		}
	}
}

func (c *cluster) testPlacementPolicy(t *testing.T, w writer) {
	image := func(tag string) map[string]any {
		return map[string]any{"name": "c-" + strings.ReplaceAll(tag, ".", "-"), "image": "example.com/a:" + tag, "resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}}
	}
	for name, test := range map[string]struct {
		field string
		value any
		want  string
	}{
		"no toleration":             {"tolerations", nil, "stays Pending"},
		"another taint":             {"tolerations", []any{map[string]any{"key": "gpu", "operator": "Exists"}}, "stays Pending"},
		"all taints":                {"tolerations", []any{map[string]any{"operator": "Exists"}}, ""},
		"taint in lower case":       {"tolerations", []any{map[string]any{"key": "os", "value": "windows"}}, "unless spec.taint"},
		"both taints":               {"tolerations", []any{map[string]any{"key": "os", "value": "windows"}, map[string]any{"key": "os", "value": "Windows"}}, ""},
		"no limit":                  {"containers", []any{map[string]any{"name": "a", "image": "a"}}, "Set a limit"},
		"images for two builds":     {"containers", []any{image("ltsc2019"), image("nanoserver-ltsc2022")}, "no node runs"},
		"images for one build":      {"containers", []any{image("1809"), image("10.0.17763.1")}, ""},
		"images that one node runs": {"containers", []any{image("ltsc2022"), image("ltsc2025")}, ""},
		"image without build":       {"containers", []any{image("v20348x"), image("ltsc2022")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := goodSpec()
			spec[test.field] = test.value
			c.expectWarning(t, w, withPods(spec)[3:4], test.want)
		})
	}
}

// createNamespace creates a namespace with labels and with ServiceAccount default, so that pods can be created at once.
func (c *cluster) createNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	must(t, errOf(c.admin.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}
	_, _ = c.admin.CoreV1().ServiceAccounts(name).Create(t.Context(), account, metav1.CreateOptions{}) // unless the controller already has
}

// testNamespacePodPolicies tests the values of namespace label pod-rules.
func (c *cluster) testNamespacePodPolicies(t *testing.T, w writer, privileged map[string]any) {
	for name, value := range map[string]string{"rules-deny": "deny", "rules-off": "off", "rules-warn": "warn"} {
		c.createNamespace(t, name, map[string]string{api.LabelPodRules: value})
	}
	in := func(namespace string, spec map[string]any) *unstructured.Unstructured {
		o := withPods(spec)[3]
		o.SetNamespace(namespace)
		return o
	}
	eventually(t, "Windows has no privileged containers", func(ctx context.Context) error { return w.create(ctx, in("rules-deny", privileged)) })
	noLimit := goodSpec()
	noLimit["containers"] = []any{map[string]any{"name": "a", "image": "a"}}
	c.expectWarning(t, w, []*unstructured.Unstructured{in("rules-deny", noLimit)}, "Set a limit")
	c.expectWarning(t, w, []*unstructured.Unstructured{in("rules-off", privileged)}, "")
	c.expectWarning(t, w, []*unstructured.Unstructured{in("rules-warn", privileged)}, "Windows has no privileged containers")

	// Objects of Kubernetes' own controllers are admitted, because the controllers cannot correct them. An invented owner or an
	// annotation of OpenShift does not bypass the rules. Existing objects can be scaled.
	owned := in("rules-deny", privileged)
	owned.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"})
	owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "u", Controller: new(true)}})
	const controller = "system:serviceaccount:kube-system:deployment-controller"
	c.expectWarning(t, c.newWriterAs(t, controller), []*unstructured.Unstructured{owned}, "")
	annotated := in("rules-deny", privileged)
	annotated.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	annotated.Object["spec"] = runtime.DeepCopyJSON(privileged)
	annotated.SetAnnotations(map[string]string{"openshift.io/scc": "restricted-v2"})
	tenant := c.mayWritePods(t, "rules-deny")
	try(t, []attempt{
		{"object with an invented owner", "Windows has no privileged containers", func(ctx context.Context) error { return w.create(ctx, owned) }},
		{"pod with an invented annotation", "Windows has no privileged containers", func(ctx context.Context) error { return tenant.create(ctx, annotated) }},
		{"more replicas of an existing object", "", func(ctx context.Context) error { return c.scale(ctx, in("rules-off", privileged), "rules-off") }},
	})
}

// mayWritePods returns a writer that is the administrator of a namespace.
func (c *cluster) mayWritePods(t *testing.T, in string) writer {
	t.Helper()
	const user = "tenant-of-pods"
	c.bind(t, in, "admin", userNamed(user))
	w := c.newWriterAs(t, user)
	eventually(t, "", func(ctx context.Context) error { return errOf(w.CoreV1().Pods(in).List(ctx, metav1.ListOptions{})) })
	return w
}

// scale creates an object in a namespace where rules are off, switches them to deny, and changes the object's replicas.
func (c *cluster) scale(ctx context.Context, o *unstructured.Unstructured, in string) error {
	if _, err := c.admin.AppsV1().Deployments(in).Get(ctx, o.GetName(), metav1.GetOptions{}); err == nil {
		return fmt.Errorf("Deployment %s already exists", o.GetName())
	}
	deployments := c.admin.dynamic.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(in)
	if err := errOf(deployments.Create(ctx, o, metav1.CreateOptions{})); err != nil {
		return err
	}
	if err := errOf(c.admin.CoreV1().Namespaces().Patch(ctx, in, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+api.LabelPodRules+`":"deny"}}}`), metav1.PatchOptions{})); err != nil {
		return err
	}
	return errOf(deployments.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}))
}
