// Package metrics describes the metrics of the operator and of the daemon on nodes: kind, help and labels of each. The programs that emit them,
// docs/metrics.md, the rules and the dashboards all use these descriptions. It does no I/O.
package metrics

import (
	"slices"

	"github.com/windows-machine-config/wmco/api"
)

// Kind is the type of a metric in Prometheus' text format.
type Kind string

// Kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is a metric as users see it.
type Metric struct {
	Name string
	Kind Kind
	// Help is one sentence, without the labels.
	Help   string
	Labels []Label
}

// Label is a label of a metric.
type Label struct {
	Name string
	// Values describes the possible values, and so their number.
	Values string
}

// LabelNames returns the names of the labels, in order.
func (m Metric) LabelNames() []string {
	var names []string
	for _, l := range m.Labels {
		names = append(names, l.Name)
	}
	return names
}

// Of returns the metric with a name. It panics for an unknown name: such a metric must not be emitted.
func Of(name string) Metric {
	all := slices.Concat(Operator(), Node())
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return all[i]
	}
	panic("metric " + name + " is not in internal/shared/metrics")
}

const (
	reasons  = "one of [these](reference/reasons.md)"
	instance = "name of the WindowsInstance"
	action   = "`Join`, `Stage`, `Upgrade`, `Repair`, `Reboot`, `Patch`, `Replace`, `Leave`"
)

// Operator returns the metrics of the operator.
func Operator() []Metric {
	return append([]Metric{
		{api.MetricBuildInfo, Gauge, "Always 1; the labels identify the running operator.", []Label{{"version", "of the operator"}, {"payload", "first twelve digits of the payload's digest"}}},
		{
			api.MetricInstances, Gauge, "Number of WindowsInstances by condition, its status and its reason.",
			[]Label{{"condition", "a condition of WindowsInstances"}, {"status", "`True`, `False`, `Unknown`"}, {"reason", reasons}},
		},
		{
			api.MetricInstanceProblem, Gauge, "1 for each condition of a WindowsInstance that reports a problem or something unfinished; absent otherwise.",
			[]Label{
				{"windowsinstance", instance}, {"node", "name of its Node; empty before the host has joined"},
				{"condition", "`Ready`, `Reachable`, `Stalled`, `Draining`, `RebootRequired`, `WindowsUnsupported`, `SandboxImage`"}, {"reason", reasons},
			},
		},
		{
			api.MetricActionFailed, Gauge, "1 while the last action on a host has failed and is not retried; absent otherwise.",
			[]Label{{"windowsinstance", instance}, {"node", "name of its Node"}, {"action", action}},
		},
		{
			api.MetricActionSeconds, Histogram, "Duration of actions on nodes after the join, from drain to verification, in seconds.",
			[]Label{{"action", action}, {"result", "`done`, `failed`"}},
		},
		{
			api.MetricRolloutWaiting, Gauge, "Number of hosts whose next action waits, by action and reason.",
			[]Label{{"action", action}, {"reason", "a reason of `status.plan.waitsFor`"}},
		},
		{api.MetricOrphanNodes, Gauge, "Number of Windows nodes without a WindowsInstance.", nil},
		{api.MetricSettingsLag, Gauge, "Seconds since settings were published that the node has not applied; absent for nodes that are up to date.", []Label{{"node", "name of the Node"}}},
		{
			api.MetricSupportEnd, Gauge, "When support with security fixes ends for software on a node, in seconds since 1970. On OpenShift, the end for OpenShift replaces that for Kubernetes.",
			[]Label{{"node", "name of the Node"}, {"product", "`Kubernetes`, `OpenShift`, `containerd`, `Windows Server`"}, {"line", "the release line, as in `1.36` or `2022`"}},
		},
		{
			api.MetricJoins, Counter, "Completed join attempts.",
			[]Label{{"result", "`configured`, `waiting`, `failed`"}, {"reason", reasons}},
		},
		{
			api.MetricJoinStepSeconds, Histogram, "Duration of each step of a join, in seconds.",
			[]Label{{"step", "`Connect`, `Inspect`, `Check`, `Transfer`, `Configure`, `Register`, `Ready`"}},
		},
		{api.MetricJoinChannels, Histogram, "SSH channels opened in one join attempt.", nil},
		{api.MetricJoinBytes, Histogram, "Bytes on the wire in one join attempt.", []Label{{"direction", "`sent`, `received`"}}},
		{
			api.MetricSSHConnections, Counter, "Attempts to connect to hosts by SSH.",
			[]Label{{"result", "`Connected`, or a reason of condition `Reachable`; `Other` for anything else"}},
		},
		{
			api.MetricPodsNotStarted, Gauge, "Number of pods for Windows that do not start, by the reason that the operator reports.",
			[]Label{{"reason", "a reason of annotation `does-not-start` ([workloads.md](workloads.md#why-a-pod-does-not-start))"}},
		},
		{
			api.MetricObjectsCut, Counter, "Objects that the operator does not keep in memory because the share of their namespace or requester is used up ([security.md](security.md)).",
			[]Label{{"kind", "`Pod`, `CertificateSigningRequest`"}},
		},
		{
			api.MetricCertificateDecisions, Counter, "Decisions about certificate requests of hosts. A refused request is decided again every 15 seconds.",
			[]Label{{"signer", "one of the three signers of `deploy/rbac-operator.yaml`, or `other`"}, {"result", "`approved`, `refused`"}, {"rule", "the rule that a refused request breaks; empty for approved ones"}},
		},
	}, policies()...)
}

