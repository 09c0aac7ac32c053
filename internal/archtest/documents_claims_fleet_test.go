package archtest

// claimsOfFleet returns the claims about joins, rollouts, drains and repairs.
func claimsOfFleet() []claim {
	const (
		broken   = "internal/shared/nodestate/nodestate.go"
		next     = "internal/operator/join/next.go"
		drain    = "internal/operator/drain/drain.go"
		instance = "internal/operator/controllers/instance/maintenance.go"
		settle   = "internal/operator/controllers/instance/settle.go"
		token    = "internal/operator/controllers/instance/join.go"
		keys     = "internal/operator/controllers/fleet/policy.go"
		orphans  = "internal/operator/controllers/fleet/orphans.go"
		servers  = "internal/operator/controllers/clusterversion/servers.go"
		releases = "internal/operator/controllers/clusterversion/releases.go"
		update   = "internal/node/daemon/update/updater.go"
		setup    = "internal/node/daemon/configure/unfinished.go"
		windows  = "internal/node/daemon/configure/windows.go"
		sandbox  = "internal/node/daemon/images/sandbox.go"
		prepull  = "internal/node/daemon/images/prepull.go"
		pull     = "internal/node/daemon/images/pull.go"
		slow     = "internal/shared/wicdapi/slow.go"
		rollout  = "api/v1alpha1/windowsconfig_rollout.go"
		canary   = "internal/operator/rollout/canary.go"
	)
	return []claim{
		{"docs/fleet.md", `An action has up to (\w+) steps`, "api/v1alpha1/windowsinstance_maintenance.go", `MaintenanceStep = "`},
		{"docs/fleet.md", `more than (\w+) minor versions older than all`, "internal/operator/kubeversions/kubeversions.go", "olderMinors"},
		{"RELEASE.md", `more than (\w+) minor versions older`, "internal/operator/kubeversions/kubeversions.go", "olderMinors"},
		{"docs/fleet.md", `or a number; ([0-9]+) by default`, rollout, defaultOf("MaxUnavailable")},
		{"docs/fleet.md", `drain.timeout.*?\(([0-9a-z]+) by default\)`, rollout, defaultOf("Timeout")},
		{"docs/fleet.md", `stagingBandwidth.*?\(([0-9A-Za-z]+) per second by default\)`, rollout, defaultOf("StagingBandwidth")},
		{"docs/fleet.md", "- `([A-Za-z]+)`, the default: the operator keeps evicting", rollout, defaultOf("OnTimeout")},
		{"docs/fleet.md", "`([A-Za-z]+)` \\(default\\)", rollout, defaultOf("Machines")},

		{"docs/windows-generations.md", `a node that has worked for (\w+ minutes)`, "internal/operator/rollout/replace.go", "ReplacementSoak"},
		{"docs/windows-generations.md", `nodes that have worked for (\w+ minutes)`, "internal/operator/rollout/replace.go", "ReplacementSoak"},
		{"api/v1alpha1/windowsinstance.go", `has worked as a node for (\w+ minutes)`, "internal/operator/rollout/replace.go", "ReplacementSoak"},
		{"docs/fleet.md", `when it has not been Ready for (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/fleet.md", `waits for nothing but the (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/fleet.md", `or without a Node, for (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/fleet.md", `not been Ready for less than (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/fleet.md", `not reported to the API server for (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/fleet.md", `not applied the settings for (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/fleet.md", `reported nothing for (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/fleet.md", `The operator waits (\w+ minutes) for the result`, broken, "BrokenAfter"},
		{"docs/fleet.md", `is not Ready (\w+ minutes) after a change`, broken, "BrokenAfter"},
		{"docs/cloud.md", `joined again, about (\w+ minutes) later`, broken, "BrokenAfter"},
		{"docs/limitations.md", `Node has been silent for (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/limitations.md", `joins the host again after (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/limitations.md", `or missing for (a minute)`, next, "NodeMissingTimeout"},
		{"docs/limitations.md", `a changed setting for (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/network.md", `follow about (\w+ minutes) after the change`, broken, "BrokenAfter"},
		{"docs/settings.md", `joined again over SSH (\w+ minutes) later`, broken, "BrokenAfter"},
		{"docs/troubleshooting.md", `joins the node again after (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/troubleshooting.md", `has not applied them for (\w+ minutes)`, broken, "BrokenAfter"},
		{"docs/troubleshooting.md", `joins the host again (\w+ minutes) after a change`, broken, "BrokenAfter"},
		{"docs/fleet.md", `its Node has been missing for (\w+ minute)`, next, "NodeMissingTimeout"},
		{"docs/fleet.md", `when the Node has been missing for (a minute)`, next, "NodeMissingTimeout"},
		{"docs/troubleshooting.md", `the host joins again (a minute) later`, next, "NodeMissingTimeout"},
		{"docs/troubleshooting.md", `joins again, (\w+ minutes) after its last join`, next, "RegisterTimeout"},
		{"docs/troubleshooting.md", `the host joins within (\w+ minutes)`, next, "rebootFailedRetry"},
		{"docs/troubleshooting.md", `tries again every (\w+ minutes)`, next, "blockedRetry"},
		{"docs/fleet.md", `at most (\w+) times. A node with another version`, next, "MaxRepairs"},
		{"docs/fleet.md", `whose node was repaired (\w+) times`, next, "MaxRepairs"},
		{"docs/troubleshooting.md", `after it was joined again (\w+) times`, next, "MaxRepairs"},
		{"docs/cloud.md", `After (\w+ minutes) the reason is`, "internal/operator/join/cloud.go", "CloudTimeout"},
		{"docs/troubleshooting.md", `The same, for more than (\w+ minutes)`, "internal/operator/join/cloud.go", "CloudTimeout"},

		{"docs/fleet.md", `services failed within (\w+ minutes)`, canary, "defaultSoak"},
		{"docs/fleet.md", `have not worked for (\w+ minutes) since`, canary, "defaultSoak"},
		{"docs/fleet.md", `but at most (\w+ minutes), even if`, "internal/operator/rollout/read.go", "defaultSettle"},
		{"docs/fleet.md", `the (\w+ minutes) always count`, "internal/operator/rollout/read.go", "defaultSettle"},
		{"docs/fleet.md", `pods in more than (\w+) namespaces`, settle, "maxSettled"},
		{"docs/fleet.md", `terminated more than (a minute) ago`, drain, "stuckAfter"},
		{"docs/fleet.md", `missing content to all nodes, (\w+) at a time`, "internal/operator/controllers/instance/stage.go", "stagingHosts"},
		{"docs/fleet.md", `does not work within (\w+ minutes)`, update, "updateTimeout"},
		{"docs/troubleshooting.md", `did not work within (\w+ minutes)`, update, "updateTimeout"},
		{"docs/fleet.md", `does not pass within (\w+ minutes)`, instance, "verifyTimeout"},
		{"docs/fleet.md", `not back after (\w+ minutes)`, instance, "verifyTimeout"},
		{"docs/fleet.md", `a restart or an upgrade (\w+ minutes)`, instance, "verifyTimeout"},
		{"docs/fleet.md", `retries for (an hour) after the drain`, instance, "leaveTimeout"},
		{"docs/troubleshooting.md", `released (an hour) after its drain`, instance, "leaveTimeout"},
		{"docs/tasks/remove-hosts.md", `released after (an hour)`, instance, "leaveTimeout"},
		{"docs/fleet.md", `rejected the (?:SSH )?key for (an hour)`, keys, "keyTimeout"},
		{"docs/fleet.md", `and (a day) has passed since the last one`, "internal/operator/controllers/instance/reboot.go", "rebootRemembered"},
		{"docs/fleet.md", `each cause, and at most (\w+)`, windows, "maxRestarts"},
		{"docs/fleet.md", `been an orphan for (\w+ minutes)`, orphans, "orphanAfter"},
		{"docs/fleet.md", `for at most (\w+) Nodes until the operator`, orphans, "maxOrphanEvents"},
		{"docs/fleet.md", `An answer counts for (\w+ minutes)`, servers, "answerLifetime"},
		{"docs/fleet.md", `must have allowed for (\w+ minutes)`, releases, "settled"},
		{"docs/fleet.md", `allow the later version for (\w+ minutes)`, releases, "settled"},
		{"docs/fleet.md", `all API servers every ([0-9]+ seconds)`, releases, "queryInterval"},
		{"docs/fleet.md", `existing nodes wait for the (\w+ minutes)`, releases, "settled"},
		{"docs/glossary.md", `valid for ([0-9]+) minutes`, token, `tokenSeconds = ([0-9]+) \* 60`},
		{"deploy/README.md", `The token, valid for ([0-9]+) minutes`, token, `tokenSeconds = ([0-9]+) \* 60`},

		{"docs/limitations.md", `the setup of Windows for (\w+ minutes)`, setup, "setupWithin"},
		{"docs/prerequisites.md", `waits up to (\w+ minutes) \(.WaitingForWindowsSetup`, setup, "setupWithin"},
		{"docs/troubleshooting.md", `at the latest (\w+ minutes) after the start. If it lasts`, setup, "setupWithin"},
		{"docs/limitations.md", `servicing for ([0-9]+);`, setup, `servicingWithin = ([0-9]+) \* time.Minute`},
		{"docs/troubleshooting.md", `at the latest (\w+ minutes) after the start. \|`, setup, "servicingWithin"},
		{"docs/troubleshooting.md", `did not answer for (\w+ minutes)`, windows, "featureTimeout"},
		{"docs/troubleshooting.md", `or took (\w+) to enable one`, windows, `enableTimeout += ([0-9]+) \* time.Minute`},
		{"docs/troubleshooting.md", `received less than (\w+ MiB)`, slow, "minProgress"},
		{"docs/troubleshooting.md", `MiB in (\w+ minutes)`, slow, "progressTimeout"},
		{"docs/troubleshooting.md", `processed what it had for (\w+ minutes)`, slow, "workTimeout"},
		{"docs/troubleshooting.md", `less than ([0-9]+) bits`, "internal/operator/remote/keys.go", "minRSABits"},
		{"docs/security.md", `RSA with ([0-9,]+) bits`, "internal/operator/remote/keys.go", "minRSABits"},
		{"docs/troubleshooting.md", `certificates are valid for (a day)`, "internal/operator/csr/rules.go", "maxWICDLifetime"},
		{"docs/troubleshooting.md", `pull has taken more than (a minute)`, sandbox, "slowPull"},
		{"docs/troubleshooting.md", `After (\w+ minutes) it is given up`, pull, "pullTimeout"},
		{"docs/settings.md", `no later than (an hour) after the Node`, "internal/operator/join/images.go", "ImagesTimeout"},
		{"docs/settings.md", `begin within (\w+ minutes) of a change`, prepull, "spread"},
		{"docs/settings.md", `tries again after (a minute)`, prepull, "firstRetry"},
		{"docs/settings.md", `A pull may take (\w+ minutes)`, pull, "pullTimeout"},
		{"docs/settings.md", `less than ([0-9]+) % of drive C: are free`, prepull, `minFreePercent = ([0-9]+)`},
		{"docs/settings.md", `pulled again (\w+ hours) later`, prepull, "repullAfter"},
		{"docs/troubleshooting.md", `WICD checks every (\w+ minutes)`, "internal/node/daemon/nodestatus/rebootpending.go", "restartInterval"},
		{"docs/troubleshooting.md", `WICD looks every (\w+ minutes), and`, "internal/node/daemon/configure/drift.go", "settingsInterval"},
		{"docs/troubleshooting.md", `add exclusions once (a day)`, "internal/node/daemon/configure/exclusions_keep.go", "exclusionsInterval"},
		{"docs/security.md", `have no effect, one (a day)`, "internal/node/daemon/configure/exclusions_keep.go", "exclusionsInterval"},
		{"docs/troubleshooting.md", `WICD tries again every (\w+ seconds)`, "internal/node/daemon/registry/server.go", "listenInterval"},
	}
}
