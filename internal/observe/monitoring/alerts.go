package monitoring

import (
	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
)

// Severities, as on OpenShift.
const (
	critical = "critical"
	warning  = "warning"
	info     = "info"
)

// problem returns a selector for WindowsInstances with a problem.
func problem(condition, reasons string) string {
	selector := `condition="` + condition + `"`
	if reasons != "" {
		selector += `,reason=~"` + reasons + `"`
	}
	return api.MetricInstanceProblem + `{` + selector + `}`
}

// normal are the reasons of Ready while a host makes progress or is held on purpose.
const normal = api.ReasonPaused + "|" + api.ReasonWaitingForSlot + "|" + api.ReasonAdoptionPending

// alert is an alert in short form: after is how long its expression must have a result; description explains the effect.
type alert struct{ name, severity, after, expr, summary, description string }

func alerts(group string, all []alert) Group {
	g := Group{Name: group}
	for _, a := range all {
		g.Rules = append(g.Rules, Rule{
			Alert: a.name, Expr: a.expr, For: a.after, Labels: map[string]string{"severity": a.severity},
			Annotations: map[string]string{"summary": a.summary, "description": a.description, "runbook_url": advice.URL("runbooks/" + a.name)},
		})
	}
	return g
}

// Alerts returns all alerts.
func Alerts() []Group {
	return []Group{operatorAlerts(), rolloutAlerts(), nodeAlerts()}
}

func operatorAlerts() Group {
	return alerts("windows-operator.alerts", []alert{
		{
			"WindowsMachineConfigOperatorDown", critical, "10m", `absent(up{job="` + JobOperator + `"} == 1)`,
			"The Windows Machine Config Operator is not running.",
			"Prometheus cannot scrape the operator. Windows nodes keep running, but no host joins, no node is updated, and certificate requests of nodes are not approved.",
		},
		{
			"WindowsInstanceStalled", warning, "5m", problem(api.ConditionStalled, ""),
			"A Windows host needs an administrator.",
			"WindowsInstance {{ $labels.windowsinstance }} has condition Stalled with reason {{ $labels.reason }}. The operator does not retry until you act.",
		},
		{
			"WindowsInstanceUnreachable", warning, "15m",
			problem(api.ConditionReachable, api.ReasonAuthenticationFailed+"|"+api.ReasonConnectionRefused+"|"+api.ReasonConnectionTimeout+"|"+api.ReasonNoRoute+"|"+
				api.ReasonNotSSH+"|"+api.ReasonAddressUnresolvable+"|"+api.ReasonAddressInvalid+"|"+api.ReasonHostKeyUnknown+"|"+api.ReasonHostKeyUnsuitable),
			"The operator cannot log in to a Windows host.",
			"The host of WindowsInstance {{ $labels.windowsinstance }} cannot be reached by SSH: {{ $labels.reason }}. Its node, if any, keeps running but cannot be repaired.",
		},
		{
			"WindowsInstanceNotReady", warning, "15m", api.MetricInstanceProblem + `{condition="Ready",reason!~"` + normal + `"}`,
			"A Windows host is not a Ready node.",
			"WindowsInstance {{ $labels.windowsinstance }} has not been Ready for 15 minutes: {{ $labels.reason }}.",
		},
		{
			"WindowsHostKeyChanged", critical, "", problem(api.ConditionReachable, api.ReasonHostKeyChanged),
			"The SSH host key of a Windows host has changed.",
			"The host of WindowsInstance {{ $labels.windowsinstance }} presents a different host key than before: the host was reinstalled, another machine has its address, or the connection is being intercepted. The operator sends it nothing.",
		},
		{
			"WindowsJoinsFailing", warning, "15m",
			`sum(increase(` + api.MetricJoins + `{result="failed"}[15m])) > 2 unless sum(increase(` + api.MetricJoins + `{result="configured"}[15m])) > 0`,
			"Windows hosts fail to join the cluster.",
			"{{ $value | humanize }} join attempts failed within 15 minutes, and none succeeded.",
		},
	})
}