// policies returns the metrics of NetworkPolicies.
func policies() []Metric {
	return []Metric{
		{api.MetricNetworkPolicies, Gauge, "Number of NetworkPolicies that were compiled for Windows nodes; 0 while `spec.network.policies` is `Off`.", nil},
		{api.MetricPolicySets, Gauge, "Number of WindowsPolicySets: one for each namespace with NetworkPolicies.", nil},
		{
			api.MetricPolicyProblems, Gauge, "Number of NetworkPolicies that only partly take effect on Windows nodes.",
			[]Label{{"reason", "`Invalid`, `AddressFamily`, `TooLarge`"}},
		},
		{api.MetricPolicyProblemNamespaces, Gauge, "Number of namespaces with pods on Windows nodes in which a part of a NetworkPolicy has no effect there.", nil},
		{api.MetricPolicyCompileSeconds, Histogram, "Duration of compiling all NetworkPolicies for Windows nodes, in seconds.", nil},
	}
}

// Node returns the metrics of the daemon on nodes.
func Node() []Metric {
	return []Metric{
		{api.MetricNodeBuildInfo, Gauge, "Always 1; the label is the version of the node.", []Label{{"version", "of the node, as in annotation `version`"}}},
		{api.MetricNodeSettingsApplied, Gauge, "When the node's settings were applied, in seconds since 1970.", nil},
		{
			api.MetricNodeCertificate, Gauge, "When a certificate on this node expires, in seconds since 1970.",
			[]Label{{"file", "path of the file, or `LocalMachine\\Root`"}, {"serial", "of the certificate"}, {"subject", "of the certificate"}},
		},
		{
			api.MetricNodeCertificateLifetime, Gauge, "Lifetime of a certificate that the node renews itself, in seconds.",
			[]Label{{"file", "path of the file"}, {"serial", "of the certificate"}},
		},
		{
			api.MetricNodeServiceRestarts, Counter, "Number of times a service exited or had to be repaired, since the daemon started or its settings changed.",
			[]Label{{"service", "a service of the node, without WICD's own"}},
		},
		{api.MetricNodeRebootPending, Gauge, "1 while Windows has a restart pending.", nil},
		{
			api.MetricNodeUpdatesPending, Gauge, "Number of Windows updates that are not installed, as of the last search; at most 200 are counted.",
			[]Label{{"class", "`security`, `critical`, `definition`, `other`"}},
		},
		{api.MetricNodeUpdateInstalled, Gauge, "When the newest update of Windows was installed, in seconds since 1970. Definitions of Microsoft Defender do not count.", nil},
		{api.MetricNodeUpdateSearched, Gauge, "When Windows last searched for updates successfully, in seconds since 1970.", nil},
		{api.MetricNodeUpdatesOverdue, Gauge, "1 while condition WindowsUpdatesOverdue of the Node is True.", nil},
		{api.MetricNodeNetworkUnavailable, Gauge, "1 while the pod network does not work.", nil},
		{api.MetricNodeNetworkRepairs, Counter, "Number of times the pod network was repaired, since the daemon started or its settings changed.", nil},
		{
			api.MetricNodeProblem, Gauge, "1 while Windows has this problem.",
			[]Label{{"condition", "of the Node: `WindowsHostComputeUnavailable`, `WindowsCommitPressure`, `WindowsClockSkewed`, `WindowsDefenderInterference`, `WindowsUpdateNeeded`, `WindowsNetworkPoliciesNotApplied`"}},
		},
		{
			api.MetricNodeRegistryRequests, Counter, "Requests to the registry on loopback, which serves containerd from mirrors, since the daemon started.",
			[]Label{{"result", "`served`, `not_found`, `denied`, `failed`, `unauthorized`"}},
		},
		{api.MetricNodePolicyEndpoints, Gauge, "Number of pods whose endpoints have rules of NetworkPolicies; with `spec.network.policies: Report`, those that would have.", nil},
		{api.MetricNodePolicyACLs, Gauge, "Number of rules (ACLs) of these endpoints.", nil},
		{api.MetricNodePolicyFailures, Counter, "Failed writes of rules of NetworkPolicies, since the daemon started or its settings changed.", nil},
		{api.MetricNodePolicyEffect, Histogram, "Time from the arrival of changed NetworkPolicies on the node until they are in force, in seconds.", nil},
	}
}
