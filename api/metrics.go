package api

// Metrics of the operator. They are served over HTTPS to clients that are authorized to get /metrics.
const (
	// MetricJoinStepSeconds is a histogram of the duration of each step of a join, in seconds, by step.
	MetricJoinStepSeconds = "wmco_join_step_duration_seconds"
	// MetricJoins counts completed join attempts, by result (configured, waiting, failed) and reason.
	MetricJoins = "wmco_joins_total"
	// MetricJoinChannels is a histogram of the SSH channels opened in one join attempt.
	MetricJoinChannels = "wmco_join_ssh_channels"
	// MetricJoinBytes is a histogram of the bytes on the wire in one join attempt, by direction.
	MetricJoinBytes = "wmco_join_bytes"
	// MetricInstances is the number of WindowsInstances, by condition, status and reason.
	MetricInstances = "wmco_instances"
	// MetricOrphanNodes is the number of Windows nodes without a WindowsInstance.
	MetricOrphanNodes = "wmco_orphan_nodes"
)
