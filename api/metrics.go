package api

// Metrics of the operator, served over HTTPS to whoever may get /metrics.
const (
	// MetricJoinStepSeconds is a histogram of the seconds each step of a join took, by step.
	MetricJoinStepSeconds = "wmco_join_step_duration_seconds"
	// MetricJoins counts attempts at a join that ended, by result (configured, waiting, failed) and reason.
	MetricJoins = "wmco_joins_total"
	// MetricJoinChannels is a histogram of the SSH channels opened in one attempt at a join.
	MetricJoinChannels = "wmco_join_ssh_channels"
	// MetricJoinBytes is a histogram of the bytes on the wire in one attempt at a join, by direction.
	MetricJoinBytes = "wmco_join_bytes"
	// MetricInstances is the number of WindowsInstances by condition, status and reason.
	MetricInstances = "wmco_instances"
	// MetricOrphanNodes is the number of Windows nodes without a WindowsInstance.
	MetricOrphanNodes = "wmco_orphan_nodes"
)
