package archtest

// exceptions returns figures that the repository does not determine, each with its source.
func exceptions() []history {
	const (
		example    = "an example"
		arithmetic = "follows from the length of the range"
		windows    = "Windows"
		kubernetes = "Kubernetes"
		gcp        = "documents of GCP: the default MTU of a VPC network"
		mhc        = "MachineHealthCheck of the Machine API, and a proposal"
		flannel    = "documents of Flannel: backends.md"
		vxlanMTU   = "1450 of a pod and 50 of VXLAN"
		agentBaker = "Adjust-DynamicPortRange of github.com/Azure/AgentBaker"
		smb        = "the port of SMB"
		status     = "a status of HTTP"
		bits       = "the largest number of 16 bits"
		measured   = "a measurement in docs/performance.md"
		signer     = "--cluster-signing-duration of kube-controller-manager"
		gauge      = "a gauge that is 0 or 1"
	)
	return []history{
		{"CONTRIBUTING.md", "Run ring 4, which takes more than an hour,", measured},
		{"CONTRIBUTING.md", "in one to two hours,", measured},
		{"docs/development.md", "all cases, in one to two hours", measured},
		{"docs/development.md", "six times each", "what benchstat needs"},
		{"README.md", "Debian 12", "what it was tried with"},
		{"README.md", "about 15 minutes", "measured on two cores"},
		{"REVIEWING.md", "1, 100 and 1,000 hosts", "a question to reviewers"},
		{"RELEASE.md", "the major version is 0", "semantic versioning"},
		{"deploy/README.md", "(Helm 4)", "the version that has the flags"},
		{"deploy/README.md", "within two minutes after the Secret changes", "the kubelet's period and cache for volumes"},
		{"deploy/README.md", "(status 429)", status},

		{"docs/acceptance.md", "about ten minutes", "measured on Wine"},
		{"docs/acceptance.md", "at port 80", example},
		{"docs/defects.md", "a line of 64 KiB", "bufio.Scanner of Go"},
		{"docs/defects.md", "version 1 of its metadata service", "the name of an interface of AWS"},
		{"docs/defects.md", "Version 2 is queried first", "the name of an interface of AWS"},
		{"docs/defects.md", "every two minutes, and different line endings", "the original operator"},
		{"docs/disconnected.md", "from before June 2023", "Microsoft: images with foreign layers"},
		{"docs/examples.md", "5 s by default", "Windows: WaitToKillServiceTimeout"},
		{"docs/examples.md", "more than 260 characters", "Windows: MAX_PATH"},
		{"docs/examples.md", "answers at port 80", example},
		{"docs/fleet.md", "is at least 1.", "the least that lets a rollout go on"},
		{"docs/fleet.md", "or allow 2.", "one more than the 1 before"},
		{"docs/fleet.md", "first of the two hours only", "clocks are set back by an hour"},
		{"docs/fleet.md", "`0s` frees", example},
		{"docs/fleet.md", "Four nodes, `maxUnavailable", example},
		{"docs/fleet.md", "the others wait for 30 minutes", example},
		{"docs/fleet.md", "including the 30 minutes", example},
		{"docs/fleet.md", "All four nodes", example},
		{"docs/fleet.md", "by default 10 minutes", mhc},
		{"docs/fleet.md", "and become a node. | 30 minutes |", mhc},
		{"docs/fleet.md", "often 5 minutes", mhc},
		{"docs/fleet.md", "installs updates. | 20 minutes |", mhc},
		{"docs/limitations.md", "cgroups of version 1", "the name of an interface of Linux"},
		{"docs/limitations.md", "less than 1500, such as GCP's with 1460", vxlanMTU + "; " + gcp},
		{"docs/limitations.md", "April 2026", "the date of its release"},
		{"docs/limitations.md", "answers 403", status},
		{"docs/limitations.md", "up to 170 MB on the host", "measured on Linux, as it says"},
		{"docs/limitations.md", "the pull secret for up to five minutes", "Kubernetes: Lifetime in pkg/credentialprovider/provider.go"},
		{"docs/limitations.md", "error 1053, after 30 seconds", "Windows: ERROR_SERVICE_REQUEST_TIMEOUT, ServicesPipeTimeout"},
		{"docs/logs-and-support.md", "(7031, 7034, 7036, 7045)", "Windows: events of the service control manager"},
		{"docs/logs-and-support.md", "names the archive: 1 to", "no name is empty"},
		{"docs/monitoring.md", "valid for a year in most clusters", signer},
		{"docs/monitoring.md", "on port 10249 of loopback", "kube-proxy: metricsBindAddress"},

		{"docs/network.md", "with addresses for 252 pods", arithmetic},
		{"docs/network.md", "a `/14` for 1024. With more than 252 as", arithmetic},
		{"docs/network.md", "with addresses for 508 pods", arithmetic},
		{"docs/network.md", "with more than 65535", bits},
		{"docs/network.md", "to 65535; Flannel's default on Linux is 1 |", bits + "; " + flannel},
		{"docs/network.md", "Flannel uses 16 bits on Windows", flannel},
		{"docs/network.md", "on Linux is 8472", flannel},
		{"docs/network.md", "TCP 6443 or", "kube-apiserver: --secure-port"},
		{"docs/network.md", "TCP 443 or", "HTTPS"},
		{"docs/network.md", "with port 53 and", "DNS"},
		{"docs/network.md", "WSAEACCES (10013)", windows},
		{"docs/network.md", "(49152-65535), so that about 225 fit", agentBaker},
		{"docs/network.md", "WinRM on 47001", windows},
		{"docs/network.md", "by default 30000-32767", "kube-apiserver: --service-node-port-range"},
		{"docs/network.md", "less than 1500, such as GCP's (1460)", vxlanMTU + "; " + gcp},
		{"docs/network.md", "an MTU of 1500", vxlanMTU},
		{"docs/network.md", "have 1460 unless you choose another: set the MTU of the VPC network to 1500", gcp},
		{"docs/network.md", "in an hour and four times in a day", "restartsPerHour and restartsPerDay, whose numbers are compared"},
		{"docs/network.md", "`wicd_network_unavailable` is 1", gauge},
		{"docs/node-problems.md", "is 1 while it", gauge},
		{"docs/node-problems.md", "`0%` turns it off", kubernetes},
		{"docs/prerequisites.md", "to 2761 |", "the revision before that of the update, in internal/shared/windowsbuild"},
		{"docs/prerequisites.md", "2402 in 10.0.20348.2402", example},
		{"docs/prerequisites.md", "for about 225 load balancers", agentBaker},
		{"docs/security.md", "(or 384, 521)", "names of curves"},
		{"docs/security.md", "as long as the signer says, a year", signer},
		{"docs/settings.md", "reads it within five minutes", "Kubernetes: Lifetime in pkg/credentialprovider/provider.go"},
		{"docs/settings.md", "PowerShell 7", "its name"},
		{"docs/settings.md", "`0%` turns one off", kubernetes},
		{"docs/settings.md", "NUMA node 0", "the first NUMA node"},
		{"docs/storage.md", "August 2026", "the date of the sources"},
		{"docs/storage.md", "TCP port 445", smb},
		{"docs/storage.md", "has 0 pods", "what kubectl prints"},
		{"docs/tasks/upgrade.md", "is 0, it would wait", "what kubectl prints"},
		{"docs/troubleshooting.md", "Versions 2004 and", "the name of a Windows"},
		{"docs/troubleshooting.md", "after at most five minutes", "the kubelet's back-off of containers"},
		{"docs/troubleshooting.md", "is 0, add a replica", "what kubectl prints"},
		{"docs/troubleshooting.md", "answered 401 or 403", status},
		{"docs/troubleshooting.md", "event 5007", "Microsoft Defender: a change of its configuration"},
		{"docs/troubleshooting.md", "(from before 2017)", "schema 1 of Docker's registry"},
		{"docs/troubleshooting.md", "with status 401", status},
		{"docs/workloads.md", "hns\\State` is 1 on the host", "Windows: a value of the registry that is on"},
		{"docs/runbooks/WindowsEndOfSupport.md", "within 90 days", example},
		{"docs/runbooks/WindowsNodeDiskFilling.md", "least 100 GB", "advice"},
	}
}
