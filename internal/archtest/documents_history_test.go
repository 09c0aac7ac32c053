package archtest

import (
	"slices"
	"strings"
	"testing"
)

// history is a part of a document with versions that may differ from those of the repository.
type history struct {
	document, text, why string
}

func histories() []history {
	return []history{
		{"docs/acceptance.md", `"seconds": 0.2`, "a duration in an example"},
		{"docs/fleet.md", "from version 1.0.0-3f9a2c1 to 1.1.0-122778d", "example"},
		{"docs/glossary.md", "`1.1.0-122778d`", "example"},
		{"docs/kubectl-windows.md", "Operator      v1.1.0", "example"},
		{"docs/kubectl-windows.md", "Version       1.1.0-122778d", "example"},
		{"docs/kubectl-windows.md", "wmco:v1.3.0", "example"},
		{"docs/install-olm.md", "wmco-catalog:0.2.0", "the release after that of the examples"},
		{"RELEASE.md", "WITHDRAW=1.2.0", "example"},
		{"RELEASE.md", "`0.0.0-g<commit>`", "the version of what is no release"},
		{"docs/network.md", `"cniVersion": "1.0.0"`, "of the specification, in an example"},
		{"docs/troubleshooting.md", "`the API server is Kubernetes v1.32.1`", "a message about a version that is too old"},
		{"deploy/README.md", "--kube-version 1.36.0", "example"},
		{"docs/examples.md", "windows-host-process-containers-base-image:v1.0.0", "Microsoft's image; lab/standins.go serves it by this name"},
		{"docs/disconnected.md", "skopeo 1.9.3 and later", "what it was tried with: Debian 12 has it"},
		{"RELEASE.md", "skopeo 1.9.3 and later", "what it was tried with: Debian 12 has it"},
		{"docs/limitations.md", "agent before 2.0.2107", "Amazon's agent, by its release notes"},
		{"docs/machines.md", "EC2Launch v2 (2.0.2107 or newer)", "Amazon's agent, by its release notes"},
		{"docs/limitations.md", "0.15.0 of October requires a module that the Go module proxy   refuses, and uses what earlier versions of it do not have (`ParsedCOSEReceipt`):   `go mod download github.com/Microsoft/cosesign1go@v1.7.0` answers 403, as for 1.6.0 and 1.5.0", "why the pin is not newer"},
		{"docs/limitations.md", "0.15.0-rc.1, with which containerd is linked", "why the pin is not newer"},
		{"docs/limitations.md", "OpenSSH 7.7", "that of Windows Server 2019"},
		{"docs/limitations.md", "another server than 7.7", "that of Windows Server 2019"},
		{"docs/prerequisites.md", "The version of Windows Server 2019 is 7.7; other programs that send as much data through it require 7.9", "of OpenSSH"},
		{"docs/security.md", "OpenSSH 7.7", "that of Windows Server 2019"},
		{"docs/limitations.md", "cloud-node-manager 1.36", "the one that was tried"},
		{"docs/limitations.md", "are of the versions before: Kubernetes 1.33.13 to 1.36.3, containerd 2.4.2,   windows_exporter 0.27.2", "what earlier runs had"},
		{"docs/limitations.md", "Debian's Prometheus 2.42 scraped", "what was tried: Debian 12 has it"},
		{"docs/limitations.md", "the documents of windows_exporter 0.27, 0.30 and", "whose metrics the rules know; the last one follows the pin"},
		{"docs/limitations.md", "the discovery of Prometheus 3.13", "what was tried"},
		{"docs/monitoring.md", "before 0.86, the kind", "the first Prometheus operator with the field"},
		{"docs/monitoring.md", "the cluster has 0.87.0", "that of OpenShift, whose module has the same kinds"},
		{"docs/monitoring.md", "Prometheus 2.42 or later", "what was tried: Debian 12 has it"},
		{"docs/monitoring.md", "windows_exporter 0.27 to", "whose metrics the rules know; the last one follows the pin"},
		{"docs/monitoring.md", "| what | 0.27, 0.28 | 0.29 | 0.30 |", "whose metrics the rules know; the last one follows the pin"},
		{"docs/monitoring.md", "which WMI provided until 0.28", "the last windows_exporter with these metrics"},
		{"docs/monitoring.md", "Grafana 10.3 or later", "the first with the schema of the dashboards"},
		{"docs/settings.md", "version 3.10.2", "of the pause image for Windows Server 2025"},
		{"docs/settings.md", "pause:3.10.2", "of the pause image for Windows Server 2025"},
		{"docs/settings.md", "Windows PowerShell 5.1", "that of Windows"},
		{"docs/storage.md", "From version 3.5", "of the driver of vSphere"},
		{"lab/README.md", "It reports version 15.4", "of Windows' network service, as lab/windows/hns answers"},
		{"lab/README.md", "`CurrentVersion` in the registry is 10.0 here (Wine takes its version from it) and 6.3 on Windows", "of Windows"},
	}
}

// mustBeChecked checks that the documents of all entries are checked.
func mustBeChecked(t *testing.T, documents []string, entries []history) {
	t.Helper()
	for _, h := range entries {
		if !slices.Contains(documents, h.document) {
			t.Errorf("entry %q is for %s, which is not checked: remove it", h.text, h.document)
		}
	}
}

// ranges returns the positions of a document's entries, each of which must exist.
func ranges(t *testing.T, entries []history, document, flat string) (found [][2]int) {
	t.Helper()
	for _, h := range entries {
		if h.document != document {
			continue
		}
		before := len(found)
		for at := 0; ; {
			i := strings.Index(flat[at:], h.text)
			if i < 0 {
				break
			}
			found = append(found, [2]int{at + i, at + i + len(h.text)})
			at += i + len(h.text)
		}
		if len(found) == before {
			t.Errorf("%s no longer contains %q: remove its entry", document, h.text)
		}
	}
	return found
}
