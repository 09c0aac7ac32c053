//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/windows-machine-config/wmco/deploy/monitoring"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// expectScraped starts Prometheus with the configuration and permissions of users, and checks that it scrapes the operator, windows_exporter over
// mutual TLS, and the kubelet.
func (p harness) expectScraped() *lab.Prometheus {
	p.t.Helper()
	prometheus, err := p.StartPrometheus(p.t.Context(), testenv.PrometheusOptions{Interval: scrapeWine})
	must(p.t, err)
	p.expectTargets(prometheus, monitoring.JobOperator, monitoring.JobExporter, monitoring.JobKubelet)
	for _, query := range []string{
		`wmco_instances{condition="Ready",status="True"} == 1`,
		`windows_exporter_build_info{instance="win-1",node="win-1"} == 1`,
		`wicd_certificate_expiration_timestamp_seconds{instance="win-1"} > time()`,
		`node_memory_working_set_bytes{instance="win-1",metrics_path="/metrics/cadvisor"} > 0`,
	} {
		p.expectResult(prometheus, query)
	}
	return prometheus
}

// expectTargets waits until Prometheus has one target for each job, and all are up.
func (p harness) expectTargets(prometheus *lab.Prometheus, jobs ...string) {
	p.t.Helper()
	p.eventually("Prometheus scrapes "+strings.Join(jobs, ", "), func(ctx context.Context) string {
		targets, err := prometheus.Targets(ctx)
		if err != nil {
			return err.Error()
		}
		var up []string
		for _, t := range targets.Active {
			if t.Health != promv1.HealthGood {
				return fmt.Sprintf("%s is %s: %s", t.ScrapeURL, t.Health, t.LastError)
			}
			up = append(up, string(t.Labels["job"]))
		}
		slices.Sort(up)
		want := slices.Sorted(slices.Values(jobs))
		if !slices.Equal(up, want) {
			return fmt.Sprintf("got targets %v, want %v", up, want)
		}
		return ""
	})
}

// expectResult waits until an expression has a result.
func (p harness) expectResult(prometheus *lab.Prometheus, expression string) {
	p.t.Helper()
	p.eventually(expression+" has a result", func(ctx context.Context) string {
		result, err := prometheus.Evaluate(ctx, expression)
		switch {
		case err != nil:
			return err.Error()
		case len(result) == 0:
			return "the result is empty"
		}
		return ""
	})
}
