package wmco_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// claim is a number, a time or a default in a document, and where the repository has it. Both expressions have one group; what one finds
// must be what the other finds. An expression of the source without a group counts what it finds.
type claim struct {
	document, says string
	file, has      string
}

// claims are those that would mislead a reader who acts on them. What need not be known has no place in a document.
func claims() []claim {
	const (
		later     = `Kubernetes (1\.[0-9]+) or\s+later`
		oldest    = `MinKubernetes = "([0-9.]+)"`
		openShift = `OpenShift (4\.[0-9]+) (?:or|and)\s+(?:later|newer)`
		first     = `map\[string\]string{"[0-9.]+": "([0-9.]+)"`
		rollout   = "api/v1alpha1/windowsconfig_rollout.go"
	)
	return []claim{
		{"README.md", later, "internal/release/release.go", oldest},
		{"README.md", `the kubelets of ([0-9.]+) to`, "internal/release/release.go", oldest},
		{"README.md", `the kubelets of [0-9.]+ to\s+([0-9]\.[0-9]+)`, "payload/build/components.go", `func Minors\(\).*"([0-9.]+)"} }`},
		{"README.md", `API servers up to ([0-9]\.[0-9]+)`, "docs/support.md", `(?s).*\| (1\.[0-9]+) \|`},
		{"README.md", `get kubelet ([0-9]\.[0-9]+)`, "payload/build/components.go", `func Minors\(\).*"([0-9.]+)"} }`},
		{"README.md", `([0-9]+) GB free on drive C:`, "internal/join/check.go", `MinFreeBytes = ([0-9]+) << 30`},
		{"deploy/README.md", `needs ` + later, "internal/release/release.go", oldest},
		{"docs/quickstart.md", later, "internal/release/release.go", oldest},
		{"docs/tasks/install.md", later, "internal/release/release.go", oldest},
		{"docs/install-olm.md", later, "internal/release/release.go", oldest},
		{"docs/install-olm.md", openShift, "internal/lifecycle/lifecycle.go", first},
		{"docs/monitoring.md", openShift, "internal/lifecycle/lifecycle.go", first},
		{"docs/monitoring.md", `Prometheus operator ([0-9.]+) or newer`, "lab/prometheusoperator/prometheusoperator.go", `Oldest Version = "([0-9.]+)"`},
		{"docs/troubleshooting.md", `Upgrade the cluster to ([0-9]\.[0-9]+) or later`, "internal/release/release.go", oldest},
		{"docs/acceptance.md", `([0-9]+) GB free on drive C:`, "internal/acceptance/join_refuse.go", `neededBytes = ([0-9]+) << 30`},

		{"CONTRIBUTING.md", `Functions have at most ([0-9]+) lines`, "limits_test.go", `maxFunctionLines = ([0-9]+)`},
		{"CONTRIBUTING.md", `files at most ([0-9]+)`, "limits_test.go", `maxFileLines +=\s+([0-9]+)`},
		{"CONTRIBUTING.md", `have\s+at most (\w+) methods`, "limits_test.go", `maxPortMethods +=\s+([0-9]+)`},
		{"CONTRIBUTING.md", `the quirks of ([0-9]+) seeds`, "Makefile", `SEEDS \?= ([0-9]+)`},
		{"CONTRIBUTING.md", `runs each fuzzer for (\w+ minutes)`, "Makefile", `FUZZTIME \?= (\w+)`},
		{"CONTRIBUTING.md", `stops after ([0-9]+) minutes`, ".ci/run", `WMCO_LIMIT:-([0-9]+)`},
		{"CONTRIBUTING.md", `than the ([0-9]+) of ` + "`make unit`, and with `-run", "internal/controllers/storytest/chaos_test.go", `chaosSeeds += ([0-9]+)`},
		{"CONTRIBUTING.md", `than the ([0-9]+) of ` + "`make unit`. A workflow", "lab/mirrordiff/mirrordiff_test.go", `"WMCO_MIRROR_CLUSTERS", ([0-9]+)`},
		{"CONTRIBUTING.md", `the (\w+) of ` + "`make e2e`, and", "lab/differential_test.go", `differentialSeeds += ([0-9]+)`},
		{"docs/development.md", `about (\w+) quick ones`, "lab/conformance/core.txt", `(?m)^\[`},
		{"docs/limitations.md", `the (\w+) cases of ` + "`make conformance ONLY=core`", "lab/conformance/core.txt", `(?m)^\[`},
		{"docs/monitoring.md", `each and (\w+) dashboards`, "internal/monitoring/dashboards.go", `Board\(\) Dashboard {`},

		{"docs/fleet.md", `or a number; ([0-9]+) by default`, rollout, defaultOf("MaxUnavailable")},
		{"docs/fleet.md", `drain.timeout.*?\(([0-9a-z]+) by default\)`, rollout, defaultOf("Timeout")},
		{"docs/fleet.md", `stagingBandwidth.*?\(([0-9A-Za-z]+) per second by default\)`, rollout, defaultOf("StagingBandwidth")},
		{"docs/fleet.md", "- `([A-Za-z]+)`, the default: the operator keeps evicting", rollout, defaultOf("OnTimeout")},
		{"docs/fleet.md", "`([A-Za-z]+)` \\(default\\)", rollout, defaultOf("Machines")},
		{"docs/settings.md", `defenderExclusions: None # ([A-Za-z]+) is the default`, "api/v1alpha1/windowsconfig_services.go", defaultOf("DefenderExclusions")},
		{"docs/security.md", "`spec.trust: ([A-Za-z]+)`, the default", "api/v1alpha1/windowsconfig.go", defaultOf("Trust")},
		{"docs/cloud.md", "`([A-Za-z]+)`, the default, decides", "api/v1alpha1/windowsconfig.go", defaultOf("CloudProvider")},
		{"docs/network.md", `flannel: {namespace: ([a-z-]+), .*these are the defaults`, "api/v1alpha1/windowsconfig.go", defaultOf("Namespace")},
		{"docs/network.md", `configMap: ([a-z-]+)} .*these are the defaults`, "api/v1alpha1/windowsconfig.go", defaultOf("ConfigMap")},
		{"docs/network.md", "`([A-Za-z]+)`, the default \\| Your network", "api/v1alpha1/windowsconfig_custom.go", defaultOf("KubeProxy")},

		{"docs/fleet.md", `when it has not been Ready for (\w+ minutes)`, "internal/nodestate/nodestate.go", `BrokenAfter = (.+)`},
		{"docs/fleet.md", `does not work within (\w+ minutes)`, "internal/daemon/update/updater.go", `updateWithin += (.+)`},
		{"docs/fleet.md", `does not pass within (\w+ minutes)`, "internal/controllers/instance/maintenance.go", `verifyWithin = (.+)`},
		{"docs/fleet.md", `a restart or an upgrade (\w+ minutes)`, "internal/controllers/instance/maintenance.go", `verifyWithin = (.+)`},
		{"docs/fleet.md", `been an orphan for (\w+ minutes)`, "internal/controllers/fleet/orphans.go", `orphanAfter = (.+)`},
		{"docs/fleet.md", `must have allowed for (\w+ minutes)`, "internal/controllers/clusterversion/releases.go", `settled = (.+)`},
		{"docs/cloud.md", `After (\w+ minutes) the reason is`, "internal/join/cloud.go", `CloudTimeout = (.+)`},
		{"docs/dashboard.md", `not open for (\w+ hours)`, "internal/cli/dashboard/dashboard.go", `idleStop = (.+)`},
		{"docs/limitations.md", `the setup of Windows\s+for (\w+ minutes)`, "internal/daemon/configure/unfinished.go", `setupWithin += (.+)`},
		{"docs/limitations.md", `servicing for ([0-9]+);`, "internal/daemon/configure/unfinished.go", `servicingWithin = ([0-9]+) \* time.Minute`},
		{"docs/limitations.md", `loses within (\w+ minutes) after its Service`, "internal/daemon/podnetwork/losses.go", `unchangedFor = (.+)`},
		{"docs/defects.md", `belong to no Service are removed after (\w+ minutes)`, "internal/daemon/podnetwork/losses.go", `orphanedAfter = (.+)`},
		{"docs/defects.md", `It checks every (\w+ seconds)`, "internal/overlay/reconcile.go", `resyncInterval = (.+)`},
		{"docs/defects.md", `restarts the host (\w+ seconds) later`, "internal/daemon/reboot.go", `restartDelay = (.+)`},
		{"docs/logs-and-support.md", `every (\w+ seconds) and from the last`, "internal/daemon/eventlog/copy.go", `every += ([^/]+?) //`},
		{"docs/troubleshooting.md", `WICD tries again every (\w+ seconds)`, "internal/daemon/registry/server.go", `listenEvery += (.+)`},
		{"docs/workloads.md", `WICD looks every (\w+ minutes)`, "internal/daemon/nodestatus/accounts.go", `accountsEvery = (.+)`},
	}
}

