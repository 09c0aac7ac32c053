//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/metrics"
	"github.com/windows-machine-config/wmco/internal/monitoring"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestMonitoring evaluates every expression of the rules and the dashboards with what Prometheus scrapes of a real operator, and of a Wine host
// with pods.
func TestMonitoring(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes(), lab.CanRunPrometheus())
	p := newPlace(t, testenv.Options{
		WineHosts: 1, Pod: true, Network: testenv.NetworkLab, Components: []string{"windows_exporter"}, Before: testenv.ServeMetrics,
	})
	p.joinAll()
	p.startWeb()
	prometheus, err := p.StartPrometheus(t.Context(), testenv.PrometheusOptions{Interval: scrapeWine, Rules: impatientRules(t)})
	if err != nil {
		t.Fatal(err)
	}
	p.expectTargets(prometheus, monitoring.JobOperator, monitoring.JobExporter, monitoring.JobKubelet)
	t.Run("EveryExpressionHasAResult", func(t *testing.T) { p.in(t).expectResults(prometheus) })
	t.Run("EveryRuleIsHealthy", func(t *testing.T) { p.in(t).expectHealthyRules(prometheus) })
	t.Run("OnlyWhatIsDocumentedIsEmitted", func(t *testing.T) { p.in(t).expectDocumented(prometheus) })
	for name, expr := range map[string]string{
		"series of the node": `sum(scrape_samples_post_metric_relabeling{node="win-1"})`, "slowest scrape of its exporter in seconds": `max_over_time(scrape_duration_seconds{job="windows-exporter"}[5m])`,
	} {
		if result, err := prometheus.Query(t.Context(), expr); err == nil && len(result) == 1 {
			t.Logf("%s: %v", name, result[0].Value)
		}
	}
	t.Run("AServiceThatKeepsFailingIsAnAlert", func(t *testing.T) { watched{p.in(t), prometheus}.crashLoop() })
	t.Run("AnExporterThatDoesNotAnswerIsAnAlert", func(t *testing.T) { watched{p.in(t), prometheus}.exporterDown() })
}

// expectDocumented compares the names of all series of the operator and of WICD with docs/metrics.md.
func (p place) expectDocumented(prometheus *lab.Prometheus) {
	result, err := prometheus.Query(p.t.Context(), `group by (__name__) ({__name__=~"(wmco|wicd)_.+"})`)
	if err != nil || len(result) < 10 {
		p.t.Fatalf("there are %d metrics (%v)", len(result), err)
	}
	known := map[string]bool{}
	for _, m := range slices.Concat(metrics.Operator(), metrics.Node()) {
		known[m.Name] = true
	}
	for _, s := range result {
		name := s.Labels["__name__"]
		of := name
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if base, is := strings.CutSuffix(name, part); is && known[base] {
				of = base
			}
		}
		if !known[of] {
			p.t.Errorf("metric %s is not documented", name)
		}
	}
}

// crashLoop kills a service again and again.
func (w watched) crashLoop() {
	host := w.Lab.Hosts()[0]
	stop := w.repeat(time.Second, func(ctx context.Context) { _ = host.KillService(ctx, "kubelet") })
	defer stop()
	w.expectAlert("WindowsNodeServiceCrashLooping", "service", "kubelet")
	stop()
	w.expectResolved("WindowsNodeServiceCrashLooping", "service", "kubelet")
}

func (w watched) exporterDown() {
	host := w.Lab.Hosts()[0]
	if err := host.Cut(); err != nil {
		w.t.Fatal(err)
	}
	w.expectAlert("WindowsExporterDown", "instance", "win-1")
	if err := host.Heal(); err != nil {
		w.t.Fatal(err)
	}
	w.expectResolved("WindowsExporterDown", "instance", "win-1")
}

// scrapeWine is the interval of scrapes of a Wine host, and their timeout: on a busy machine windows_exporter takes more than a second.
const scrapeWine = 5 * time.Second

// withoutResult are expressions without a result in a lab where all is well, by a part of them. Their values are tested by promtool, in
// internal/monitoring.
func withoutResult() map[string]string {
	const wine, pods, well = "Wine has no performance counters and no WMI", "needs kube-state-metrics", "nothing is wrong, and nothing waits"
	return map[string]string{
		"windows_cpu_time_total": wine, "windows_memory_": wine, "windows_os_": wine, "windows_logical_disk_": wine, "windows_net_": wine,
		"windows_system_": wine, "windows_service_state": wine, "windows_node_": wine, "node_memory_": wine, "node_filesystem_": wine,
		"node_boot_time": wine, "node_cpu_utilisation": wine,
		"kube_pod_container": pods, "windows_pod_container_available": pods, "windows_container_total_runtime": pods,
		"windows_container_private_working_set": pods, "pod_interface_network:": pods,
		"wmco_instance_problem": well, "wmco_instance_action_failed": well, "wmco_rollout_waiting": well, "wmco_node_action_duration": well,
		"wmco_settings_lag_seconds": well, "ALERTS": well,
		"wicd_network_": "the lab's own network is provider Custom, which the daemon does not look after",
	}
}

// expectResults waits until every expression has a result, but for those of withoutResult.
func (p place) expectResults(prometheus *lab.Prometheus) {
	missing := expressions("win-1", ".+")
	p.eventually("every expression has a result", func(ctx context.Context) string {
		var still []namedExpression
		var report []string
		for _, e := range missing {
			result, err := prometheus.Query(ctx, e.expr)
			if err != nil {
				return e.where + ": " + err.Error()
			}
			if len(result) == 0 && !isWithoutResult(e.expr) {
				still, report = append(still, e), append(report, e.where+": "+e.expr)
			}
		}
		missing = still
		return strings.Join(report, "\n")
	})
}

func isWithoutResult(expr string) bool {
	for part := range withoutResult() {
		if strings.Contains(expr, part) {
			return true
		}
	}
	return false
}

// expectHealthyRules waits until Prometheus has evaluated every rule and alert without an error.
func (p place) expectHealthyRules(prometheus *lab.Prometheus) {
	p.eventually("every rule was evaluated", func(ctx context.Context) string {
		rules, err := prometheus.Rules(ctx)
		if err != nil || len(rules) == 0 {
			return fmt.Sprintf("there are %d rules (%v)", len(rules), err)
		}
		for _, r := range rules {
			if r.Health != "ok" {
				return fmt.Sprintf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
		return ""
	})
}
