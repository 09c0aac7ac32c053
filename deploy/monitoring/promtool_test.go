package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
)

// object is a YAML mapping.
type object = map[string]any

// promtool runs Debian's promtool in a folder with all rules and a test file.
func promtool(t *testing.T, tests object) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: promtool not found; install Debian's prometheus")
	}
	all := read(t, RuleFiles)
	if all["tests.yaml"], err = yaml.Marshal(tests); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range all {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", RulesFile, AlertsFile}, {"test", "rules", "tests.yaml"}} {
		command := exec.CommandContext(t.Context(), program, args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// series is an input series of promtool, with one value per minute.
func series(name, values string) object { return object{"series": name, "values": values} }

// suite returns promtool's test file. Alerts need no recording rules.
func suite(rules []any, tests ...object) object {
	all := make([]any, 0, len(tests))
	for _, test := range tests {
		test["interval"] = "1m"
		all = append(all, test)
	}
	return object{"rule_files": rules, "evaluation_interval": "1m", "tests": all}
}

// node returns the series that a windows_exporter version reports for a node with two processors, 8 GB of memory, 2 of them available, and one
// disk of 100 GB with 25 free. Processors are busy a quarter of the time. Names are from the documentation of that version's collectors.
func node(version string) (all []any) {
	of := func(name, labels, values string) {
		all = append(all, series(name+`{job="windows-exporter",instance="win-1",node="win-1"`+labels+`}`, values))
	}
	for _, core := range []string{"0,0", "0,1"} {
		of("windows_cpu_time_total", `,core="`+core+`",mode="idle"`, "0+45x60")
		of("windows_cpu_time_total", `,core="`+core+`",mode="user"`, "0+10x60")
		of("windows_cpu_time_total", `,core="`+core+`",mode="privileged"`, "0+5x60")
	}
	switch version {
	case "0.27":
		of("windows_os_visible_memory_bytes", "", "8e9x60")
		of("windows_cs_physical_memory_bytes", "", "8e9x60")
		of("windows_cs_logical_processors", "", "2x60")
		of("windows_system_system_up_time", "", "1000x60")
	case "0.30":
		of("windows_os_visible_memory_bytes", "", "8e9x60")
		of("windows_cs_physical_memory_bytes", "", "8e9x60")
		of("windows_memory_physical_total_bytes", "", "8e9x60")
		of("windows_cpu_logical_processor", "", "2x60")
		of("windows_system_boot_time_timestamp_seconds", "", "1000x60")
	case "0.31":
		of("windows_memory_physical_total_bytes", "", "8e9x60")
		of("windows_cpu_logical_processor", "", "2x60")
		of("windows_system_boot_time_timestamp", "", "1000x60")
	}
	of("windows_memory_available_bytes", "", "2e9x60")
	of("windows_memory_cache_bytes", "", "1e9x60")
	for _, name := range []string{"modified_page_list", "standby_cache_core", "standby_cache_normal_priority", "standby_cache_reserve"} {
		of("windows_memory_"+name+"_bytes", "", "1e8x60")
	}
	of("windows_memory_swap_page_operations_total", "", "0+60x60")
	of("windows_logical_disk_size_bytes", `,volume="C:"`, "100e9x60")
	of("windows_logical_disk_free_bytes", `,volume="C:"`, "25e9x60")
	of("windows_logical_disk_size_bytes", `,volume="HarddiskVolume1"`, "1e8x60")
	of("windows_logical_disk_free_bytes", `,volume="HarddiskVolume1"`, "1e6x60")
	of("windows_logical_disk_read_seconds_total", `,volume="C:"`, "0+6x60")
	of("windows_logical_disk_write_seconds_total", `,volume="C:"`, "0+6x60")
	for _, name := range []string{"bytes", "bytes_received", "bytes_sent", "packets_received_discarded", "packets_outbound_discarded"} {
		of("windows_net_"+name+"_total", `,nic="Ethernet"`, "0+600x60")
	}
	of("windows_cpu_info", `,name="x",description="y",architecture="9",family="205"`, "1x60")
	of("windows_service_state", `,name="kubelet",state="running"`, "1x60")
	return append(append(all, pod(of)...), others()...)
}

// pod returns the series of a pod with two containers, for each of which windows_exporter counts the bytes of their endpoint.
func pod(of func(name, labels, values string)) (all []any) {
	for _, container := range []string{"web", "helper"} {
		id := `,container_id="containerd://` + container + `"`
		of("windows_container_available", id, "1x60")
		of("windows_container_cpu_usage_seconds_total", id, "0+30x60")
		of("windows_container_memory_usage_commit_bytes", id, "1e8x60")
		of("windows_container_memory_usage_private_working_set_bytes", id, "5e7x60")
		of("windows_container_network_receive_bytes_total", id+`,interface="eth0"`, "0+6000x60")
		of("windows_container_network_transmit_bytes_total", id+`,interface="eth0"`, "0+600x60")
		in := `{namespace="shop",pod="web-1",container="` + container + `"`
		all = append(all,
			series("kube_pod_container_info"+in+`,container_id="containerd://`+container+`"}`, "1x60"),
			series("kube_pod_container_resource_requests"+in+`,resource="memory"}`, "1e8x60"), series("kube_pod_container_resource_limits"+in+`,resource="memory"}`, "1e8x60"),
			series("kube_pod_container_resource_requests"+in+`,resource="cpu"}`, "0.5x60"), series("kube_pod_container_resource_limits"+in+`,resource="cpu"}`, "1x60"))
	}
	return all
}

// others returns the series of the kubelet, the operator and WICD.
func others() []any {
	const kubelet, wicd = `{job="kubelet",metrics_path="/metrics/cadvisor",node="win-1",instance="10.0.0.1:10250",namespace="shop",pod="web-1"`, `{job="windows-exporter",instance="win-1"`
	return []any{
		series("container_cpu_usage_seconds_total"+kubelet+`}`, "0+60x60"),
		series("container_memory_working_set_bytes"+kubelet+`}`, "1e8x60"), series("container_memory_working_set_bytes"+kubelet+`,container="web",image="windows"}`, "1e8x60"),
		series(`up{job="windows-exporter",instance="win-1",node="win-1"}`, "1x60"), series(`up{job="windows-machine-config-operator"}`, "1x60"),
		series(api.MetricInstances+`{condition="Ready",status="True",reason="Ready"}`, "1x60"), series(api.MetricOrphanNodes, "0x60"),
		series(api.MetricInstanceProblem+`{windowsinstance="b",node="",condition="Draining",reason="PodStuck"}`, "1x60"), series(api.MetricActionFailed+`{windowsinstance="b",node="",action="Join"}`, "1x60"),
		series(api.MetricRolloutWaiting+`{action="Upgrade",reason="Budget"}`, "1x60"), series(api.MetricSettingsLag+`{node="win-1"}`, "60x60"),
		series(api.MetricJoins+`{result="configured",reason="Configured"}`, "0+1x60"), series(api.MetricSSHConnections+`{result="Connected"}`, "0+1x60"),
		series(api.MetricCertificateDecisions+`{signer="other",result="approved",rule=""}`, "0+1x60"),
		series(api.MetricJoinStepSeconds+`_sum{step="Connect"}`, "0+2x60"), series(api.MetricJoinStepSeconds+`_count{step="Connect"}`, "0+1x60"),
		series(api.MetricActionSeconds+`_sum{action="Upgrade",result="done"}`, "0+60x60"), series(api.MetricActionSeconds+`_count{action="Upgrade",result="done"}`, "0+1x60"),
		series(api.MetricNodeBuildInfo+wicd+`,version="1.0.0-a"}`, "1x60"), series(api.MetricNodeSettingsApplied+wicd+`}`, "0x60"), series(api.MetricNodeRebootPending+wicd+`}`, "0x60"),
		series(api.MetricNodeServiceRestarts+wicd+`,service="kubelet"}`, "0x60"), series(api.MetricNodeNetworkUnavailable+wicd+`}`, "0x60"), series(api.MetricNodeNetworkRepairs+wicd+`}`, "0x60"),
		series(api.MetricNodeProblem+wicd+`,condition="WindowsClockSkewed"}`, "0x60"),
		series(api.MetricNodeProblem+wicd+`,condition="WindowsNetworkPoliciesNotApplied"}`, "0x60"),
		series(api.MetricNodeUpdatesOverdue+wicd+`}`, "0x60"), series(api.MetricNodeUpdatesPending+wicd+`,class="security"}`, "2x60"), series(api.MetricNodeUpdateInstalled+wicd+`}`, "1000x60"),
		series(api.MetricPolicyProblems+`{reason="Invalid"}`, "1x60"), series(api.MetricPolicyProblemNamespaces, "1x60"),
		series(api.MetricNodePolicyEffect+`_bucket`+wicd+`,le="1"}`, "0+1x60"), series(api.MetricNodePolicyEffect+`_bucket`+wicd+`,le="+Inf"}`, "0+1x60"),
		series(api.MetricNodeRegistryRequests+wicd+`,result="served"}`, "0+1x60"), series(api.MetricNodeCertificate+wicd+`,file="a",serial="1",subject="b"}`, "1e9x60"),
		series(api.MetricNodeCertificateLifetime+wicd+`,file="a",serial="1"}`, "1e6x60"), series(`ALERTS{alertname="WindowsX",alertstate="firing",severity="info"}`, "1x60"),
	}
}

func TestEveryExpressionHasAResult(t *testing.T) {
	t.Parallel()
	var tests []object
	for _, version := range []string{"0.27", "0.30", "0.31"} {
		var results []any
		check := func(expr string) {
			expr = strings.NewReplacer("$node", "win-1", "$namespace", ".+").Replace(expr)
			results = append(results, object{"expr": `count(` + expr + `) > bool 0`, "eval_time": "30m", "exp_samples": []any{object{"labels": "{}", "value": 1}}})
		}
		for _, expr := range expressions(t) {
			check(expr)
		}
		for _, g := range read(t, RecordingRules) {
			for _, r := range g.Rules {
				check(r.Record)
			}
		}
		tests = append(tests, object{"name": "windows_exporter " + version, "input_series": node(version), "promql_expr_test": results})
	}
	promtool(t, suite([]any{RulesFile}, tests...))
}

func TestValuesOfRules(t *testing.T) {
	t.Parallel()
	var tests []object
	for _, version := range []string{"0.27", "0.30", "0.31"} {
		var results []any
		for expr, want := range map[string]float64{
			`instance:node_cpu_utilisation:rate1m{instance="win-1"}`:                                                    0.25,
			`instance:node_cpu:rate:sum{instance="win-1"}`:                                                              0.5, // cores
			`instance:node_num_cpu:sum{instance="win-1"}`:                                                               2,
			`node_memory_MemTotal_bytes{instance="win-1"}`:                                                              8e9,
			`instance:node_memory_utilisation:ratio{instance="win-1"}`:                                                  0.75,
			`node_filesystem_size_bytes{instance="win-1",mountpoint="C:",fstype="ntfs"}`:                                100e9,
			`count(node_filesystem_size_bytes)`:                                                                         1, // excludes the boot loader's volume
			`sum by (instance) (rate(node_network_receive_bytes_total[3m]))`:                                            10,
			`node_boot_time_seconds{instance="win-1"}`:                                                                  1000,
			`node:windows_node:sum`:                                                                                     1,
			`node:windows_node_memory_utilisation:{instance="win-1"}`:                                                   0.75,
			`node:windows_node_disk_utilisation:avg_irate{instance="win-1"}`:                                            0.2,
			`node:windows_node_filesystem_usage:{instance="win-1",volume="C:"}`:                                         0.75,
			`pod_interface_network:container_network_receive_bytes:irate5m{namespace="shop",pod="web-1"}`:               100, // not once per container
			`sum(namespace_pod_container:windows_container_cpu_usage_seconds_total:sum_rate{pod="web-1"})`:              1,
			`sum(kube_pod_windows_container_resource_memory_limit{namespace="shop"})`:                                   2e8,
			`sum by (pod, namespace) (rate(container_cpu_usage_seconds_total{container="",pod!="",namespace!=""}[5m]))`: 1, // OpenShift's own rule
		} {
			results = append(results, object{"expr": `round(max(` + expr + `), 0.001)`, "eval_time": "30m", "exp_samples": []any{object{"labels": "{}", "value": want}}})
		}
		tests = append(tests, object{"name": "windows_exporter " + version, "input_series": node(version), "promql_expr_test": results})
	}
	promtool(t, suite([]any{RulesFile}, tests...))
}

// TestAlertsFire defines, for each alert, series for which it fires, and the time from which it does.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	problem := func(condition, reason string) object {
		return series(fmt.Sprintf(`%s{windowsinstance="a",node="win-1",condition=%q,reason=%q}`, api.MetricInstanceProblem, condition, reason), "1x200")
	}
	const on = `{job="windows-exporter",instance="win-1"`
	cases := map[string]struct {
		series []any
		// minutes after which the alert fires. If it is below 25, the alert must not fire at the minute before, or at minute 4 if that is
		// earlier.
		minutes int
	}{
		"WindowsMachineConfigOperatorDown": {[]any{series(`up{job="windows-machine-config-operator"}`, "0x200")}, 10},
		"WindowsInstanceStalled":           {[]any{problem(api.ConditionStalled, api.ReasonPrivateKeyInvalid)}, 5},
		"WindowsInstanceUnreachable":       {[]any{problem(api.ConditionReachable, api.ReasonAuthenticationFailed)}, 15},
		"WindowsInstanceNotReady":          {[]any{problem(api.ConditionReady, api.ReasonNodeNotReady)}, 15},
		"WindowsHostKeyChanged":            {[]any{problem(api.ConditionReachable, api.ReasonHostKeyChanged)}, 0},
		"WindowsDrainBlocked":              {[]any{problem(api.ConditionDraining, api.ReasonDrainBlocked)}, 30},
		"WindowsRolloutStopped":            {[]any{series(api.MetricRolloutWaiting+`{action="Upgrade",reason="RolloutStopped"}`, "2x200")}, 5},
		"WindowsFleetSilent":               {[]any{series(api.MetricRolloutWaiting+`{action="Repair",reason="FleetSilent"}`, "2x200")}, 5},
		"WindowsUpdateFailed":              {[]any{series(api.MetricActionFailed+`{windowsinstance="a",node="win-1",action="Upgrade"}`, "1x200")}, 0},
		"WindowsPodImageMismatch":          {[]any{series(api.MetricPodsNotStarted+`{reason="ImageForAnotherBuild"}`, "2x200")}, 15},
		"WindowsSettingsNotArrived":        {[]any{series(api.MetricSettingsLag+`{node="win-1"}`, "1000x200")}, 1},
		"WindowsEndOfSupport":              {[]any{series(api.MetricSupportEnd+`{node="win-1",product="Windows Server",line="2019"}`, "-1x200")}, 60},
		"WindowsExporterDown":              {[]any{series(`up`+on+`}`, "0x200")}, 15},
		"WindowsNodeNetworkUnavailable":    {[]any{series(api.MetricNodeNetworkUnavailable+on+`}`, "1x200")}, 5},
		"WindowsNodeProblem":               {[]any{series(api.MetricNodeProblem+on+`,condition="WindowsClockSkewed"}`, "1x200")}, 10},
		"WindowsUpdatesOverdue":            {[]any{series(api.MetricNodeUpdatesOverdue+on+`}`, "1x200")}, 60},
		"WindowsNodeRebootPending":         {[]any{series(api.MetricNodeRebootPending+on+`}`, "1x1500")}, 24 * 60},
		"WindowsMemoryPressure":            {[]any{series(`windows_memory_available_bytes`+on+`}`, "5e8x200"), series(`windows_os_visible_memory_bytes`+on+`}`, "8e9x200")}, 15},
		"WindowsNodeCertificateExpiring": {[]any{
			series(api.MetricNodeCertificate+on+`,file="f",serial="1",subject="s"}`, "20000x400"), series(api.MetricNodeCertificateLifetime+on+`,file="f",serial="1"}`, "86400x400"),
		}, 225},
		"WindowsNodeCertificateExpired": {[]any{
			series(api.MetricNodeCertificate+on+`,file="f",serial="1",subject="s"}`, "4000x400"), series(api.MetricNodeCertificateLifetime+on+`,file="f",serial="1"}`, "86400x400"),
		}, 20},
		"WindowsTrustedCertificateExpiring": {[]any{series(api.MetricNodeCertificate+on+`,file="f",serial="1",subject="s"}`, "500000x400")}, 60},
		"WindowsJoinsFailing":               {[]any{series(api.MetricJoins+`{result="failed",reason="JoinFailed"}`, "0+1x200")}, 25},
		"WindowsCertificateRequestsRefused": {[]any{series(api.MetricCertificateDecisions+`{signer="other",result="refused",rule="x"}`, "0+4x200")}, 20},
		"WindowsNodeServiceCrashLooping":    {[]any{series(api.MetricNodeServiceRestarts+on+`,service="kubelet"}`, "0+1x200")}, 20},
		"WindowsNodeDiskFilling": {[]any{
			series(`windows_logical_disk_free_bytes`+on+`,volume="C:"}`, "19e9-5e7x400"), series(`windows_logical_disk_size_bytes`+on+`,volume="C:"}`, "100e9x400"),
		}, 90},
	}
	var tests []object
	for _, g := range read(t, Alerts) {
		for _, r := range g.Rules {
			c, tested := cases[r.Alert]
			if !tested {
				t.Errorf("alert %s is not tested", r.Alert)
				continue
			}
			firing := func(minute int, want float64) object {
				return object{"expr": `count(ALERTS{alertname="` + r.Alert + `",alertstate="firing"}) or vector(0)`, "eval_time": fmt.Sprintf("%dm", minute),
					"exp_samples": []any{object{"labels": "{}", "value": want}}}
			}
			results := []any{firing(c.minutes, 1)}
			if before := c.minutes - 1; before >= 0 && c.minutes < 25 {
				results = append(results, firing(min(before, 4), 0))
			}
			tests = append(tests, object{"name": r.Alert, "input_series": c.series, "promql_expr_test": results})
		}
	}
	promtool(t, suite([]any{AlertsFile}, tests...))
}

// TestNoAlertFiresForHealthyNodes uses the nodes of the other tests without their problems.
func TestNoAlertFiresForHealthyNodes(t *testing.T) {
	t.Parallel()
	var input []any
	for _, s := range node("0.27") {
		name := s.(object)["series"].(string)
		if !strings.HasPrefix(name, api.MetricInstanceProblem) && !strings.HasPrefix(name, "ALERTS") {
			input = append(input, s)
		}
	}
	promtool(t, suite([]any{AlertsFile}, object{"input_series": input, "promql_expr_test": []any{
		object{"expr": `count(ALERTS{alertstate="firing"}) or vector(0)`, "eval_time": "55m", "exp_samples": []any{object{"labels": "{}", "value": 0}}},
	}}))
}
