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

// testMonitoring applies both variants of deploy/monitoring to a cluster with the kinds of the Prometheus operator, in the
// versions of supported clusters, and checks the resulting permissions of Prometheus.
func (c *cluster) testMonitoring(t *testing.T) {
	for _, name := range []string{"openshift-config-managed", "openshift-monitoring", "monitoring"} {
		c.createNamespace(t, name, nil)
	}
	for _, version := range prometheusoperator.Versions() {
		t.Run("Prometheus operator "+string(version), func(t *testing.T) { c.testMonitoringKinds(t, version) })
	}
	prometheusIn := func(in string) clients {
		return c.as(t, "system:serviceaccount:"+in+":prometheus-k8s", "system:serviceaccounts", "system:serviceaccounts:"+in)
	}
	discovery := []string{
		"get /pods", "list /pods", "watch /pods", "get /services", "list /services", "watch /services",
		"get /endpoints", "list /endpoints", "watch /endpoints",
		"get discovery.k8s.io/endpointslices", "list discovery.k8s.io/endpointslices", "watch discovery.k8s.io/endpointslices",
	}
	basic := rightsOf(t, c.asAccount(t, "basic"))
	for _, test := range []struct {
		name string
		as   clients
		want []string
	}{
		{"Prometheus in namespace monitoring", prometheusIn("monitoring"), append([]string{"get /nodes", "list /nodes", "watch /nodes"}, discovery...)},
		{"Prometheus in namespace openshift-monitoring", prometheusIn("openshift-monitoring"), discovery},
		{"user of the client certificate", c.as(t, "windows-metrics"), []string{"get /nodes/metrics"}},
	} {
		want := test.want
		got := slices.DeleteFunc(rightsOf(t, test.as), func(right string) bool { return slices.Contains(basic, right) })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got permissions of %s\n%s\nwant\n%s", test.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	prometheus := prometheusIn("monitoring")
	try(t, []attempt{
		{"list Nodes as Prometheus", "", func(ctx context.Context) error {
			return errOf(prometheus.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))
		}},
		{"list pods in another namespace as Prometheus", forbidden, func(ctx context.Context) error {
			return errOf(prometheus.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}))
		}},
		{"read the SSH key as Prometheus", forbidden, func(ctx context.Context) error {
			return errOf(prometheus.CoreV1().Secrets(namespace).Get(ctx, "cloud-private-key", metav1.GetOptions{}))
		}},
	})
	for path, want := range map[string]bool{"/metrics": true, "/logs": false} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}
		result, err := prometheus.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil || result.Status.Allowed != want {
			t.Errorf("got permission of Prometheus for %s: %v (error %v), want %v", path, result.Status.Allowed, err, want)
		}
	}
}

// testMonitoringKinds applies the objects with the kinds of a version, and checks that the API server rejects unknown fields.
func (c *cluster) testMonitoringKinds(t *testing.T, version prometheusoperator.Version) {
	definitions, err := version.Definitions(t.Context(), "../../..", "servicemonitors", "prometheusrules")
	must(t, err)
	for _, d := range definitions { // otherwise the API server keeps validating with the previous version for a while
		c.removeKind(t, d.GetName())
	}
	must(t, manifest.ApplyObjects(t.Context(), c.config, definitions))
	for _, dir := range []string{"/monitoring", "/monitoring/openshift"} {
		for range 2 { // applying again simulates an upgrade
			must(t, manifest.Apply(t.Context(), c.config, deployDir+dir))
		}
	}
	monitors := c.admin.dynamic.Resource(schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"}).Namespace(namespace)
	list, err := monitors.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Fatalf("got %d ServiceMonitors (error %v), want 3", len(list.Items), err)
	}
	wrong := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": map[string]any{"name": "wrong"},
		"spec": map[string]any{"selector": map[string]any{}, "endpoints": []any{map[string]any{"ports": "https"}}},
	}}
	if _, err := monitors.Apply(t.Context(), "wrong", wrong, metav1.ApplyOptions{FieldManager: "test"}); err == nil || !strings.Contains(err.Error(), "ports") {
		t.Errorf("applying an unknown field: got error %v, want one about ports", err)
	}
}

// removeKind deletes a CustomResourceDefinition with its objects if it exists.
func (c *cluster) removeKind(t *testing.T, name string) {
	t.Helper()
	definitions := c.admin.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	eventually(t, "not found", func(ctx context.Context) error { return definitions.Delete(ctx, name, metav1.DeleteOptions{}) })
}
