//go:build linux

package deploytest

import (
	"context"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/cluster/prometheusoperator"
)

// testMonitoring applies deploy/monitoring in both forms to a cluster with the kinds of the Prometheus operator, in the versions of supported
// clusters, and reviews what Prometheus may read then.
func (c *cluster) testMonitoring(t *testing.T) {
	for _, name := range []string{"openshift-config-managed", "openshift-monitoring", "monitoring"} {
		c.createNamespace(t, name, nil)
	}
	for _, version := range prometheusoperator.Versions() {
		t.Run("Prometheus operator "+string(version), func(t *testing.T) { c.testMonitoringKinds(t, version) })
	}
	of := func(in string) clients {
		return c.as(t, "system:serviceaccount:"+in+":prometheus-k8s", "system:serviceaccounts", "system:serviceaccounts:"+in)
	}
	finds := []string{
		"get /pods", "list /pods", "watch /pods", "get /services", "list /services", "watch /services",
		"get /endpoints", "list /endpoints", "watch /endpoints",
		"get discovery.k8s.io/endpointslices", "list discovery.k8s.io/endpointslices", "watch discovery.k8s.io/endpointslices",
	}
	basic := rightsOf(t, c.asAccount(t, "basic"))
	for _, test := range []struct {
		who  string
		is   clients
		want []string
	}{
		{"Prometheus in namespace monitoring", of("monitoring"), append([]string{"get /nodes", "list /nodes", "watch /nodes"}, finds...)},
		{"Prometheus in namespace openshift-monitoring", of("openshift-monitoring"), finds},
		{"the holder of the client certificate", c.as(t, "windows-metrics"), []string{"get /nodes/metrics"}},
	} {
		want := test.want
		got := slices.DeleteFunc(rightsOf(t, test.is), func(right string) bool { return slices.Contains(basic, right) })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("rights of %s are\n%s\nwant\n%s", test.who, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	prometheus := of("monitoring")
	try(t, []attempt{
		{"Prometheus lists nodes", "", func(ctx context.Context) error {
			return drop(prometheus.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))
		}},
		{"Prometheus lists pods elsewhere", forbidden, func(ctx context.Context) error {
			return drop(prometheus.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}))
		}},
		{"Prometheus reads the SSH key", forbidden, func(ctx context.Context) error {
			return drop(prometheus.CoreV1().Secrets(namespace).Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
	})
	for path, want := range map[string]bool{"/metrics": true, "/logs": false} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}
		answer, err := prometheus.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil || answer.Status.Allowed != want {
			t.Errorf("Prometheus may get %s: %v (%v), want %v", path, answer.Status.Allowed, err, want)
		}
	}
}

// testMonitoringKinds applies the objects where the kinds are those of a version, and shows that the API server would have refused fields that
// these do not have.
func (c *cluster) testMonitoringKinds(t *testing.T, version prometheusoperator.Version) {
	definitions, err := version.Definitions(t.Context(), "../../..", "servicemonitors", "prometheusrules")
	must(t, err)
	for _, d := range definitions { // the API server takes its time to forget what the former version had
		c.removeKind(t, d.GetName())
	}
	must(t, manifest.ApplyObjects(t.Context(), c.config, definitions))
	for _, dir := range []string{"/monitoring", "/monitoring/openshift"} {
		for range 2 { // the second time, like an upgrade
			must(t, manifest.Apply(t.Context(), c.config, deployDir+dir))
		}
	}
	monitors := c.admin.dynamic.Resource(schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"}).Namespace(namespace)
	list, err := monitors.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Fatalf("there are %d ServiceMonitors (%v), want 3", len(list.Items), err)
	}
	wrong := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": map[string]any{"name": "wrong"},
		"spec": map[string]any{"selector": map[string]any{}, "endpoints": []any{map[string]any{"ports": "https"}}},
	}}
	if _, err := monitors.Apply(t.Context(), "wrong", wrong, metav1.ApplyOptions{FieldManager: "test"}); err == nil || !strings.Contains(err.Error(), "ports") {
		t.Errorf("a field that does not exist gives %v", err)
	}
}

// removeKind removes a CustomResourceDefinition with its objects, if it exists.
func (c *cluster) removeKind(t *testing.T, name string) {
	t.Helper()
	definitions := c.admin.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	eventually(t, "not found", func(ctx context.Context) error { return definitions.Delete(ctx, name, metav1.DeleteOptions{}) })
}