// defaultOf finds the default of a field of our kinds.
func defaultOf(field string) string {
	return `kubebuilder:default="?([^"\n]+?)"?\n(?:\t// .*\n)*\t` + field + ` `
}

// TestDocumentsSayWhatTheRepositoryHas compares claims with their source.
func TestDocumentsSayWhatTheRepositoryHas(t *testing.T) {
	for _, c := range claims() {
		if fault := c.fault(read(t, c.document), read(t, c.file)); fault != "" {
			t.Errorf("%s: %s", c.document, fault)
		}
	}
}

// fault is what is wrong with a claim; empty if nothing is.
func (c claim) fault(document, source string) string {
	said := regexp.MustCompile(c.says).FindAllStringSubmatch(document, -1)
	has := regexp.MustCompile(c.has).FindAllStringSubmatch(source, -1)
	if len(said) == 0 || len(has) == 0 || len(has[0]) > 1 && len(has) > 1 {
		return "nothing says " + c.says + ", or not one place of " + c.file + " has " + c.has + ": correct or remove the claim"
	}
	want := strconv.Itoa(len(has))
	if len(has[0]) > 1 {
		want = measure(has[0][1])
	}
	for _, s := range said {
		if got := measure(s[1]); got != want {
			return "it says " + strings.TrimSpace(s[0]) + ", and " + c.file + " has " + want
		}
	}
	return ""
}

