package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/shared/metrics"
)

func TestEveryAlertHasARunbook(t *testing.T) {
	index, err := os.ReadFile("../../../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, g := range Alerts() {
		for _, r := range g.Rules {
			if alerts[r.Alert] {
				t.Errorf("there are two alerts %s", r.Alert)
			}
			alerts[r.Alert] = true
			if !slices.Contains([]string{critical, warning, info}, r.Labels["severity"]) {
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
			page, err := os.ReadFile("../../../docs/" + file)
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
	pages, err := os.ReadDir("../../../docs/runbooks")
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
	for _, g := range Alerts() {
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
			known[m.Name+"_sum"], known[m.Name+"_count"] = true, true
		}
	}
	for _, g := range RecordingRules() {
		for _, r := range g.Rules {
			known[r.Record] = true
		}
	}
	var all []string
	for _, g := range slices.Concat(RecordingRules(), Alerts()) {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	for _, d := range Dashboards() {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, target.Expr)
			}
		}
	}
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

func TestDashboardsAreComplete(t *testing.T) {
	for _, d := range Dashboards() {
		if d.UID == "" || len(d.Panels) == 0 || d.Templating.List[0].Type != "datasource" {
			t.Errorf("dashboard %q has no uid, no panels or no datasource variable", d.Title)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		used := regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(string(text), -1)
		for _, m := range used {
			if !slices.ContainsFunc(d.Templating.List, func(v variable) bool { return v.Name == m[1] }) {
				t.Errorf("dashboard %s uses variable %s, which it does not have", d.UID, m[1])
			}
		}
		for _, p := range d.Panels {
			if len(p.Targets) == 0 || p.Title == "" || p.Datasource != datasource() || p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("dashboard %s: panel %q is incomplete", d.UID, p.Title)
			}
		}
	}
}

// TestANodeSpeaksForItselfOnly checks which series names a node may send, in all forms of the configuration.
func TestANodeSpeaksForItselfOnly(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prometheus/prometheus.yaml", "servicemonitors.yaml", "openshift/servicemonitors.yaml"} {
		text := string(files[name])
		for part, want := range map[string]int{
			"regex: " + exporterSeries()[0].regex: 1, "regex: " + kubeletSeries()[0].regex: 1, "honor": strings.Count(text, "honorTimestamps: false"), maxBody: 2, fmt.Sprint(maxSamples): 2,
		} {
			if n := strings.Count(text, part); n != want {
				t.Errorf("%s has %q %d times, want %d", name, part, n, want)
			}
		}
	}
	for name, from := range map[string][]relabel{
		"windows_cpu_time_total": exporterSeries(), "wicd_reboot_pending": exporterSeries(), "container_cpu_usage_seconds_total": kubeletSeries(), "pod_memory_working_set_bytes": kubeletSeries(),
	} {
		if !regexp.MustCompile("^(?:" + from[0].regex + ")$").MatchString(name) {
			t.Errorf("%s is dropped", name)
		}
	}
	for _, from := range [][]relabel{exporterSeries(), kubeletSeries()} {
		for _, name := range []string{"wmco_instance_problem", "ALERTS", "up", "kube_pod_info"} {
			if regexp.MustCompile("^(?:" + from[0].regex + ")$").MatchString(name) {
				t.Errorf("a node may send %s", name)
			}
		}
	}
}

// TestMonitorsWorkWithEveryDiscovery rejects labels that exist with only one discovery role and are empty with others.
func TestMonitorsWorkWithEveryDiscovery(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"servicemonitors.yaml", "openshift/servicemonitors.yaml"} {
		for _, found := range regexp.MustCompile(`serviceDiscoveryRole|__meta_kubernetes_endpoint(slice)?_\w+`).FindAllString(string(files[name]), -1) {
			t.Errorf("%s depends on one role of discovery: %s", name, found)
		}
	}
}

