//go:build linux

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/deploy/monitoring"
	"github.com/windows-machine-config/wmco/internal/shared/metrics"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestMonitoring evaluates all expressions of the rules and the dashboards with the metrics that Prometheus scrapes from a real operator and from a
// Wine host with pods.
func TestMonitoring(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes(), lab.CanRunPrometheus())
	p := newHarness(t, testenv.Options{
		WineHosts: 1, Pod: true, Network: testenv.NetworkLab, Components: []string{"windows_exporter"}, Before: testenv.ServeMetrics,
	})
	p.joinAll()
	p.startWeb()
	p.startLimited()
	// Otherwise, WICD queries Windows for updates within ten minutes.
	p.annotateNode("win-1", api.AnnotationSearchUpdates, time.Now().Format(time.RFC3339Nano))
	prometheus, err := p.StartPrometheus(t.Context(), testenv.PrometheusOptions{Interval: scrapeWine, Rules: fastRules(t), KubeState: true})
	must(t, err)
	p.expectTargets(prometheus, monitoring.JobOperator, monitoring.JobExporter, monitoring.JobKubelet, testenv.KubeState)
	t.Run("EveryExpressionHasAResult", func(t *testing.T) { p.withT(t).expectResults(prometheus, withoutResult()) })
	t.Run("EveryRuleIsHealthy", func(t *testing.T) { p.withT(t).expectHealthyRules(prometheus) })
	t.Run("EveryMetricIsDocumented", func(t *testing.T) { p.withT(t).expectDocumented(prometheus) })
	for name, expr := range map[string]string{
		"series of the node": `sum(scrape_samples_post_metric_relabeling{node="win-1"})`, "slowest scrape of its exporter in seconds": `max_over_time(scrape_duration_seconds{job="windows-exporter"}[5m])`,
	} {
		if result, err := prometheus.Evaluate(t.Context(), expr); err == nil && len(result) == 1 {
			t.Logf("%s: %v", name, result[0].Value)
		}
	}
	t.Run("CrashLoopFiresAlert", func(t *testing.T) { alertsTest{p.withT(t), prometheus}.crashLoop() })
	t.Run("UnreachableExporterFiresAlert", func(t *testing.T) { alertsTest{p.withT(t), prometheus}.exporterDown() })
}

// startLimited starts a pod with requests and limits, which some rules need.
func (p harness) startLimited() {
	p.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "limited"}, Spec: testenv.WebserverPod()}
	pod.Spec.Containers[0].Resources = limits()
	p.create(pod)
}

func limits() corev1.ResourceRequirements {
	needed := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")}
	return corev1.ResourceRequirements{Requests: needed, Limits: needed}
}

// expectDocumented compares the names of all series of the operator and of WICD with docs/metrics.md.
func (p harness) expectDocumented(prometheus *lab.Prometheus) {
	result, err := prometheus.Evaluate(p.t.Context(), `group by (__name__) ({__name__=~"(wmco|wicd)_.+"})`)
	if err != nil || len(result) < 10 {
		p.t.Fatalf("got only %d metrics (%v)", len(result), err)
	}
	known := map[string]bool{}
	for _, m := range slices.Concat(metrics.Operator(), metrics.Node()) {
		known[m.Name] = true
	}
	for _, s := range result {
		name := string(s.Metric[model.MetricNameLabel])
		base := name
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if cut, found := strings.CutSuffix(name, part); found && known[cut] {
				base = cut
			}
		}
		if !known[base] {
			p.t.Errorf("metric %s is not documented", name)
		}
	}
}

// crashLoop kills a service repeatedly.
func (w alertsTest) crashLoop() {
	host := w.Lab.Hosts()[0]
	stop := w.repeat(time.Second, func(ctx context.Context) { _ = host.KillService(ctx, "kubelet") })
	defer stop()
	w.expectAlert("WindowsNodeServiceCrashLooping", "service", "kubelet")
	stop()
	w.expectResolved("WindowsNodeServiceCrashLooping", "service", "kubelet")
}

func (w alertsTest) exporterDown() {
	host := w.Lab.Hosts()[0]
	must(w.t, host.Cut())
	w.expectAlert("WindowsExporterDown", "instance", "win-1")
	must(w.t, host.Heal())
	w.expectResolved("WindowsExporterDown", "instance", "win-1")
}

// scrapeWine is the interval and timeout of scrapes of a Wine host. On a busy machine windows_exporter takes more than a second.
const scrapeWine = 5 * time.Second

// withoutResult returns parts of expressions that have no result in a healthy lab, with the reason. promtool tests their values in deploy/monitoring,
// and TestPrometheusOperator checks that they have a result.
func withoutResult() map[string]string {
	const wine, network = "Wine has no performance counters and no WMI", "the lab's network service does not report which containers share an endpoint"
	missing := withoutFault()
	maps.Copy(missing, map[string]string{
		"windows_cpu_time_total": wine, "windows_cpu_info": wine, "windows_memory_": wine, "windows_os_": wine, "windows_logical_disk_": wine, "windows_net_": wine,
		"windows_system_": wine, "windows_service_state": wine, "windows_node_": wine, "node_memory_": wine, "node_filesystem_": wine,
		"node_boot_time": wine, "node_cpu_utilisation": wine,
		"windows_container_network_": network, "pod_interface_network:": network,
		"wicd_network_":                    "the lab's own network is of provider Custom, which WICD does not monitor",
		"WindowsNetworkPoliciesNotApplied": "no policies are applied to a network of provider Custom",
	})
	return missing
}

// expectResults waits until every expression has a result, except those that contain a key of without.
func (p harness) expectResults(prometheus *lab.Prometheus, without map[string]string) {
	p.t.Helper()
	missing := expressions(p.t, "win-1", ".+")
	for part := range without {
		missing = slices.DeleteFunc(missing, func(e namedExpression) bool { return strings.Contains(e.expr, part) })
	}
	if len(missing) < 20 {
		p.t.Fatalf("got only %d expressions", len(missing))
	}
	p.eventually("every expression has a result", func(ctx context.Context) string {
		var still []namedExpression
		var report []string
		for _, e := range missing {
			result, err := prometheus.Evaluate(ctx, e.expr)
			if err != nil {
				return e.where + ": " + err.Error()
			}
			if len(result) == 0 {
				still, report = append(still, e), append(report, e.where+": "+e.expr)
			}
		}
		missing = still
		return strings.Join(report, "\n")
	})
}

// expectHealthyRules waits until Prometheus has evaluated every rule and alert without an error.
func (p harness) expectHealthyRules(prometheus *lab.Prometheus) {
	p.eventually("every rule was evaluated", func(ctx context.Context) string {
		result, err := prometheus.Rules(ctx, nil)
		if err != nil || len(result.Groups) == 0 {
			return fmt.Sprintf("got %d groups of rules (%v)", len(result.Groups), err)
		}
		for _, g := range result.Groups {
			for _, rule := range g.Rules {
				if a, isAlert := rule.(promv1.AlertingRule); isAlert {
					rule = promv1.RecordingRule{Name: a.Name, Health: a.Health, LastError: a.LastError}
				}
				if r, _ := rule.(promv1.RecordingRule); r.Health != promv1.RuleHealthGood {
					return fmt.Sprintf("%s is %s: %s", r.Name, r.Health, r.LastError)
				}
			}
		}
		return ""
	})
}