// measure writes a number or a time in one way: "ten minutes", "10m" and "10 * time.Minute" are the same.
func measure(text string) string {
	for i, word := range []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"} {
		text = strings.Replace(text, word, strconv.Itoa(i+1), 1)
	}
	text = strings.Replace(text, "forty", "40", 1)
	if strings.HasPrefix(text, "time.") {
		text = "1" + text
	}
	units := strings.NewReplacer("minutes", "m", "Minute", "m", "seconds", "s", "Second", "s", "hours", "h", "Hour", "h")
	return units.Replace(strings.NewReplacer(" ", "", "*", "", "time.", "").Replace(text))
}

func TestWrongClaimsAreFound(t *testing.T) {
	waits := claim{says: `waits (\w+ minutes)`, has: `patience = (.+)`}
	counts := claim{says: `has (\w+) cases`, has: `(?m)^case`}
	for name, test := range map[string]struct {
		claim            claim
		document, source string
		isWrong          bool
	}{
		"the same time":             {waits, "It waits ten minutes.", "const patience = 10 * time.Minute\n", false},
		"another time":              {waits, "It waits 15 minutes.", "const patience = 10 * time.Minute\n", true},
		"another time elsewhere":    {waits, "It waits ten minutes. It waits 5 minutes.", "const patience = 10 * time.Minute\n", true},
		"another unit":              {waits, "It waits ten minutes.", "const patience = 10 * time.Second\n", true},
		"no such sentence any more": {waits, "It waits.", "const patience = 10 * time.Minute\n", true},
		"no such constant any more": {waits, "It waits ten minutes.", "", true},
		"two constants":             {waits, "It waits ten minutes.", "patience = 10 * time.Minute\npatience = time.Minute\n", true},
		"the same count":            {counts, "It has two cases.", "case a\ncase b\n", false},
		"another count":             {counts, "It has two cases.", "case a\ncase b\ncase c\n", true},
	} {
		if fault := test.claim.fault(test.document, test.source); (fault != "") != test.isWrong {
			t.Errorf("%s: the fault is %q", name, fault)
		}
	}
}
