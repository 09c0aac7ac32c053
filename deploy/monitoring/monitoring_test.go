package monitoring

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/shared/metrics"
)

// read returns what a function of this package reads.
func read[T any](t *testing.T, from func() (T, error)) T {
	t.Helper()
	got, err := from()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// expressions returns those of all recording rules and dashboards.
func expressions(t *testing.T) (all []string) {
	for _, g := range read(t, RecordingRules) {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	for _, d := range read(t, Dashboards) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, target.Expr)
			}
		}
	}
	return all
}

func alertExpressions(t *testing.T) (all []string) {
	for _, g := range read(t, Alerts) {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	return all
}

func TestEveryAlertHasARunbook(t *testing.T) {
	index, err := os.ReadFile("../../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, g := range read(t, Alerts) {
		for _, r := range g.Rules {
			if alerts[r.Alert] {
				t.Errorf("there are two alerts %s", r.Alert)
			}
			alerts[r.Alert] = true
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("alert %s has severity %q", r.Alert, r.Labels["severity"])
			}
			for _, name := range []string{"summary", "description"} {
				if text := r.Annotations[name]; !strings.HasSuffix(text, ".") || len(text) < 30 {
					t.Errorf("alert %s: annotation %s is %q, want sentences", r.Alert, name, text)
				}
			}
			file := "runbooks/" + r.Alert + ".md"
			if url := r.Annotations["runbook_url"]; url != advice.URL("runbooks/"+r.Alert) {
				t.Errorf("alert %s: runbook_url is %q", r.Alert, url)
			}
			page, err := os.ReadFile("../../docs/" + file)
			if err != nil {
				t.Errorf("alert %s: %v", r.Alert, err)
			}
			for _, part := range []string{"# " + r.Alert + "\n", "\n## Find the cause\n", "\n## Remedy\n", "kubectl "} {
				if !strings.Contains(string(page), part) {
					t.Errorf("%s has no %q", file, part)
				}
			}
			if !strings.Contains(string(index), "["+r.Alert+"]") {
				t.Errorf("docs/runbooks/README.md does not list %s; run make generate", r.Alert)
			}
		}
	}
	pages, err := os.ReadDir("../../docs/runbooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if name := strings.TrimSuffix(p.Name(), ".md"); name != "README" && !alerts[name] {
			t.Errorf("docs/runbooks/%s is about no alert", p.Name())
		}
	}
}

// TestDescriptionsNameLabelsThatTheirAlertsHave checks {{ $labels.x }}, which is empty if the result has no label x.
func TestDescriptionsNameLabelsThatTheirAlertsHave(t *testing.T) {
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	always := []string{"instance", "node", "volume"} // of targets and of windows_exporter
	var known []string
	for _, m := range slices.Concat(metrics.Operator(), metrics.Node()) {
		known = append(known, m.LabelNames()...)
	}
	for _, g := range read(t, Alerts) {
		for _, r := range g.Rules {
			for _, m := range label.FindAllStringSubmatch(r.Annotations["description"], -1) {
				if !slices.Contains(always, m[1]) && !slices.Contains(known, m[1]) {
					t.Errorf("alert %s names label %s, which no metric has", r.Alert, m[1])
				}
			}
		}
	}
}

func TestEveryMetricIsKnown(t *testing.T) {
	known := map[string]bool{"up": true, "ALERTS": true}
	text, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" && !strings.HasPrefix(name, "#") {
			known[name] = true
		}
	}
	for _, m := range slices.Concat(metrics.Operator(), metrics.Node()) {
		known[m.Name] = true
		if m.Kind == metrics.Histogram {
			known[m.Name+"_sum"], known[m.Name+"_count"], known[m.Name+"_bucket"] = true, true, true
		}
	}
	for _, g := range read(t, RecordingRules) {
		for _, r := range g.Rules {
			known[r.Record] = true
		}
	}
	all := slices.Concat(expressions(t), alertExpressions(t))
	if len(all) < 100 {
		t.Fatalf("there are %d expressions only", len(all))
	}
	for _, expr := range all {
		for _, name := range metricsIn(expr) {
			if !known[name] {
				t.Errorf("metric %s is not in testdata/metrics.txt and not ours: %s", name, expr)
			}
		}
	}
}

