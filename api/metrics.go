package api

// Metrics of the operator. They are served over HTTPS to clients that are authorized to get /metrics. docs/metrics.md
// has their labels.
const (
	// MetricBuildInfo is 1, with the version of the operator and of its payload as labels.
	MetricBuildInfo = "wmco_build_info"
	// MetricJoinStepSeconds is a histogram of the duration of each step of a join, in seconds, by step.
	MetricJoinStepSeconds = "wmco_join_step_duration_seconds"
	// MetricJoins counts completed join attempts, by result (configured, waiting, failed) and reason.
	MetricJoins = "wmco_joins_total"
	// MetricJoinChannels is a histogram of the SSH channels opened in one join attempt.
	MetricJoinChannels = "wmco_join_ssh_channels"
	// MetricJoinBytes is a histogram of the bytes on the wire in one join attempt, by direction.
	MetricJoinBytes = "wmco_join_bytes"
	// MetricSSHConnections counts attempts to connect to hosts, by result.
	MetricSSHConnections = "wmco_ssh_connections_total"
	// MetricInstances is the number of WindowsInstances, by condition, status and reason.
	MetricInstances = "wmco_instances"
	// MetricInstanceProblem is 1 for each condition of a WindowsInstance that reports a problem.
	MetricInstanceProblem = "wmco_instance_problem"
	// MetricActionFailed is 1 while the last action on a host has failed, by action.
	MetricActionFailed = "wmco_instance_action_failed"
	// MetricActionSeconds is a histogram of the duration of actions on nodes, in seconds, by action and result.
	MetricActionSeconds = "wmco_node_action_duration_seconds"
	// MetricRolloutWaiting is the number of hosts whose next action waits, by action and reason.
	MetricRolloutWaiting = "wmco_rollout_waiting"
	// MetricOrphanNodes is the number of Windows nodes without a WindowsInstance.
	MetricOrphanNodes = "wmco_orphan_nodes"
	// MetricSettingsLag is the time in seconds since settings were published that a node has not applied yet.
	MetricSettingsLag = "wmco_settings_lag_seconds"
	// MetricSupportEnd is when support for a product on a node ends, in seconds since 1970, by node and product.
	MetricSupportEnd = "wmco_node_support_end_timestamp_seconds"
	// MetricCertificateDecisions counts decisions about certificate requests of hosts, by signer, result and rule.
	MetricCertificateDecisions = "wmco_csr_decisions_total"
	// MetricObjectsCut is the number of objects that are not kept in memory because they are too many or too large, by
	// kind.
	MetricObjectsCut = "wmco_objects_cut_total"
	// MetricPodsNotStarted is the number of pods for Windows that do not start, by reason.
	MetricPodsNotStarted = "wmco_pods_not_started"
	// MetricNetworkPolicies is the number of NetworkPolicies that were compiled for Windows nodes.
	MetricNetworkPolicies = "wmco_network_policies"
	// MetricPolicySets is the number of WindowsPolicySets, one for each namespace with NetworkPolicies.
	MetricPolicySets = "wmco_policy_sets"
	// MetricPolicyProblems is the number of NetworkPolicies that only partly take effect on Windows nodes, by reason.
	MetricPolicyProblems = "wmco_policy_problems"
	// MetricPolicyProblemNamespaces is the number of namespaces with pods on Windows nodes whose NetworkPolicies have such a
	// problem.
	MetricPolicyProblemNamespaces = "wmco_policy_problem_namespaces"
	// MetricPolicyCompileSeconds is a histogram of the time that compiling all NetworkPolicies takes, in seconds.
	MetricPolicyCompileSeconds = "wmco_policy_compile_duration_seconds"
)

// Metrics of the daemon on each node (WICD). windows_exporter serves them with its own, on port 9182 of the node.
const (
	// MetricNodeBuildInfo is 1, with the version of the node as its label.
	MetricNodeBuildInfo = "wicd_build_info"
	// MetricNodeSettingsApplied is when the node's settings were applied, in seconds since 1970.
	MetricNodeSettingsApplied = "wicd_settings_applied_timestamp_seconds"
	// MetricNodeCertificate is when a certificate on the node expires, in seconds since 1970.
	MetricNodeCertificate = "wicd_certificate_expiration_timestamp_seconds"
	// MetricNodeCertificateLifetime is the lifetime in seconds of a certificate that the node renews itself.
	MetricNodeCertificateLifetime = "wicd_certificate_lifetime_seconds"
	// MetricNodeServiceRestarts counts how often a service ended or had to be repaired, by service.
	MetricNodeServiceRestarts = "wicd_service_restarts_total"
	// MetricNodeRebootPending is 1 while Windows has a restart pending.
	MetricNodeRebootPending = "wicd_reboot_pending"
	// MetricNodeUpdatesPending is the number of Windows updates that are not installed, by class.
	MetricNodeUpdatesPending = "wicd_windows_updates_pending"
	// MetricNodeUpdateInstalled is when the newest update of Windows was installed, in seconds since 1970.
	MetricNodeUpdateInstalled = "wicd_windows_update_installed_timestamp_seconds"
	// MetricNodeUpdateSearched is when Windows last searched for updates successfully, in seconds since 1970.
	MetricNodeUpdateSearched = "wicd_windows_update_searched_timestamp_seconds"
	// MetricNodeUpdatesOverdue is 1 while condition WindowsUpdatesOverdue is True.
	MetricNodeUpdatesOverdue = "wicd_windows_updates_overdue"
	// MetricNodeNetworkUnavailable is 1 while the pod network does not work.
	MetricNodeNetworkUnavailable = "wicd_network_unavailable"
	// MetricNodeNetworkRepairs counts repairs of the pod network.
	MetricNodeNetworkRepairs = "wicd_network_repairs_total"
	// MetricNodeProblem is 1 while a problem of Windows lasts, by the condition that reports it on the Node.
	MetricNodeProblem = "wicd_node_problem"
	// MetricNodeRegistryRequests counts requests to the registry on loopback, by result.
	MetricNodeRegistryRequests = "wicd_registry_requests_total"
	// MetricNodePolicyEndpoints is the number of pods whose endpoints have rules of NetworkPolicies.
	MetricNodePolicyEndpoints = "wicd_network_policy_endpoints"
	// MetricNodePolicyACLs is the number of these rules.
	MetricNodePolicyACLs = "wicd_network_policy_acls"
	// MetricNodePolicyFailures counts failed writes of such rules.
	MetricNodePolicyFailures = "wicd_network_policy_write_failures_total"
	// MetricNodePolicyEffect is a histogram of the time from the arrival of policies on the node until they are in force,
	// in seconds.
	MetricNodePolicyEffect = "wicd_network_policy_effect_seconds"
)
