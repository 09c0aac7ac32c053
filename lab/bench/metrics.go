//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/lab/testenv"
)

// scrapes is how many scrapes of a node are measured, one after the other.
const scrapes, scrapeEvery = 10, 5 * time.Second

// measureMetrics has Prometheus scrape the only node of a stage: how many series there are of it, and how long windows_exporter takes. On Wine,
// collectors that need performance counters or WMI add no series.
func measureMetrics(ctx context.Context, st *stage) error {
	prometheus, err := st.StartPrometheus(ctx, testenv.PrometheusOptions{Interval: scrapeEvery})
	if err != nil {
		return err
	}
	st.say("Prometheus scrapes the node %d times", scrapes)
	time.Sleep(scrapes * scrapeEvery)
	for _, number := range []struct{ name, expression, unit string }{
		{"metrics.series_per_node", `sum(scrape_samples_post_metric_relabeling{node!=""})`, "count"},
		{"metrics.exporter_scrape_seconds", `max(quantile_over_time(0.5, scrape_duration_seconds{job="windows-exporter"}[1m]))`, "s"},
		{"metrics.exporter_scrape_slowest_seconds", `max(max_over_time(scrape_duration_seconds{job="windows-exporter"}[1m]))`, "s"},
	} {
		result, err := prometheus.Evaluate(ctx, number.expression)
		if err != nil {
			return err
		}
		if len(result) != 1 {
			return fmt.Errorf("%s has %d results, want 1", number.expression, len(result))
		}
		st.number(number.name, float64(result[0].Value), number.unit)
	}
	return nil
}