// metricsIn returns the metric names in an expression: identifiers other than functions, labels and keywords.
func metricsIn(expr string) (names []string) {
	for _, drop := range []string{`"[^"]*"`, `\{[^}]*\}`, `\b(by|on|without|ignoring|group_left|group_right) *\([^)]*\)`, `\[[^\]]*\]`} {
		expr = regexp.MustCompile(drop).ReplaceAllString(expr, " ")
	}
	for _, m := range regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*( *\()?`).FindAllString(expr, -1) {
		if !strings.HasSuffix(m, "(") && !slices.Contains([]string{"and", "or", "unless", "offset", "bool"}, m) {
			names = append(names, strings.TrimSpace(m))
		}
	}
	return names
}

func TestMetricsAreFoundInExpressions(t *testing.T) {
	got := metricsIn(`sum by (a, b) (rate(one{x="two", y=~"three()"}[5m])) / on (c) group_left () (:four:sum or max(five)) and vector(1) unless absent(up{job="x"} == 1)`)
	if want := []string{"one", ":four:sum", "five", "up"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEveryConditionAndReasonIsKnown finds an alert that selects a condition or a reason that the operator never writes.
func TestEveryConditionAndReasonIsKnown(t *testing.T) {
	var conditions string
	for _, m := range slices.Concat(metrics.Operator(), metrics.Node()) {
		for _, l := range m.Labels {
			if l.Name == "condition" {
				conditions += l.Values
			}
		}
	}
	reasons, found := advice.All(), 0 // a test there compares them with package api
	for _, expr := range slices.Concat(expressions(t), alertExpressions(t)) {
		for _, m := range regexp.MustCompile(`\b(condition|reason)!?[=~]+"([^"]+)"`).FindAllStringSubmatch(expr, -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				found++
				if _, isReason := reasons[value]; !isReason && m[1] == "reason" || m[1] == "condition" && !strings.Contains(conditions, "`"+value+"`") {
					t.Errorf("there is no %s %s, which an expression selects: %s", m[1], value, expr)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d conditions and reasons were found", found)
	}
}

func TestDashboardsAreComplete(t *testing.T) {
	for _, d := range read(t, Dashboards) {
		if d.UID == "" || len(d.Panels) == 0 || d.Templating.List[0].Type != "datasource" {
			t.Errorf("dashboard %q has no uid, no panels or no datasource variable", d.Title)
		}
		text, err := files.ReadFile("dashboards/" + d.UID + ".json")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(string(text), -1) {
			if !slices.ContainsFunc(d.Templating.List, func(v struct{ Name, Type string }) bool { return v.Name == m[1] }) {
				t.Errorf("dashboard %s uses variable %s, which it does not have", d.UID, m[1])
			}
		}
		for i, p := range d.Panels {
			shown := p.FieldConfig.Defaults
			if len(p.Targets) == 0 || p.Title == "" || p.Datasource.UID != "${datasource}" || shown.Unit == "" {
				t.Errorf("dashboard %s: panel %q is incomplete", d.UID, p.Title)
			}
			if p.ID != i+1 {
				t.Errorf("dashboard %s: panel %q has ID %d, want %d", d.UID, p.Title, p.ID, i+1)
			}
			if isShare := shown.Min != nil && *shown.Min == 0 && shown.Max != nil && *shown.Max == 1; isShare != (shown.Unit == "percentunit") {
				t.Errorf("dashboard %s: panel %q has unit %s and is from 0 to 1: %v", d.UID, p.Title, shown.Unit, isShare)
			}
			for _, target := range p.Targets {
				if target.Instant != (p.Type != "timeseries") {
					t.Errorf("dashboard %s: panel %q of type %s has instant %v", d.UID, p.Title, p.Type, target.Instant)
				}
			}
		}
	}
}
