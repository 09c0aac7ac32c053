package settings

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// TestOutdatedNodesAreReported has a node with the settings of its version, one with others, and one whose version is no longer published.
func TestOutdatedNodesAreReported(t *testing.T) {
	node := func(name, version, settings string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows"},
			Annotations: map[string]string{api.AnnotationVersion: version, api.AnnotationSettings: settings},
		}}
	}
	published := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: api.ServicesConfigMapPrefix + "1.0.0", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)),
		Annotations: map[string]string{api.AnnotationSettings: "new"},
	}}
	c := controllertest.Cluster(t, published, node("current", "1.0.0", "new"), node("behind", "1.0.0", "old"), node("former", "0.9.0", "old"), node("joining", "", ""))
	registry := prometheus.NewRegistry()
	registry.MustRegister(newLag(c, NewStore(c, c, "ns")))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 1 {
		t.Fatalf("the metrics are %v (%v), want one sample", families, err)
	}
	m := families[0].Metric[0]
	if name, seconds := m.Label[0].GetValue(), m.Gauge.GetValue(); name != "behind" || seconds < 3600 || seconds > 3700 {
		t.Errorf("node %s lags by %v s, want node behind by an hour", name, seconds)
	}
}