// TestNoTargetDisplacesALabelOfItsSeries: if target and series have the same label, Prometheus keeps the target's and renames the other.
func TestNoTargetDisplacesALabelOfItsSeries(t *testing.T) {
	byPrometheusOperator := []string{"node", "namespace", "service", "pod", "container", "endpoint", "job"}
	labelsOf := func(list []metrics.Metric) (names []string) {
		for _, m := range list {
			names = append(names, m.LabelNames()...)
		}
		return names
	}
	ofPods := []string{"namespace", "pod", "container", "container_id", "interface", "image"} // of kubelets and windows_exporter
	for _, test := range []struct {
		job    string
		target []string
		steps  []relabel
		series []string
	}{
		{JobOperator, byPrometheusOperator[1:], operatorTargets()[2:], labelsOf(metrics.Operator())}, // its targets are pods
		{JobExporter, byPrometheusOperator, exporterTargets(inMonitorNodes()), slices.Concat(labelsOf(metrics.Node()), ofPods)},
		{JobKubelet, byPrometheusOperator, kubeletTargets(inMonitorNodes()), ofPods},
		{JobExporter, nil, exporterTargets(inPrometheusNodes()), slices.Concat(labelsOf(metrics.Node()), ofPods)},
		{JobKubelet, nil, kubeletTargets(inPrometheusNodes()), ofPods},
	} {
		target := slices.Clone(test.target)
		for _, step := range test.steps {
			switch step.action {
			case "labeldrop":
				target = slices.DeleteFunc(target, regexp.MustCompile("^(?:"+step.regex+")$").MatchString)
			case "":
				target = append(target, step.target)
			}
		}
		for _, name := range target {
			if slices.Contains(test.series, name) {
				t.Errorf("targets of job %s have label %s, and so have their series", test.job, name)
			}
		}
	}
}

// TestNoNodeGetsAToken expects no token for nodes: an attacker on a node would get it.
func TestNoNodeGetsAToken(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	jobs := 0
	check := func(file, name string, job map[string]any, follow string) {
		jobs++
		text := fmt.Sprint(job)
		secret := regexp.MustCompile(`(?i)token|authorization|basic_?auth|oauth|credentials|password`).FindString(text)
		if isOperator := name == JobOperator; isOperator != (secret != "") {
			t.Errorf("%s: job %s has %q", file, name, secret)
		}
		if isOperator := name == JobOperator; !isOperator && !regexp.MustCompile(`(?i)cert(_?file)?:`).MatchString(text) {
			t.Errorf("%s: job %s shows no certificate", file, name)
		}
		if job[follow] != false {
			t.Errorf("%s: job %s follows redirects", file, name)
		}
	}
	var config struct {
		Jobs []map[string]any `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(files["prometheus/prometheus.yaml"], &config); err != nil {
		t.Fatal(err)
	}
	for _, job := range config.Jobs {
		check("prometheus.yaml", fmt.Sprint(job["job_name"]), job, "follow_redirects")
	}
	for _, file := range []string{"servicemonitors.yaml", "openshift/servicemonitors.yaml"} {
		for text := range strings.SplitSeq(string(files[file]), "\n---\n") {
			var monitor struct {
				Metadata struct{ Name string }
				Spec     struct{ Endpoints []map[string]any }
			}
			if err := yaml.Unmarshal([]byte(text), &monitor); err != nil {
				t.Fatal(err)
			}
			for _, endpoint := range monitor.Spec.Endpoints {
				check(file, monitor.Metadata.Name, endpoint, "followRedirects")
			}
		}
	}
	if jobs != 9 {
		t.Errorf("%d jobs, want 9", jobs)
	}
}

// TestGeneratedFilesAreCurrent checks the generated files, as make check-generated does.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile("../../../deploy/monitoring/" + name); err != nil || string(got) != string(want) {
			t.Errorf("deploy/monitoring/%s is not what would be made (%v); run make generate", name, err)
		}
	}
}