func rolloutAlerts() Group {
	return alerts("windows-rollout.alerts", []alert{
		{
			"WindowsRolloutStopped", warning, "5m", `sum by (job, action) (` + api.MetricRolloutWaiting + `{reason="` + api.ReasonRolloutStopped + `"}) > 0`,
			"The rollout of a version to Windows nodes has stopped.",
			"{{ $value }} Windows hosts wait because the version failed on another one. No further node gets it.",
		},
		{
			"WindowsFleetSilent", warning, "5m", `sum by (job, action) (` + api.MetricRolloutWaiting + `{reason="` + api.ReasonFleetSilent + `"}) > 0`,
			"Many Windows nodes stopped reporting to the API server at once.",
			"{{ $value }} Windows hosts wait because more nodes stopped reporting than may be out of service. Their pods may still be running: the likely cause is between the nodes and the API server. The operator starts no actions.",
		},
		{
			"WindowsDrainBlocked", warning, "30m", problem(api.ConditionDraining, api.ReasonDrainBlocked+"|"+api.ReasonDrainTimeout+"|"+api.ReasonPodStuck),
			"Pods do not leave a Windows node that is being drained.",
			"Node {{ $labels.node }} is being drained, and pods do not leave it: {{ $labels.reason }}. The rollout waits for it.",
		},
		{
			"WindowsUpdateFailed", warning, "", api.MetricActionFailed + `{action!="` + "Join" + `"}`,
			"An action on a Windows node has failed.",
			"{{ $labels.action }} of WindowsInstance {{ $labels.windowsinstance }} has failed and is not retried. After a failed upgrade, the node runs its former version.",
		},
		{
			"WindowsPodImageMismatch", warning, "15m", `sum by (job) (` + api.MetricPodsNotStarted + `{reason="` + api.EventImageForAnotherBuild + `"}) > 0`,
			"Images of pods are built for a different Windows version than their nodes have.",
			"{{ $value }} pods do not start because their image does not support the Windows build of the node. An event of each pod lists the builds that the image supports.",
		},
		{
			"WindowsSettingsNotArrived", warning, "1m", api.MetricSettingsLag + ` > 900`,
			"A Windows node has not applied new settings.",
			"Node {{ $labels.node }} has not applied the settings that were published {{ $value | humanizeDuration }} ago.",
		},
		{
			"WindowsEndOfSupport", warning, "1h", `max by (job, product, line, node) (` + api.MetricSupportEnd + `) < time()`,
			"A Windows node runs software that no longer gets security fixes.",
			"{{ $labels.product }} {{ $labels.line }} of node {{ $labels.node }} no longer gets security fixes. The node keeps working.",
		},
		{
			"WindowsCertificateRequestsRefused", warning, "15m", `sum by (job, signer, rule) (increase(` + api.MetricCertificateDecisions + `{result="refused"}[15m])) > 0`,
			"The operator refuses certificate requests of Windows hosts.",
			"Requests for signer {{ $labels.signer }} break rule {{ $labels.rule }}. A node without a certificate cannot join, or drops out when its certificate expires.",
		},
	})
}

// nodeAlerts: kubelets renew a certificate after 70 to 90 % of its lifetime (k8s.io/client-go/util/certificate), WICD earlier.
func nodeAlerts() Group {
	const left = api.MetricNodeCertificate + ` - time()`
	return alerts("windows-node.alerts", []alert{
		{
			"WindowsExporterDown", warning, "15m", `up{job="` + JobExporter + `"} == 0`,
			"The metrics of a Windows node are missing.",
			"Prometheus cannot scrape windows_exporter on node {{ $labels.instance }}. Its alerts and graphs are missing.",
		},
		{
			"WindowsNodeNetworkUnavailable", critical, "5m", api.MetricNodeNetworkUnavailable + ` == 1`,
			"The pod network of a Windows node does not work.",
			"Pods on node {{ $labels.instance }} have no network, and the daemon has not been able to repair it.",
		},
		{
			"WindowsNodeServiceCrashLooping", warning, "5m", `increase(` + api.MetricNodeServiceRestarts + `[15m]) > 3`,
			"A service of a Windows node keeps failing.",
			"Service {{ $labels.service }} on node {{ $labels.instance }} ended {{ $value | humanize }} times within 15 minutes.",
		},
		{
			"WindowsNodeCertificateExpiring", warning, "15m",
			`(` + left + `) < on (instance, file, serial) group_left () (0.09 * ` + api.MetricNodeCertificateLifetime + `)`,
			"A Windows node does not renew a certificate.",
			"The certificate in {{ $labels.file }} on node {{ $labels.instance }} expires in {{ $value | humanizeDuration }} and should have been renewed.",
		},
		{
			"WindowsNodeCertificateExpired", critical, "5m", `(` + left + `) < on (instance, file, serial) group_left () (0.04 * ` + api.MetricNodeCertificateLifetime + `)`,
			"A certificate of a Windows node is about to expire.",
			"The certificate in {{ $labels.file }} on node {{ $labels.instance }} expires in {{ $value | humanizeDuration }}; then the node drops out.",
		},
		{
			"WindowsTrustedCertificateExpiring", warning, "1h", `min by (file, serial, subject) (` + left + `) < 7 * 24 * 3600 unless on (file, serial) ` + api.MetricNodeCertificateLifetime,
			"A CA certificate on Windows nodes expires.",
			"Certificate {{ $labels.subject }} in {{ $labels.file }} expires in {{ $value | humanizeDuration }}.",
		},
		{
			"WindowsNodeRebootPending", info, "24h", api.MetricNodeRebootPending + ` == 1`,
			"A Windows node waits for a restart.",
			"Windows on node {{ $labels.instance }} has had a restart pending for a day, for example for an update.",
		},
		{
			"WindowsNodeProblem", warning, "10m", api.MetricNodeProblem + ` == 1`,
			"Windows on a node has a persistent problem.",
			"Node {{ $labels.instance }} has condition {{ $labels.condition }}. Its message says what is wrong.",
		},
		{
			"WindowsNodeDiskFilling", warning, "1h",
			`windows_logical_disk_free_bytes` + disks + ` / windows_logical_disk_size_bytes` + disks + ` < 0.2 and predict_linear(windows_logical_disk_free_bytes` + disks + `[6h], 24 * 3600) < 0`,
			"The disk of a Windows node will be full within a day.",
			"Volume {{ $labels.volume }} of node {{ $labels.instance }} has {{ $value | humanizePercentage }} free and fills up.",
		},
		{
			"WindowsMemoryPressure", warning, "15m",
			`max by (instance) (` + available + `) / max by (instance) ` + memoryTotal + ` < 0.1`,
			"A Windows node has little memory left.",
			"Node {{ $labels.instance }} has {{ $value | humanizePercentage }} of its memory left. Windows has no OOM killer: when the commit limit is reached, processes fail to allocate.",
		},
	})
}
