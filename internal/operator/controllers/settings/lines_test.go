package settings

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/payload"
)

func TestUnsupportedReleaseLineIsReported(t *testing.T) {
	had := func(condition string) metav1.Condition {
		return metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: api.ReasonEndOfSupport, Message: "before"}
	}
	for name, test := range map[string]struct {
		kubelet, containerd string
		openShift           bool
		day                 string
		kubernetes, runtime string // parts of the messages; empty for no condition
	}{
		"last day of Kubernetes":               {"v1.33.13", "v2.3.7", false, "2026-06-28", "", ""},
		"day after the last day of Kubernetes": {"v1.33.13", "v2.3.7", false, "2026-06-29", "Kubernetes 1.33 has had no fixes since 2026-06-28 (https://kubernetes.io/releases/1.33/); nodes have kubelet v1.33.13", ""},
		"day after the last day of containerd": {
			"v1.37.2", "v2.3.7", false, "2028-05-01", "Kubernetes 1.37 has had no fixes",
			"containerd 2.3 has had no fixes since 2028-04-30 (https://github.com/containerd/containerd/blob/v2.4.2/RELEASES.md); nodes get containerd v2.3.7; upgrade the operator",
		},
		"last day of OpenShift": {"v1.33.13", "v2.3.7", true, "2027-04-21", "", ""},
		"day after the last day of OpenShift": {
			"v1.33.13", "v2.3.7", true, "2027-04-22",
			"OpenShift 4.20 has had no fixes since 2027-04-21 (https://access.redhat.com/support/policy/updates/openshift); nodes have kubelet v1.33.13; upgrade the cluster", "",
		},
		"OpenShift without a known end": {"v1.37.2", "v2.3.7", true, "2028-05-01", "", "containerd 2.3 has had no fixes"},
		"supported lines":               {"v1.37.2", "v2.4.2", false, "2026-11-26", "", ""},
		"unknown lines":                 {"v1.99.0", "v9.0.0", false, "2036-11-26", "", ""},
		"payload without kubelet":       {"", "", false, "2026-11-26", "before", "before"},
	} {
		t.Run(name, func(t *testing.T) {
			now, err := time.Parse(time.DateOnly, test.day)
			if err != nil {
				t.Fatal(err)
			}
			conditions := []metav1.Condition{had(api.ConditionKubernetesUnsupported), had(api.ConditionContainerdUnsupported)}
			setEndOfSupport(&conditions, kubeversions.Release{Kubelet: test.kubelet, Containerd: test.containerd}, test.openShift, now, 7)
			for condition, want := range map[string]string{api.ConditionKubernetesUnsupported: test.kubernetes, api.ConditionContainerdUnsupported: test.runtime} {
				got := meta.FindStatusCondition(conditions, condition)
				if (got != nil) != (want != "") || got != nil && (!strings.Contains(got.Message, want) || got.Status != metav1.ConditionTrue) {
					t.Errorf("condition %+v, want %q", got, want)
				}
			}
		})
	}
}

// TestEndOfSupportIsReportedWithoutWindowsConfig has two nodes, and one about which nothing is known.
func TestEndOfSupportIsReportedWithoutWindowsConfig(t *testing.T) {
	node := func(name, kubelet, runtime, kernel string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
		n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: kubelet, ContainerRuntimeVersion: runtime, KernelVersion: kernel}
		return n
	}
	ends := newSupportEnds(controllertest.Cluster(t, node("a", "v1.34.12", "containerd://2.3.7", "10.0.17763.8000"),
		node("b", "v1.37.2", "docker://20.10.9", "10.0.26100.6899"), node("c", "", "", "10.0.25398.1")))
	registry := prometheus.NewRegistry()
	registry.MustRegister(ends)
	read := func() map[string]string {
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("the metrics are %v (%v)", families, err)
		}
		got := map[string]string{}
		for _, m := range families[0].Metric { // labels are sorted: line, node, product
			at := time.Unix(int64(m.Gauge.GetValue()), 0).UTC().Format(time.RFC3339)
			got[m.Label[1].GetValue()+" "+m.Label[2].GetValue()+" "+m.Label[0].GetValue()] = at
		}
		return got
	}
	want := map[string]string{
		"a containerd 2.3": "2028-05-01T00:00:00Z", "a Windows Server 2019": "2029-01-10T00:00:00Z", "b Windows Server 2025": "2034-11-15T00:00:00Z",
	}
	expect := func(cluster string) {
		if got := read(); !maps.Equal(got, want) {
			t.Errorf("%s: the ends are %v, want %v", cluster, got, want)
		}
	}
	expect("before the kind of the cluster is known")
	ends.openShift.Store(new(true))
	want["a OpenShift 4.21"] = "2027-08-04T00:00:00Z"
	expect("on OpenShift")
	ends.openShift.Store(new(false))
	delete(want, "a OpenShift 4.21")
	want["a Kubernetes 1.34"], want["b Kubernetes 1.37"] = "2026-10-28T00:00:00Z", "2027-10-29T00:00:00Z"
	expect("on Kubernetes")
}

// TestReconcileReportsTheEndOfSupport has a cluster of Kubernetes 1.33, whose last day has passed.
func TestReconcileReportsTheEndOfSupport(t *testing.T) {
	c, _ := newTestSettings(t)
	c.Renderer.Releases = controllertest.Releases(t, "1.0.0", payload.New(controllertest.Kubelets("v1.33.13"), payload.File{}), "v1.33.13")
	if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	var config v1alpha1.WindowsConfig
	if err := c.Live.Get(t.Context(), client.ObjectKey{Name: api.WindowsConfigName}, &config); err != nil {
		t.Fatal(err)
	}
	if got := config.Status.Conditions; !meta.IsStatusConditionTrue(got, api.ConditionKubernetesUnsupported) {
		t.Errorf("the conditions are %+v, want %s", got, api.ConditionKubernetesUnsupported)
	}
	if got := c.ends.openShift.Load(); got == nil || *got {
		t.Error("the metric has no end of Kubernetes")
	}
}
