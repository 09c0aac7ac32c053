package archtest

// claimsOfProject returns the claims about supported versions, and about how the repository is built and tested.
func claimsOfProject() []claim {
	const (
		later     = `Kubernetes (1\.[0-9]+) or later`
		release   = "internal/operator/kubeversions/kubeversions.go"
		oldest    = `MinKubernetes = "([0-9.]+)"`
		newest    = `func Minors\(\).*"([0-9.]+)"} }`
		minors    = "payload/build/components.go"
		openShift = `OpenShift (4\.[0-9]+) (?:or|and) (?:later|newer)`
		lifecycle = "internal/operator/lifecycle/lifecycle.go"
		first     = `map\[string\]string{"[0-9.]+": "([0-9.]+)"`
		limits    = "internal/archtest/limits_test.go"
		core      = "lab/suites/conformance/core.txt"
		measured  = "docs/performance.md"
		hns       = "internal/testing/acceptance/probes_hns.go"
	)
	return []claim{
		{"README.md", later, release, oldest},
		{"README.md", `the kubelets of ([0-9.]+) to`, release, oldest},
		{"README.md", `the kubelets of [0-9.]+ to ([0-9]\.[0-9]+)`, minors, newest},
		{"README.md", `API servers up to ([0-9]\.[0-9]+)`, "docs/support.md", `(?s).*\| (1\.[0-9]+) \|`},
		{"README.md", `get kubelet ([0-9]\.[0-9]+)`, minors, newest},
		{"deploy/README.md", `needs ` + later, release, oldest},
		{"docs/quickstart.md", later, release, oldest},
		{"docs/tasks/install.md", later, release, oldest},
		{"docs/install-olm.md", later, release, oldest},
		{"docs/install-olm.md", openShift, lifecycle, first},
		{"docs/monitoring.md", openShift, lifecycle, first},
		{"docs/monitoring.md", `Prometheus operator ([0-9.]+) or newer`, "lab/cluster/prometheusoperator/prometheusoperator.go", `Oldest Version = "([0-9.]+)"`},
		{"docs/troubleshooting.md", `Upgrade the cluster to ([0-9]\.[0-9]+) or later`, release, oldest},

		{"README.md", `SSH exec channels \| ([0-9]+) \|`, measured, "`join.exec_channels` \\| [0-9]+ \\| [0-9]+ \\| ([0-9]+)"},
		{"README.md", `SSH exec channels \| [0-9]+ \| ([0-9]+) \|`, measured, "`join.exec_channels` \\| ([0-9]+)"},
		{"README.md", `\(SFTP sessions\) \| ([0-9]+) \|`, measured, "`join.transfers` \\| [0-9]+ \\| [0-9]+ \\| ([0-9]+)"},
		{"README.md", `\(SFTP sessions\) \| [0-9]+ \| ([0-9]+) \|`, measured, "`join.transfers` \\| ([0-9]+)"},
		{"README.md", `powershell.exe. \| ([0-9]+) \|`, measured, "`join.powershell_processes` \\| [0-9]+ \\| [0-9]+ \\| ([0-9]+)"},
		{"README.md", `powershell.exe. \| [0-9]+ \| ([0-9]+) \|`, measured, "`join.powershell_processes` \\| ([0-9]+)"},

		{"CONTRIBUTING.md", `Functions have at most ([0-9]+) lines`, limits, `maxFunctionLines = ([0-9]+)`},
		{"CONTRIBUTING.md", `files at most ([0-9]+)`, limits, `maxFileLines +=\s+([0-9]+)`},
		{"CONTRIBUTING.md", `have at most (\w+) methods`, limits, `maxPortMethods +=\s+([0-9]+)`},
		{"REVIEWING.md", `have at most (\w+) methods`, limits, `maxPortMethods +=\s+([0-9]+)`},
		{everyDocument, `wrapped at ([0-9]+) columns`, "internal/archtest/docs_test.go", `RuneCountInString\(line\) > ([0-9]+)`},
		{"CONTRIBUTING.md", `the quirks of ([0-9]+) seeds`, "Makefile", `SEEDS \?= ([0-9]+)`},
		{"CONTRIBUTING.md", `runs each fuzzer for (\w+ minutes)`, "Makefile", `FUZZTIME \?= (\w+)`},
		{"CONTRIBUTING.md", `runs them each night for (\w+)`, ".github/workflows/lab.yaml", `FUZZTIME=([0-9]+)m`},
		{"CONTRIBUTING.md", `stops after ([0-9]+) minutes`, ".ci/run", `WMCO_LIMIT:-([0-9]+)`},
		{"CONTRIBUTING.md", `than the ([0-9]+) of .make unit., and with .-run`, "internal/operator/controllers/storytest/chaos_test.go", `chaosSeeds += ([0-9]+)`},
		{"CONTRIBUTING.md", `than the ([0-9]+) of .make unit.. A workflow`, "lab/suites/mirrordiff/mirrordiff_test.go", `"WMCO_MIRROR_CLUSTERS", ([0-9]+)`},
		{"CONTRIBUTING.md", `the (\w+) of .make e2e., and`, "lab/differential_test.go", `differentialSeeds += ([0-9]+)`},
		{"docs/development.md", `about (\w+) quick ones`, core, `(?m)^\[`},
		{"docs/development.md", `available for more than ([0-9]+ days)`, "hack/outdated/main.go", "maxPatchAge"},
		{"docs/limitations.md", `the (\w+) cases of .make conformance ONLY=core`, core, `(?m)^\[`},
		{"docs/monitoring.md", `each and (\w+) dashboards`, "deploy/monitoring/dashboards/kustomization.yaml", `- name: windows-`},
		{"docs/monitoring.md", `take its (\w+) jobs`, "deploy/monitoring/prometheus/prometheus.yaml", `job_name:`},

		{"docs/acceptance.md", `([0-9]+) GB free on drive C:`, "internal/testing/acceptance/join_refuse.go", `neededBytes = ([0-9]+) << 30`},
		{"docs/acceptance.md", `restart in (\w+ years)`, "internal/testing/acceptance/lines_host.go", `schedules a restart in (\w+ years)`},
		{"docs/acceptance.md", `takes about (fifteen minutes)`, "internal/testing/acceptance/join.go", `"(\w+ minutes)\. The network`},
		{"docs/acceptance.md", `home folder for (half a minute)`, "internal/testing/acceptance/probes_machine.go", "scanTimeout"},
		{"docs/acceptance.md", `of the host, ([0-9]+) remote subnets`, hns, "testRemotes"},
		{"docs/acceptance.md", `and up to ([0-9]+) load balancers`, hns, "testBalancers"},
		{"docs/acceptance.md", `or gateway for (\w+ minutes)`, hns, "outageTimeout"},
		{"docs/acceptance.md", `there within (\w+ minutes)`, "internal/testing/acceptance/join_services.go", "recoveryTimeout"},
		{"docs/acceptance.md", `with ([0-9]+) Linux nodes`, "internal/testing/acceptance/join_ovn.go", "linuxNodes"},

		{"docs/install-olm.md", `a new version within (half an hour)`, "docs/install-olm.md", `interval: (\w+)`},
		{"docs/verify-a-release.md", `cosign\) ([0-9]+)\.`, "release/verify/go.mod", `sigstore/cosign/v([0-9]+) `},
		{"docs/defects.md", `restarts the host (\w+ seconds) later`, "internal/node/daemon/reboot.go", "restartDelay"},
		{"docs/settings.md", `defenderExclusions: None # ([A-Za-z]+) is the default`, "api/v1alpha1/windowsconfig_services.go", defaultOf("DefenderExclusions")},
		{"docs/cloud.md", "`([A-Za-z]+)`, the default, decides", "api/v1alpha1/windowsconfig.go", defaultOf("CloudProvider")},
		{"docs/network.md", `flannel: {namespace: ([a-z-]+), .*these are the defaults`, "api/v1alpha1/windowsconfig.go", defaultOf("Namespace")},
		{"docs/network.md", `configMap: ([a-z-]+)} .*these are the defaults`, "api/v1alpha1/windowsconfig.go", defaultOf("ConfigMap")},
		{"docs/network.md", "`([A-Za-z]+)`, the default \\| Your network", "api/v1alpha1/windowsconfig_custom.go", defaultOf("KubeProxy")},
	}
}
