package archtest

// claimsOfLimits returns the claims about what is read, kept and shown, and for how long.
func claimsOfLimits() []claim {
	const (
		agent        = "internal/shared/wicdapi/limits.go"
		informers    = "internal/operator/controllers/informers.go"
		services     = "internal/operator/controllers/source/services.go"
		pods         = "internal/operator/controllers/explain/pods.go"
		names        = "internal/operator/controllers/source/resolver.go"
		archive      = "internal/cli/collect/archive.go"
		stream       = "internal/cli/logs/stream.go"
		collect      = "internal/node/daemon/collect/archive.go"
		gather       = "internal/node/daemon/collect/collect.go"
		bundle       = "internal/shared/supportbundle/bundle.go"
		events       = "internal/node/daemon/eventlog/copy.go"
		csr          = "internal/operator/csr/rules.go"
		drift        = "internal/node/daemon/configure/drift.go"
		problems     = "internal/node/daemon/nodestatus/problems.go"
		steady       = "internal/node/daemon/nodestatus/steady.go"
		kubelet      = "internal/shared/desired/kubelet_settings.go"
		resources    = "internal/shared/desired/kubelet_resources.go"
		scrape       = "deploy/monitoring/prometheus/prometheus.yaml"
		alerts       = "deploy/monitoring/prometheus/windows.alerts.yaml"
		image        = "internal/operator/windowsimage/windowsimage.go"
		blocked      = "internal/operator/join/blocked.go"
		check        = "internal/operator/join/check.go"
		exit         = "internal/cli/session/errors.go"
		settings     = "internal/operator/controllers/settings/controller.go"
		discovery    = "internal/operator/kube/optionalwatch.go"
		admission    = "deploy/admission.yaml"
		updates      = "internal/shared/windowsupdate/report.go"
		overdue      = "internal/shared/windowsupdate/overdue.go"
		installation = "internal/node/daemon/nodestatus/windowsupdates_install.go"
		// How old the newest update and the last search may be.
		maxAge, maxSearchAge = `MaxAge = ([0-9]+) \* day`, `MaxSearchAge = ([0-9]+) \* day`
	)
	return []claim{
		{"docs/security.md", `(?:has at most|Lines of) ([0-9]+ KiB) (?:and|with) 4,096`, agent, "maxLine"},
		{"docs/security.md", `up to ([0-9,]+) addresses`, "internal/operator/controllers/policysets/nodes.go", "maxPodAddresses"},
		{"docs/security.md", `(4,096) values`, agent, "maxValues"},
		{"docs/security.md", `values, ([0-9]+ MiB) in all`, agent, "maxAnswer"},
		{"docs/security.md", `([0-9]+ KiB) are kept`, informers, "maxNode"},
		{"docs/security.md", `the SSH key, ([0-9]+ MiB)`, informers, "maxPrivate"},
		{"docs/security.md", `(?:Of one Node|Of its addresses), (\w+) (?:addresses count|keep)`, "internal/operator/controllers/source/reserved.go", "nodeAddresses"},
		{"docs/security.md", `had up to (\w+ minutes) before`, services, "releaseGrace"},
		{"docs/security.md", `(1,024) (?:of|addresses of) each list`, services, "serviceAddresses"},
		{"docs/security.md", `(?:has at most|for Windows,) ([0-9]+ KiB) (?:\(else|of the spec)`, pods, "maxSpec"},
		{"docs/workloads.md", `have more than ([0-9]+ KiB), in which`, pods, "maxSpec"},
		{"docs/security.md", `Pods are listed ([0-9]+) at a time`, "internal/operator/kube/pods.go", "podsPage"},
		{"docs/security.md", `(256) at a time`, names, "maxUnresolved"},
		{"docs/security.md", `\| ([0-9]+ KiB) each`, "internal/operator/csr/request.go", "MaxRequest"},
		{"deploy/README.md", `have at most ([0-9]+ KiB)`, admission, `longer than (16384) bytes`},
		{"docs/security.md", `Lines of ([0-9]+ MiB), tails`, stream, "maxLine"},
		{"docs/security.md", `tails of ([0-9]+ MiB)`, stream, "maxTail"},
		{"docs/security.md", `archives of ([0-9]+ MiB)`, archive, "maxArchive"},
		{"docs/security.md", `([0-9]+ MiB) unpacked`, archive, "maxUnpacked"},
		{"docs/security.md", `\| ([0-9]+ MB) and 30,000`, scrape, `(?s)job_name: windows-exporter.*?body_size_limit: (\w+)`},
		{"docs/monitoring.md", `series and ([0-9]+ MB)`, scrape, `(?s)job_name: windows-exporter.*?body_size_limit: (\w+)`},
		{everyDocument, `(30,000) (?:samples|series)`, scrape, `(?s)job_name: windows-exporter.*?sample_limit: ([0-9]+)`},
		{"docs/security.md", `([0-9]+ MiB), 1 MiB and`, image, "maxManifest"},
		{"docs/security.md", `4 MiB, ([0-9]+ MiB) and`, image, "maxConfig"},
		{"docs/security.md", `1 MiB and ([0-9]+ KiB), within`, "internal/shared/registryclient/auth.go", "maxTokenResponse"},
		{"docs/security.md", `Headers of ([0-9]+ KiB)`, "cmd/wmco/metrics.go", "maxHeaders"},
		{"docs/security.md", `One ConfigMap each, of ([0-9]+ MiB)`, "internal/shared/desired/sign.go", "maxPublished"},
		{"docs/settings.md", `A ConfigMap holds ([0-9]+ MiB)`, "internal/shared/desired/sign.go", "maxPublished"},
		{"docs/security.md", `deletes each file of at most ([0-9]+ MiB)`, "internal/shared/wicdapi/input.go", "pieceSize"},
		{"docs/security.md", `deletes the folder after (an hour)`, "internal/node/daemon/input.go", "staleInput"},
		{"docs/security.md", `of at most ([0-9]+) characters`, bundle, "maxStatus"},
		{"docs/security.md", `restores it within (\w+ minutes)`, drift, "settingsInterval"},
		{"docs/settings.md", `WICD checks them every (\w+ minutes)`, drift, "settingsInterval"},
		{"docs/security.md", "`spec.trust: ([A-Za-z]+)`, the default", "api/v1alpha1/windowsconfig.go", defaultOf("Trust")},
		{"docs/security.md", `(?:for at most|for up to|title, for|masters., for) (a day)`, csr, "maxWICDLifetime"},
		{"docs/security.md", `and it lasts (a day)`, csr, "maxWICDLifetime"},
		{"deploy/README.md", `signer for at most (a day)`, csr, "maxWICDLifetime"},
		{"docs/runbooks/WindowsMachineConfigOperatorDown.md", `WICD's after (a day)`, csr, "maxWICDLifetime"},
		{"deploy/README.md", `approve for (\w+) signers`, "deploy/rbac-operator.yaml", `exactly (\w+) signers`},
		{"deploy/README.md", `and (\w+) labels for instance type`, admission, `'(?:node\.kubernetes\.io/instance-type|topology\.kubernetes\.(?:io|azure\.com)/[a-z-]+)'`},
		{"deploy/README.md", `profile\S+ applies within (a minute)`, "cmd/wmco/metrics_profile.go", `profileTimeout = (time.Minute),`},
		{"deploy/README.md", `Flannel's (\w+) annotations`, admission, `'flannel\.alpha\.coreos\.com/`},
		{"deploy/README.md", `no CPU limit, ([0-9]+ Gi) of memory`, "deploy/deployment.yaml", `memory: (1Gi)`},

		{"docs/logs-and-support.md", `every (\w+ seconds) and from the last`, events, "every"},
		{"docs/logs-and-support.md", `from the last ([0-9,]+) events`, events, "maxRead"},
		{"docs/logs-and-support.md", `Each file has at most ([0-9]+ MiB)`, events, "maxSize"},
		{"docs/logs-and-support.md", `MiB; (\w+) older ones`, events, "maxAside"},
		{"docs/logs-and-support.md", `It asks ([0-9]+) hosts`, "internal/cli/collect/command.go", `"parallel", ([0-9]+)`},
		{"docs/logs-and-support.md", `1 to ([0-9]+) lower-case`, bundle, "maxID"},
		{"docs/logs-and-support.md", `It takes at most (a minute)`, gather, "timeout"},
		{"docs/logs-and-support.md", `does not answer within (\w+ seconds)`, gather, "partTimeout"},
		{"docs/logs-and-support.md", `and ([0-9]+ MiB) before compression`, collect, "maxTotal"},
		{"docs/logs-and-support.md", `less than ([0-9]+) MB are free`, collect, `minFree = ([0-9]+) << 20`},
		{"docs/logs-and-support.md", `is, after (an hour) \(state`, bundle, "Keep"},
		{"docs/logs-and-support.md", `the last ([0-9,]+) changes`, "internal/node/daemon/collect/gather.go", "maxNotes"},
		{"docs/logs-and-support.md", `the last ([0-9]+ MiB) of each`, collect, "maxTail"},

		{"docs/kubectl-windows.md", `are cut at ([0-9]+) bytes`, "internal/shared/truncate/truncate.go", "Reported"},
		{"docs/kubectl-windows.md", `fits terminals from ([0-9]+) columns`, "internal/cli/terminal/terminal.go", "minWidth"},
		{"docs/kubectl-windows.md", `--request-timeout., (\w+ seconds)`, "internal/cli/session/session.go", `defaultTimeout = "(\w+)"`},
		{everyDocument, `(?:exit code is|must end with|ends with) (3)\b`, exit, "CodeFindings"},
		{"docs/dashboard.md", `is noticed within (\w+ seconds)`, "internal/cli/dashboard/source.go", "watchFor"},
		{"docs/dashboard.md", `not open for (\w+ hours)`, "internal/cli/dashboard/dashboard.go", "idleStop"},

		{"docs/machines.md", `Hosts come from (\w+) sources`, "api/names.go", `Source\w+ += "`},
		{"docs/machines.md", `by itself, within (a minute)`, discovery, "DiscoveryInterval"},
		{"docs/machines.md", `says within (a minute) what is missing`, discovery, "DiscoveryInterval"},
		{"docs/machines.md", `tries ([0-9]+) times, 15`, "internal/operator/userdata/prepare.ps1", `n -ge ([0-9]+)`},
		{"docs/machines.md", `times, ([0-9]+ seconds) apart`, "internal/operator/userdata/prepare.ps1", `(?s)n -ge.*Start-Sleep -Seconds ([0-9]+)`},
		{"docs/machines.md", `after (a minute) at the latest`, "internal/operator/controllers/source/configmap.go", "recheckInterval"},
		{everyDocument, `(?:limits names of hosts to|Windows allows) ([0-9]+)\b`, "internal/operator/machines/machines.go", "maxComputerName"},
		{everyDocument, `at most (9)`, "internal/cli/machineset.go", "maxShortName"},
		{"docs/limitations.md", `more than ([0-9]+) registries`, "internal/shared/mirrors/hosts.go", "maxFolders"},
		{"docs/limitations.md", `restarts it ([0-9]+ s) after it was killed`, "internal/node/win/services_put_windows.go", `Duration{([0-9]+ \* time.Second),`},
		{"docs/limitations.md", `clock is more than (a day) ahead`, csr, "maxWICDLifetime"},
		{"docs/limitations.md", `retries every (\w+ minutes), and`, "internal/node/identity/identity.go", "RefusedPause"},
		{"docs/limitations.md", `appears within (\w+ minutes) before`, "internal/node/daemon/nodestatus/rebootpending.go", "restartInterval"},
		{"docs/limitations.md", `every (\w+ seconds), because Wine`, "internal/node/win/scm/watch_windows.go", `recheckInterval, reopenInterval = ([0-9]+ \* time.Second),`},
		{"docs/limitations.md", `errors ([0-9]+), 1260`, blocked, `{([0-9]+), "ERROR_VIRUS_INFECTED`},
		{"docs/limitations.md", `225, ([0-9]+) and`, blocked, `{([0-9]+), "ERROR_ACCESS_DISABLED_BY_POLICY`},
		{"docs/limitations.md", `1260 and ([0-9]+),`, blocked, `{([0-9]+), "ERROR_SYSTEM_INTEGRITY`},
		{everyDocument, `(5) GB free`, check, `MinFreeBytes = ([0-9]+) << 30`},
		{"docs/prerequisites.md", `off by (\w+ minutes) at most`, check, "MaxClockSkew"},
		{"docs/node-problems.md", `off by more than (\w+ minutes)`, check, "MaxClockSkew"},
		{"docs/node-problems.md", `is off by (a minute) or more`, problems, "maxSkew"},
		{"docs/node-problems.md", `not answer within (\w+ seconds)`, problems, "answerTimeout"},
		{"docs/node-problems.md", `has committed ([0-9]+)%`, problems, `commitLow = ([0-9]+),`},
		{"docs/node-problems.md", `is over below ([0-9]+)%`, problems, `commitLow = [0-9]+, ([0-9]+)`},
		{"docs/node-problems.md", `has lasted for (\w+ minutes)`, steady, "reportAfter"},
		{"docs/node-problems.md", `Defender is asked every (\w+ minutes)`, drift, "settingsInterval"},
		{"docs/node-problems.md", `gone for (\w+), so that`, steady, `clearAfter += ([0-9]+) \* time.Minute`},
		{everyDocument, `(500Mi)\b`, kubelet, `memoryAvailable: "(\w+)"`},
		{"docs/node-problems.md", `less than ([0-9]+%) of the drive`, kubelet, `nodefsAvailable: "(\w+%)"`},
		{"docs/node-problems.md", `or less than ([0-9]+%)`, kubelet, `"imagefs.available": "(\w+%)"`},
		{"docs/windows-updates.md", `update is ([0-9]+) days old`, overdue, maxAge},
		{"docs/windows-updates.md", `search is ([0-9]+) days old`, overdue, maxSearchAge},
		{"docs/windows-updates.md", `ends after (\w+ minutes)`, "internal/node/daemon/nodestatus/windowsupdates.go", "updatesTimeout"},
		{"docs/windows-updates.md", `at most ([0-9]+) pending`, updates, `MaxPending, MaxHistory, maxKBs = ([0-9]+),`},
		{"docs/windows-updates.md", `last ([0-9]+) operations`, updates, `MaxPending, MaxHistory, maxKBs = [0-9]+, ([0-9]+),`},
		{"docs/windows-updates.md", `at most (\w+) updates at a time`, "internal/shared/windowsupdate/offer.go", `MaxOffers = ([0-9]+)`},
		{"docs/windows-updates.md", `\((\w+ minutes) without a canary`, "internal/operator/rollout/canary.go", "defaultSoak"},
		{"docs/windows-updates.md", `within ([0-9]+ minutes) after the restart`, "internal/operator/controllers/instance/maintenance.go", "verifyTimeout"},
		{"docs/windows-updates.md", `host with (\w+) failed installations`, "internal/operator/rollout/patch.go", `maxPatchFailures = ([0-9]+)`},
		{"docs/windows-updates.md", `whole installation may take (\w+ hours)`, "internal/operator/controllers/instance/patch.go", "patchTimeout"},
		{"docs/windows-updates.md", `installed the updates after (\w+ hours)`, installation, "installTimeout"},
		{"docs/windows-updates.md", `completed them (\w+ hour) after the restart`, installation, "confirmTimeout"},
		{"docs/runbooks/WindowsUpdatesOverdue.md", `node is ([0-9]+) days`, overdue, maxAge},
		{"docs/runbooks/WindowsUpdatesOverdue.md", `updates for ([0-9]+) days`, overdue, maxSearchAge},
		{"docs/settings.md", `default of .systemReserved. has (\w+), that`, resources, `"cpu": "(\w+)"`},
		{"docs/workloads.md", `overhead of (\w+) is`, "internal/operator/controllers/runtimeclass/declare.go", `virtualMachineMemory = "(\w+)"`},
		{"docs/workloads.md", "`(1809)` or", "internal/observe/podrules/windows.go", `"([0-9]+)"\) // tag of older images`},
		{"docs/workloads.md", `WICD looks every (\w+ minutes)`, "internal/node/daemon/nodestatus/accounts.go", "accountsInterval"},

		{"docs/runbooks/WindowsMachineConfigOperatorDown.md", `the operator for (\w+ minutes)`, alerts, alertAfter("WindowsMachineConfigOperatorDown")},
		{"docs/runbooks/WindowsInstanceNotReady.md", `node for (\w+ minutes)`, alerts, alertAfter("WindowsInstanceNotReady")},
		{"docs/runbooks/WindowsInstanceUnreachable.md", `to a host for (\w+ minutes)`, alerts, alertAfter("WindowsInstanceUnreachable")},
		{"docs/runbooks/WindowsJoinsFailing.md", `failed within (\w+ minutes)`, alerts, `result="failed"}\[(\w+)\]`},
		{"docs/runbooks/WindowsDrainBlocked.md", `for (half an hour)`, alerts, alertAfter("WindowsDrainBlocked")},
		{"docs/runbooks/WindowsPodImageMismatch.md", `for (a quarter of an hour)`, alerts, alertAfter("WindowsPodImageMismatch")},
		{"docs/runbooks/WindowsSettingsNotArrived.md", `more than (\w+ minutes) ago`, alerts, `wmco_settings_lag_seconds > ([0-9]+)`},
		{"docs/runbooks/WindowsNodeNetworkUnavailable.md", `worked for (\w+ minutes)`, alerts, alertAfter("WindowsNodeNetworkUnavailable")},
		{"docs/runbooks/WindowsNodeServiceCrashLooping.md", `more than (\w+) times`, alerts, `wicd_\w+\[15m\]\) > ([0-9]+)`},
		{"docs/runbooks/WindowsNodeServiceCrashLooping.md", `times within (\w+ minutes)`, alerts, `wicd_\w+\[(\w+)\]\) >`},
		{"docs/runbooks/WindowsNodeCertificateExpired.md", `less than ([0-9]+) %`, alerts, `(?s)CertificateExpired\n.*?\((0\.[0-9]+) \*`},
		{"docs/runbooks/WindowsTrustedCertificateExpiring.md", `within (\w+) days`, alerts, `< ([0-9]+) \* 24 \* 3600`},
		{"docs/runbooks/WindowsNodeRebootPending.md", `pending for (a day)`, alerts, alertAfter("WindowsNodeRebootPending")},
		{"docs/runbooks/WindowsNodeProblem.md", `more than (\w+ minutes)`, alerts, alertAfter("WindowsNodeProblem")},
		{"docs/runbooks/WindowsNodeDiskFilling.md", `less than ([0-9]+) % free`, alerts, `(?s)NodeDiskFilling\n.*?<\s+(0\.[0-9]+)`},
		{"docs/runbooks/WindowsNodeDiskFilling.md", `full within (a day)`, alerts, `\[6h\],\s+(24 \* 3600)`},
		{"docs/node-problems.md", `fires (a day) before`, alerts, `\[6h\],\s+(24 \* 3600)`},
		{"docs/runbooks/WindowsMemoryPressure.md", `less than ([0-9]+) %`, alerts, `(?s)MemoryPressure\n.*?<\s+(0\.[0-9]+)`},
	}
}

// alertAfter returns an expression that matches how long an alert must be true.
func alertAfter(name string) string { return `(?s)alert: ` + name + `\n.*?for: (\w+)` }
