package documents

// Step is a section of a document: the text from a heading to the next one of any level. Without a heading it is the whole document.
type Step struct{ Document, Heading string }

// Of reports whether a step contains a block.
func (s Step) Of(b Block) bool {
	return s.Document == b.Document && (s.Heading == "" || s.Heading == b.Heading)
}

// Story is what a test runs in one cluster, in order.
type Story struct {
	// Test is the test with its folder, as in lab/suites/e2e.TestX, or a folder whose tests share the steps.
	Test  string
	Steps []Step
}

// Stories returns all stories. A test runs each block of a document in a story, unless a comment states why not.
func Stories() []Story {
	return []Story{Installing(), Hosts(), Usage(), OpenShift(), olm()}
}

const (
	readme     = "README.md"
	manifests  = "deploy/README.md"
	install    = "docs/tasks/install.md"
	quickstart = "docs/quickstart.md"
	runbooks   = "docs/runbooks/"
	upgrade    = "docs/tasks/upgrade.md"
	withOLM    = "docs/install-olm.md"
)

// Installing is the story of a cluster in which the operator is installed and removed in every supported way. It has a registry, and a Linux
// node that runs the operator.
func Installing() Story {
	return Story{"lab/suites/doctest.TestInstallDocuments", []Step{
		{readme, "## Install"},
		{readme, "# Windows Machine Config Operator"},
		{install, ""},
		{runbooks + "WindowsMachineConfigOperatorDown.md", ""},
		{runbooks + "WindowsJoinsFailing.md", ""},
		{manifests, ""},
		{"RELEASE.md", ""},
	}}
}

// Hosts is the story of a cluster with simulated hosts that become nodes.
func Hosts() Story {
	steps := []Step{
		{quickstart, ""},
		{"docs/troubleshooting.md", ""},
		{"docs/tasks/find-the-cause.md", ""},
		{"docs/tasks/proxy.md", ""},
		{upgrade, ""},
	}
	for _, alert := range []string{
		"WindowsCertificateRequestsRefused", "WindowsDrainBlocked", "WindowsEndOfSupport", "WindowsExporterDown", "WindowsFleetSilent", "WindowsHostKeyChanged", "WindowsInstanceNotReady",
		"WindowsInstanceStalled", "WindowsInstanceUnreachable", "WindowsNodeCertificateExpired", "WindowsNodeCertificateExpiring",
		"WindowsNodeDiskFilling", "WindowsNodeNetworkUnavailable", "WindowsNodeProblem", "WindowsNodeRebootPending", "WindowsUpdatesOverdue", "WindowsNodeServiceCrashLooping",
		"WindowsRolloutStopped", "WindowsSettingsNotArrived", "WindowsTrustedCertificateExpiring", "WindowsUpdateFailed",
	} {
		steps = append(steps, Step{runbooks + alert + ".md", ""})
	}
	return Story{"lab/suites/doctest.TestHostDocuments", append(steps,
		Step{"docs/tasks/reboot.md", ""},
		Step{"docs/tasks/remove-hosts.md", ""},
		Step{"docs/tasks/ssh-key.md", "## Create it"},
		Step{"docs/tasks/add-hosts.md", ""},
		Step{"docs/tasks/ssh-key.md", "## Replace it"},
		Step{"docs/tasks/runtimeclass.md", ""},
		Step{"docs/tasks/workload.md", ""},
		Step{runbooks + "WindowsPodImageMismatch.md", ""},
		Step{"docs/prerequisites.md", ""}, Step{"docs/tasks/prepare-host.md", ""}, Step{"docs/tasks/prepare-image.md", ""}, // runs nothing: comments state why
	)}
}

// Usage is the story of a cluster with pods on Wine hosts, and with metrics-server.
func Usage() Story {
	return Story{"lab/suites/e2e.TestExamples", []Step{{runbooks + "WindowsMemoryPressure.md", ""}}}
}

// OpenShift is the story of a cluster with the kinds of OpenShift and of the Prometheus operator, and with registries.
func OpenShift() Story {
	return Story{"lab/suites/doctest.TestOpenShiftDocuments", []Step{
		{withOLM, "## Limits of the operator"},
		{withOLM, "## Permissions in OpenShift's namespaces"},
		{withOLM, "## Monitoring"},
		{withOLM, "## Machines"},
		{withOLM, "## The SSH key"},
		{"docs/tasks/machineset.md", ""},
		{quickstart, "# Quickstart"},
		{upgrade, ""},
		{"docs/tasks/mirror-registry.md", ""},
		{"docs/disconnected.md", ""},
		{"docs/monitoring.md", ""},
	}}
}

// olm is the story that needs the Operator Lifecycle Manager.
func olm() Story {
	return Story{"lab/suites/olm", []Step{
		{withOLM, "## Before you begin"},
		{withOLM, "## Installing with the CLI"},
		{withOLM, "## Settings of the Deployment"},
		{withOLM, "## Upgrades"},
		{withOLM, "## When an InstallPlan fails"},
		{withOLM, "## Removal"},
		{withOLM, "## OLM v1"},
	}}
}

// WithoutStory returns the documents whose commands no test runs unchanged, with what is tested of them.
func WithoutStory() map[string]string {
	const objects = "lab/suites/deploytest.TestManifests has the API server check its objects; its commands are not run"
	const none = "no test runs its commands"
	return map[string]string{
		"docs/cloud.md":             objects,
		"docs/dashboard.md":         none,
		"docs/development.md":       none,
		"docs/examples.md":          "lab/suites/e2e.TestExamples applies its objects",
		"docs/fleet.md":             objects,
		"docs/from-the-original.md": none,
		"docs/kubectl-windows.md":   none,
		"docs/logs-and-support.md":  none,
		"docs/machines.md":          objects,
		"docs/network.md":           objects,
		"docs/network-policies.md":  objects,
		"docs/settings.md":          objects,
		"docs/storage.md":           objects,
		"docs/tenancy.md":           objects,
		"docs/verify-a-release.md":  "release/verify verifies a release with the libraries of cosign and syft; its commands are not run",
		"docs/windows-updates.md":   objects,
		"docs/workloads.md":         objects,
		"payload/README.md":         none,
		"lab/README.md":             none,
		".github/ISSUE_TEMPLATE/":   none,

		"docs/windows-generations.md": none,
	}
}
