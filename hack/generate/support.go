package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// program is a component with its version.
type program struct {
	build.Component
	version string
}

// support returns docs/support.md: the versions of Kubernetes, OpenShift and Windows that the operator works with, and of the
// programs that it installs. It reads them from the operator's own sources, so that the page cannot differ.
func support(root string) (map[string][]byte, error) {
	var programs []program
	for _, c := range build.Components() {
		pin, err := build.PinOf(root, c)
		if err != nil {
			return nil, err
		}
		programs = append(programs, program{Component: c, version: pin.Version})
	}
	var page bytes.Buffer
	page.WriteString("# Supported versions\n\nGenerated from the code by `make generate`.\n\n")
	if err := writeClusters(&page, programs); err != nil {
		return nil, err
	}
	writeWindows(&page)
	writePrograms(&page, programs)
	return map[string][]byte{"docs/support.md": page.Bytes()}, nil
}

// writeClusters lists the API servers for which the operator has a kubelet, and the kubelet that it chooses.
func writeClusters(page *bytes.Buffer, programs []program) error {
	var files []payload.File
	for _, p := range programs {
		if p.Name == "kubelet" {
			files = append(files, payload.File{Path: p.Path, Component: p.Name, Version: p.version, Group: p.Group, SHA256: strings.Repeat("0", 64), Size: 1})
		}
	}
	releases := kubeversions.Of("", payload.New(files, payload.File{}))
	page.WriteString("## Clusters\n\nNodes get the newest kubelet that is not newer than the oldest API server, and at most three minor versions older.\n" +
		"When a Kubernetes minor version reaches its end of life, its kubelet is frozen at the last patch release. It is kept for\nOpenShift, which supports its versions for longer. Upgrade other clusters before that day, and OpenShift before the end\nof its maintenance support. Condition `KubernetesUnsupported` of WindowsConfig and alert\n[WindowsEndOfSupport](runbooks/WindowsEndOfSupport.md) report when the day has passed.\n\n" +
		"| API server | OpenShift and OKD | kubelet of Windows nodes | Kubernetes fixes until, then frozen | OpenShift until |\n| --- | --- | --- | --- | --- |\n")
	var major, minor int
	if _, err := fmt.Sscanf(kubeversions.MinKubernetes, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("reading the oldest version of Kubernetes: %w", err)
	}
	for ; ; minor++ {
		server := fmt.Sprintf("%d.%d", major, minor)
		chosen, err := kubeversions.Choose(releases, []string{"v" + server + ".0"})
		if err != nil {
			if server == kubeversions.MinKubernetes {
				return fmt.Errorf("the oldest version of Kubernetes has no kubelet: %w", err)
			}
			return nil // nor have later ones
		}
		openShift := lifecycle.OpenShiftOf(server)
		fmt.Fprintf(page, "| %s | %s | %s | %s | %s |\n", server, openShift, chosen.Kubelet,
			lastDay(lifecycle.Of(lifecycle.Kubernetes, chosen.Minor)), lastDay(lifecycle.Of(lifecycle.OpenShift, openShift)))
	}
}

// lastDay returns the last day with fixes of a release line, with a link to its source; empty if it is not known.
func lastDay(l lifecycle.Line, known bool) string {
	if !known {
		return ""
	}
	return fmt.Sprintf("[%s](%s)", l.Ends.Format(time.DateOnly), l.Source)
}

func writeWindows(page *bytes.Buffer) {
	page.WriteString("\n## Windows\n\nProcessor: x64 (amd64). Windows Server 2019 runs only images of its own build; later versions run images from 2022 up to\ntheir own build ([workloads.md](workloads.md#runtimeclasses)).\n\n" +
		"After the last day of security updates, condition `WindowsUnsupported` of each `WindowsInstance` reports this, and the\nnode keeps working. Mainstream support ends earlier, which does not matter: security updates continue.\n\n" +
		"[Move to a newer Windows Server](windows-generations.md) replaces hosts before that day.\n\nFor new hosts, choose 2022 or 2025. [Kubernetes](https://github.com/kubernetes/website/pull/55103) documents only these,\nand other vendors drop 2019 before Microsoft does: [AKS](https://github.com/Azure/AKS/issues/4268) in March 2026,\nfor Kubernetes 1.33 and later; the original operator's\n[tests](https://github.com/openshift/release/pull/77975) have none since April 2026.\n\n| build | name | security updates until |\n| --- | --- | --- |\n")
	for _, r := range windowsbuild.Releases() {
		fmt.Fprintf(page, "| %s | %s | %s |\n", r.Build.Label(), r.Name, lastDay(lifecycle.Of(lifecycle.WindowsServer, r.Version)))
	}
	writeUpdates(page)
}

// writeUpdates lists the Windows revisions that hosts need, and those with known faults.
func writeUpdates(page *bytes.Buffer) {
	page.WriteString("\n### Windows updates\n\nThe revision is the last number of a Windows version, as in `status.osBuild` of a `WindowsInstance`. A host with a lower\n" +
		"revision does not become a node (`WindowsUpdateNeeded`), except where only some pods need the update. Updates are\n" +
		"cumulative: any later one will do. [Prerequisites](prerequisites.md#windows-updates) explains how to look up the\nrevision, and what to do.\n\n" +
		"| build | revision | update | what needs it | source |\n| --- | --- | --- | --- | --- |\n")
	for _, u := range windowsbuild.Updates() {
		what := u.For
		if u.Optional {
			what += "; other pods run without it"
		}
		fmt.Fprintf(page, "| %s | %d | %s | %s | [source](%s) |\n", u.Build.Label(), u.Revision, u.KB, what, u.Source)
	}
	page.WriteString("\nRevisions with known faults. A host with one becomes a node, and condition `WindowsUpdateNeeded` of its Node reports it.\n" +
		"Updates that bring a fault are [not installed](windows-updates.md#which-updates).\n\n" +
		"| build | revisions | brought by | what does not work | fixed by | source |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, f := range windowsbuild.Faults() {
		revisions := fmt.Sprintf("below %d", f.Before)
		if f.From > 0 {
			revisions = fmt.Sprintf("%d to %d", f.From, f.Before-1)
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s | %s | [source](%s) |\n", f.Build.Label(), revisions, strings.Join(f.Updates, ", "), f.What, f.Fixed, f.Source)
	}
}

func writePrograms(page *bytes.Buffer, programs []program) {
	page.WriteString("\n## Programs on hosts\n\nThe operator itself runs on Linux nodes of amd64 and arm64.\n\n| program | version | license |\n| --- | --- | --- |\n")
	var fixed string // until when, for containerd
	for _, p := range programs {
		version := p.version
		if version == "" {
			version = "that of the operator"
		}
		fmt.Fprintf(page, "| %s | %s | %s |\n", p.FullName(), version, p.License)
		if p.Name == "containerd" {
			line, known, _ := lifecycle.OfVersion(lifecycle.Containerd, p.version) // a pin is a version
			fixed = lastDay(line, known)
		}
	}
	fmt.Fprintf(page, "\ncontainerd gets fixes until\n%s. Afterwards, condition\n`ContainerdUnsupported` of WindowsConfig and alert [WindowsEndOfSupport](runbooks/WindowsEndOfSupport.md) say so.\n", fixed)
}
