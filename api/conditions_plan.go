package api

// Reasons why an action waits, in status.plan.waitsFor. ReasonPaused is also one of them, as is ReasonNodeNotReady for a
// node that has not been Ready for a while, but not for long enough to count as broken.
const (
	// ReasonBudget means that as many Windows nodes are out of service as rollout.maxUnavailable allows.
	ReasonBudget = "Budget"
	// ReasonFleetSilent means that more Windows nodes than rollout.maxUnavailable allows are silent (condition Ready is
	// Unknown). The cause is probably between the nodes and the API server, so no action starts.
	ReasonFleetSilent = "FleetSilent"
	// ReasonMaintenanceWindow means that no maintenance window is open.
	ReasonMaintenanceWindow = "MaintenanceWindow"
	// ReasonCanary means that the canary nodes have not run the version for long enough.
	ReasonCanary = "Canary"
	// ReasonUpdateRing means that an earlier ring has not worked with the Windows updates for long enough, or that the node
	// is not in exactly one ring.
	ReasonUpdateRing = "UpdateRing"
	// ReasonUpdateDeferred means that the ring of the node defers the Windows updates.
	ReasonUpdateDeferred = "UpdateDeferred"
	// ReasonUpdateNotKept means that Windows offers updates again that were installed.
	ReasonUpdateNotKept = "UpdateNotKept"
	// ReasonRolloutStopped means that the version or the updates failed on another host.
	ReasonRolloutStopped = "RolloutStopped"
	// ReasonReplaced means that spec.replaceWith names another host, so that this one does not join.
	ReasonReplaced = "Replaced"
	// ReasonReplacementNotReady means that the host that spec.replaceWith names cannot take over yet.
	ReasonReplacementNotReady = "ReplacementNotReady"
	// ReasonUpgradeCooldown means that the node has just been upgraded, and its daemon may still roll back.
	ReasonUpgradeCooldown = "UpgradeCooldown"
	// ReasonVersionSkewUnsupported means that the operator has no kubelet for the versions of the API servers: its oldest is
	// newer than one of them, its newest is more than three minor versions older than all of them, their major version
	// differs, or none of them reports its version.
	ReasonVersionSkewUnsupported = "VersionSkewUnsupported"
	// ReasonUnpublished means that ConfigMap windows-services-<version> does not exist yet. The operator writes it when
	// it starts.
	ReasonUnpublished = "Unpublished"
	// ReasonFailed means that the action failed on this host; status.failure contains the error.
	ReasonFailed = "Failed"
)
