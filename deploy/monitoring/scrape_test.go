package monitoring

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/shared/metrics"
)

const (
	plainMonitors     = "servicemonitors.yaml"
	openShiftMonitors = "openshift/servicemonitors.yaml"
	prometheusConfig  = "prometheus/prometheus.yaml"
)

// relabel is a step of Prometheus' relabeling. Without source it sets the target; the default action is replace.
type relabel struct {
	SourceLabels                            []string
	Regex, TargetLabel, Replacement, Action string
}

// job is a scrape of one kind of target.
type job struct {
	file, name, limits             string
	Relabelings, MetricRelabelings []relabel
	// all is the whole configuration of the scrape.
	all map[string]any
}

// jobs returns all scrapes of a file. Fields of Prometheus' own configuration get the names that they have in a ServiceMonitor.
func jobs(t *testing.T, file string) (all []job) {
	t.Helper()
	content, err := files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("metric_relabel_configs", "metricRelabelings", "relabel_configs", "relabelings", "source_labels", "sourceLabels",
		"target_label", "targetLabel", "follow_redirects", "followRedirects", "honor_labels", "honorLabels", "sample_limit", "sampleLimit",
		"body_size_limit", "bodySizeLimit")
	for text := range strings.SplitSeq(names.Replace(string(content)), "\n---\n") {
		var object struct {
			Metadata struct{ Name string }
			Spec     struct {
				SampleLimit, BodySizeLimit any
				Endpoints                  []map[string]any
			}
			Scrapes []map[string]any `json:"scrape_configs"`
		}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		for _, e := range object.Spec.Endpoints {
			all = append(all, job{file: file, name: object.Metadata.Name, limits: fmt.Sprintf("%v samples, %v", object.Spec.SampleLimit, object.Spec.BodySizeLimit), all: e})
		}
		for _, s := range object.Scrapes {
			all = append(all, job{file: file, name: s["job_name"].(string), limits: fmt.Sprintf("%v samples, %v", s["sampleLimit"], s["bodySizeLimit"]), all: s})
		}
	}
	for i := range all {
		text, err := yaml.Marshal(all[i].all)
		if err == nil {
			err = yaml.Unmarshal(text, &all[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// everyJob returns the scrapes of all files: those of the operator, of windows_exporter and of kubelets, in this order.
func everyJob(t *testing.T) (all []job) {
	for _, file := range []string{plainMonitors, openShiftMonitors, prometheusConfig} {
		ofFile := jobs(t, file)
		if len(ofFile) != 3 || ofFile[0].name != JobOperator || ofFile[1].name != JobExporter {
			t.Fatalf("%s does not have the three jobs", file)
		}
		all = append(all, ofFile...)
	}
	return all
}

// TestANodeSpeaksForItselfOnly checks which series a node may send, and how many, in all forms of the configuration.
func TestANodeSpeaksForItselfOnly(t *testing.T) {
	for _, j := range everyJob(t) {
		if j.name == JobOperator {
			continue
		}
		if j.limits != "30000 samples, 20MB" {
			t.Errorf("%s: job %s has limits %s", j.file, j.name, j.limits)
		}
		if j.all["honorLabels"] != nil {
			t.Errorf("%s: a node says which instance and job the series of %s are of", j.file, j.name)
		}
		first := j.MetricRelabelings[0]
		if first.Action != "keep" || !slices.Equal(first.SourceLabels, []string{"__name__"}) {
			t.Errorf("%s: job %s does not select series by name first, but %v", j.file, j.name, first)
		}
		kept := regexp.MustCompile("^(?:" + first.Regex + ")$")
		for _, name := range []string{"wmco_instance_problem", "ALERTS", "up", "kube_pod_info"} {
			if kept.MatchString(name) {
				t.Errorf("%s: a node may send %s", j.file, name)
			}
		}
		wanted := []string{"windows_cpu_time_total", "wicd_reboot_pending"}
		if j.name != JobExporter {
			wanted = []string{"container_cpu_usage_seconds_total", "pod_memory_working_set_bytes"}
		}
		for _, name := range wanted {
			if !kept.MatchString(name) {
				t.Errorf("%s: %s is dropped", j.file, name)
			}
		}
	}
}

// TestAllFormsGiveTheSameSeries compares the two files with ServiceMonitors, whose certificates differ, and the series that each form keeps.
func TestAllFormsGiveTheSameSeries(t *testing.T) {
	plain, openShift, prometheus := jobs(t, plainMonitors), jobs(t, openShiftMonitors), jobs(t, prometheusConfig)
	for i := range plain {
		if !reflect.DeepEqual(plain[i].MetricRelabelings, prometheus[i].MetricRelabelings) {
			t.Errorf("job %s keeps other series in %s: %v, %v", plain[i].name, prometheusConfig, plain[i].MetricRelabelings, prometheus[i].MetricRelabelings)
		}
		delete(plain[i].all, "tlsConfig")
		delete(openShift[i].all, "tlsConfig")
		if !reflect.DeepEqual(plain[i].all, openShift[i].all) {
			t.Errorf("job %s is different in %s: %v, %v", plain[i].name, openShiftMonitors, plain[i].all, openShift[i].all)
		}
	}
}

// TestMonitorsWorkWithEveryDiscovery rejects labels that exist with only one discovery role and are empty with others.
func TestMonitorsWorkWithEveryDiscovery(t *testing.T) {
	for _, j := range slices.Concat(jobs(t, plainMonitors), jobs(t, openShiftMonitors)) {
		for _, found := range regexp.MustCompile(`serviceDiscoveryRole|__meta_kubernetes_endpoint(slice)?_\w+`).FindAllString(fmt.Sprint(j.all), -1) {
			t.Errorf("%s depends on one role of discovery: %s", j.file, found)
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
	for _, j := range everyJob(t) {
		target, labels := slices.Clone(byPrometheusOperator), ofPods
		switch {
		case j.file == prometheusConfig:
			target = nil
		case j.name == JobOperator:
			target = target[1:] // its targets are pods
		}
		switch j.name {
		case JobOperator:
			labels = labelsOf(metrics.Operator())
		case JobExporter:
			labels = slices.Concat(ofPods, labelsOf(metrics.Node()))
		}
		for _, step := range j.Relabelings {
			switch step.Action {
			case "labeldrop":
				target = slices.DeleteFunc(target, regexp.MustCompile("^(?:"+step.Regex+")$").MatchString)
			case "":
				target = append(target, step.TargetLabel)
			}
		}
		for _, name := range target {
			if slices.Contains(labels, name) {
				t.Errorf("%s: targets of job %s have label %s, and so have their series", j.file, j.name, name)
			}
		}
	}
}

// TestNoNodeGetsAToken expects no token for nodes: an attacker on a node would get it.
func TestNoNodeGetsAToken(t *testing.T) {
	for _, j := range everyJob(t) {
		text := fmt.Sprint(j.all)
		secret := regexp.MustCompile(`(?i)token|authorization|basic_?auth|oauth|credentials|password`).FindString(text)
		if isOperator := j.name == JobOperator; isOperator != (secret != "") {
			t.Errorf("%s: job %s has %q", j.file, j.name, secret)
		}
		if j.name != JobOperator && !regexp.MustCompile(`(?i)cert(_?file)?:`).MatchString(text) {
			t.Errorf("%s: job %s shows no certificate", j.file, j.name)
		}
		if j.all["followRedirects"] != false {
			t.Errorf("%s: job %s follows redirects", j.file, j.name)
		}
	}
}
