package archtest

// claimsOfNetwork returns the claims about ports, networks and their repair.
func claimsOfNetwork() []claim {
	const (
		firewall = "internal/shared/desired/firewall.go"
		losses   = "internal/node/daemon/podnetwork/losses.go"
		proxy    = "internal/node/daemon/podnetwork/proxy.go"
		guard    = "internal/node/overlay/guard.go"
		recovery = "internal/node/hostnetwork/recovery.go"
		overlay  = "internal/node/overlay/reconcile.go"
		report   = "internal/node/overlay/report.go"
		mtu      = "internal/node/hostnetwork/hostnetwork.go"
		policies = "internal/operator/controllers/networkpolicies/controller.go"
		leftover = "internal/operator/controllers/overlayleftovers/decide.go"
		builds   = "internal/shared/windowsbuild/windowsbuild.go"
		updates  = "internal/shared/windowsbuild/revisions.go"
		settings = "internal/operator/controllers/settings/controller.go"
	)
	return []claim{
		{everyDocument, `\b(22)\b`, firewall, "sshPort"},
		{everyDocument, `\b(10250)\b`, firewall, "kubeletPort"},
		{everyDocument, `\b(9182)\b`, firewall, "exporterPort"},
		{everyDocument, `\b(10256)\b`, firewall, "proxyPort"},
		{everyDocument, `\b(10248)\b`, "internal/shared/desired/ports.go", "kubeletHealthPort"},
		{everyDocument, `\b(10280)\b`, "internal/shared/desired/paths.go", "RegistryPort"},
		{everyDocument, `\b(4789)\b`, "internal/shared/desired/network.go", "VXLANPort"},
		{everyDocument, `\b(17763)\b`, builds, `Server2019 Build = ([0-9]+)`},
		{everyDocument, `\b(20348)\b`, builds, `Server2022 Build = ([0-9]+)`},
		{everyDocument, `\b(26100)\b`, builds, `Server2025 Build = ([0-9]+)`},
		{everyDocument, `\b(1450)\b`, mtu, "podMTU"},
		{"docs/prerequisites.md", `(1500)`, "docs/network.md", `needs\s+an MTU of ([0-9]+)`},
		{"docs/network.md", `lowered to ([0-9]+) less`, mtu, "Encapsulation"},
		{"docs/network.md", `With the ([0-9]+) bytes of VXLAN`, mtu, "Encapsulation"},
		{"docs/prerequisites.md", `\| ([0-9]+) or later; 1817`, updates, `Server2019, Revision: ([0-9]+), KB: "\w+", For: "overlay`},
		{everyDocument, `\b(1817)\b`, updates, `Server2019, Revision: ([0-9]+), KB: "\w+", For: "pods with a group`},
		{"docs/prerequisites.md", `\| ([0-9]+) or later, and not`, updates, `Server2022, Revision: ([0-9]+)`},
		{"docs/prerequisites.md", `and not ([0-9]+) to`, updates, `Server2022, From: ([0-9]+)`},
		{everyDocument, `\b(6899)\b`, updates, `Server2025, From: 0, Before: ([0-9]+)`},

		{"docs/limitations.md", `for the updates of (\w+ [0-9]+)`, updates, `overlay networks in the updates of (\w+ [0-9]+)`},
		{"docs/network.md", "range counts, and is ([0-9]+) if", "internal/shared/desired/network.go", "OVNHostPrefix"},
		{"docs/network.md", `\| ([0-9]+) to 65535; Flannel`, "internal/shared/desired/network_checks.go", "minVNI"},
		{"docs/network.md", `on Windows begin at ([0-9]+)`, "internal/shared/desired/network_checks.go", "minVNI"},
		{"docs/network.md", `\(VNI ([0-9]+)\)`, "internal/node/overlay/plan.go", "VNI"},
		{"docs/network.md", `and write (\w+) annotations of its own Node`, "deploy/admission.yaml", `'flannel\.alpha\.coreos\.com/`},
		{"docs/network.md", `removes the (\w+) annotations when`, "internal/operator/controllers/overlayleftovers/controller.go", `k8s\.ovn\.org/node-id|k8s\.ovn\.org/node-transit|LinuxSubnetsAnnotation, "`},
		{"docs/network.md", `removes them at most (\w+) times`, leftover, "removals"},
		{"docs/network.md", `at most three times (an hour)`, leftover, "period"},
		{"docs/network.md", `hybrid overlay within (\w+ minutes)`, leftover, "subnetGrace"},
		{"docs/network.md", `looked at within (\w+ minutes)`, policies, "checkInterval"},
		{"docs/network.md", `came later within (an hour)`, policies, "recheckInterval"},
		{"docs/network.md", `of another one within (\w+ minutes)`, settings, "checkInterval"},
		{"docs/network.md", `a range that you add within (\w+ minutes)`, settings, "checkInterval"},
		{"docs/network.md", `otherwise within (\w+ minutes)`, settings, "checkInterval"},
		{everyDocument, `more than (63) characters`, "internal/shared/platform/platform.go", "MaxNodeName"},
		{"docs/network.md", `Each load balancer takes ([0-9]+) ports`, "internal/node/hostapi/ports_network.go", "portsPerBalancer"},

		{"docs/network.md", `says so when ([0-9]+) % of`, "internal/node/hostapi/ports_network.go", `all\*([0-9]+)`},
		{"docs/network.md", `node>., valid for (a day)`, "internal/node/overlay/main.go", `"cert-duration", ([^,]+),`},
		{"docs/network.md", `waited for \(at most (\w+ minutes)\)`, "internal/node/overlay/create.go", "unlistedTimeout"},
		{"docs/network.md", `For (\w+ seconds) after its start`, "internal/shared/hns/hns.go", "IncompleteFor"},
		{"docs/network.md", `created again after (\w+ minutes)`, overlay, "recreateAfter"},
		{"docs/network.md", `no addresses for (\w+ minutes)`, overlay, "recreateAfter"},
		{"docs/network.md", `is missing after (\w+ seconds)`, recovery, "restoreAfter"},
		{"docs/network.md", `still missing after (\w+ seconds)`, recovery, "reportAfter"},
		{"docs/network.md", `on no adapter (a minute) after`, guard, "addressGrace"},
		{"docs/network.md", `after it has lasted for (a minute)`, report, "waitReportedAfter"},
		{"docs/network.md", `or (half a minute) if something is refused`, report, "refusalReportedAfter"},
		{"docs/network.md", `tried again each (minute)`, "internal/node/overlay/create.go", "hostRouteInterval"},
		{"docs/defects.md", `It checks every (\w+ seconds)`, overlay, "resyncInterval"},

		{"docs/network.md", `WICD checks every (\w+ seconds)`, "internal/node/daemon/podnetwork/reconcile.go", "networkInterval"},
		{"docs/network.md", `not there within (\w+ minutes)`, "internal/node/daemon/podnetwork/memory.go", "creatorTimeout"},
		{"docs/network.md", `but not within (\w+ seconds)`, "internal/shared/hns/hns.go", "IncompleteFor"},
		{"docs/network.md", `started at least (half a minute) ago`, "internal/shared/hns/hns.go", "IncompleteFor"},
		{"docs/network.md", `creates all of them within (\w+ seconds)`, proxy, "proxyStartup"},
		{"docs/network.md", `than their Services for (\w+ minutes)`, losses, "lateAfter"},
		{"docs/network.md", `Service has run for (a minute)`, losses, "steadyAfter"},
		{"docs/network.md", `(ten) are ended in a minute`, losses, "maxPodStops"},
		{"docs/network.md", `(ten) in a minute if`, losses, "maxPodStops"},
		{"docs/network.md", `are ended (\w+) at a time`, losses, "maxPodStops"},
		{"docs/network.md", `ten (?:are ended )?in (a minute)`, losses, "podStopPeriod"},
		{"docs/network.md", `it has been missing for (\w+ seconds)`, losses, "restartAfter"},
		{"docs/network.md", `had not changed for (\w+ minutes)`, losses, "unchangedFor"},
		{"docs/limitations.md", `for longer\*\* than (half a minute) after its start`, "internal/shared/hns/hns.go", "IncompleteFor"},
		{"docs/limitations.md", `loses within (\w+ minutes) after its Service`, losses, "unchangedFor"},
		{"docs/limitations.md", `saw a Service with it within (a day)`, "internal/node/daemon/podnetwork/frontends.go", "formerFor"},
		{"docs/network.md", `hosts, after (\w+ minutes), and after`, losses, "orphanedAfter"},
		{"docs/defects.md", `belong to no Service are removed after (\w+ minutes)`, losses, "orphanedAfter"},
		{"docs/network-policies.md", `begins stay as they are for (a minute)`, "internal/node/daemon/podpolicy/decide.go", "unknownFor"},
		{"docs/network-policies.md", `growing pauses of up to (\w+ minutes)`, "internal/node/daemon/podpolicy/memory.go", "longestPause"},
		{"docs/node-problems.md", `read or applied for (half a minute)`, "internal/node/daemon/podpolicy/report.go", "reportAfter"},
		{"docs/network.md", `(twice) in an hour and`, proxy, "restartsPerHour"},
		{"docs/network.md", `and (\w+) times in a day`, proxy, "restartsPerDay"},
	}
}
