package archtest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDashboardsQueryRecordedMetrics expects the metrics of WICD that dashboards query among those with which a Prometheus of the lab evaluates them.
func TestDashboardsQueryRecordedMetrics(t *testing.T) {
	inRoot(t)
	const recorded = "lab/suites/e2e/testdata/windows_exporter.txt"
	known := read(t, recorded)
	files, err := filepath.Glob("deploy/monitoring/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d dashboards (%v)", len(files), err)
	}
	for _, file := range files {
		for _, metric := range regexp.MustCompile(`\bwicd_\w+`).FindAllString(read(t, file), -1) {
			if !strings.Contains(known, "\n"+metric+"{") && !strings.Contains(known, "\n"+metric+" ") {
				t.Errorf("%s queries %s, which is not in %s", file, metric, recorded)
			}
		}
	}
}
