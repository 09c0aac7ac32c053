// Command support writes docs/support.md: the versions of Kubernetes, OpenShift and Windows that the operator works with, and of the
// programs that it installs. It reads them where the operator has them, so that the page cannot say anything else.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/windows-machine-config/wmco/internal/release"
	"github.com/windows-machine-config/wmco/internal/windowsbuild"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: support <page to write> <folder of the repository>")
		os.Exit(2)
	}
	page, err := render(os.Args[2])
	if err == nil {
		err = os.WriteFile(os.Args[1], page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "support:", err)
		os.Exit(1)
	}
}

// openShift is the version of OpenShift and OKD that is based on a minor version of Kubernetes, by their release notes.
func openShift() map[string]string {
	return map[string]string{"1.33": "4.20", "1.34": "4.21", "1.35": "4.22", "1.36": "5.0"}
}

// program is a component with its version.
type program struct {
	build.Component
	version string
}

func render(root string) ([]byte, error) {
	programs, err := read(root)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	page.WriteString("# Supported versions\n\nGenerated from the code by `make generate`.\n\n")
	if err := writeClusters(&page, programs); err != nil {
		return nil, err
	}
	writeWindows(&page)
	writePrograms(&page, programs)
	return page.Bytes(), nil
}

// writeClusters lists the API servers for which the operator has a kubelet, as it chooses them.
func writeClusters(page *bytes.Buffer, programs []program) error {
	var files []payload.File
	for _, p := range programs {
		if p.Name == "kubelet" {
			files = append(files, payload.File{Path: p.Path, Component: p.Name, Version: p.version, Group: p.Group, SHA256: strings.Repeat("0", 64), Size: 1})
		}
	}
	releases := release.Of("", payload.New(files, nil, payload.File{}))
	page.WriteString("## Clusters\n\nNodes get the newest kubelet that is not newer than the oldest API server, and at most three minor versions older.\n\n" +
		"| API server | OpenShift and OKD | kubelet of Windows nodes |\n| --- | --- | --- |\n")
	var major, minor int
	if _, err := fmt.Sscanf(release.MinKubernetes, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("reading the oldest version of Kubernetes: %w", err)
	}
	for ; ; minor++ {
		server := fmt.Sprintf("%d.%d", major, minor)
		chosen, err := release.Choose(releases, []string{"v" + server + ".0"})
		if err != nil {
			if server == release.MinKubernetes {
				return fmt.Errorf("the oldest version of Kubernetes has no kubelet: %w", err)
			}
			return nil // later ones have none either
		}
		fmt.Fprintf(page, "| %s | %s | %s |\n", server, openShift()[server], chosen.Kubelet)
	}
}

func writeWindows(page *bytes.Buffer) {
	page.WriteString("\n## Windows\n\nProcessor: x64 (amd64). Images of containers must match the build: pods run with process isolation.\n\n| build | name |\n| --- | --- |\n")
	for _, r := range windowsbuild.Releases() {
		fmt.Fprintf(page, "| %s | %s |\n", r.Build.Label(), r.Name)
	}
	writeUpdates(page)
}

// writeUpdates lists the revisions of Windows that hosts need, and those with known faults.
func writeUpdates(page *bytes.Buffer) {
	page.WriteString("\n### Updates of Windows\n\nThe revision is the last number of a version of Windows, and is in `status.osBuild` of a `WindowsInstance`. A host with\n" +
		"a lower one does not become a node (`WindowsUpdateNeeded`), except where only some pods need the update. Updates are\n" +
		"cumulative: any later one does, too. [Prerequisites](prerequisites.md#updates-of-windows) says how to look it up, and\nwhat to do.\n\n" +
		"| build | revision | update | what needs it | source |\n| --- | --- | --- | --- | --- |\n")
	for _, u := range windowsbuild.Updates() {
		what := u.For
		if u.Optional {
			what += "; other pods run without it"
		}
		fmt.Fprintf(page, "| %s | %d | %s | %s | [source](%s) |\n", u.Build.Label(), u.Revision, u.KB, what, u.Source)
	}
	page.WriteString("\nRevisions with known faults. A host with one becomes a node, and condition `WindowsUpdateNeeded` of its Node says so:\n\n" +
		"| build | revisions | what does not work | fixed by | source |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range windowsbuild.Faults() {
		revisions := fmt.Sprintf("below %d", f.Before)
		if f.From > 0 {
			revisions = fmt.Sprintf("%d (%s) to %d", f.From, f.Since, f.Before-1)
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s | [source](%s) |\n", f.Build.Label(), revisions, f.What, f.Fixed, f.Source)
	}
}

func writePrograms(page *bytes.Buffer, programs []program) {
	page.WriteString("\n## Programs on hosts\n\nThe operator itself runs on Linux nodes of amd64 and arm64.\n\n| program | version | license |\n| --- | --- | --- |\n")
	for _, p := range programs {
		version := p.version
		switch {
		case p.External:
			version = "yours ([payload/README.md](../payload/README.md#files-that-cannot-be-built-here))"
		case version == "":
			version = "that of the operator"
		}
		fmt.Fprintf(page, "| %s | %s | %s |\n", p.FullName(), version, p.License)
	}
}

// read are all components of the payload, with the versions that the go.mod files of the repository pin.
func read(root string) ([]program, error) {
	var programs []program
	for _, c := range build.Components() {
		p := program{Component: c}
		if !c.External && c.Module != "." {
			text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(c.Module), "go.mod"))
			if err != nil {
				return nil, err
			}
			if p.version, err = pinned(string(text), c.Package); err != nil {
				return nil, fmt.Errorf("reading %s/go.mod: %w", c.Module, err)
			}
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// pinned is the version of the module that a package belongs to: of those that go.mod requires, the one with the longest path, or what
// replaces that.
func pinned(mod, pkg string) (version string, err error) {
	module := ""
	for _, required := range regexp.MustCompile(`(?m)^(?:require)?[ \t]+(\S+) (v\S+)`).FindAllStringSubmatch(mod, -1) {
		if path := required[1]; len(path) > len(module) && (pkg == path || strings.HasPrefix(pkg, path+"/")) {
			module, version = path, required[2]
		}
	}
	if module == "" {
		return "", fmt.Errorf("no module of package %s is required", pkg)
	}
	replaced := regexp.MustCompile(`(?m)^(?:replace)?[ \t]+` + regexp.QuoteMeta(module) + `(?: v\S+)? => \S+ (v\S+)`)
	if by := replaced.FindStringSubmatch(mod); by != nil {
		version = by[1]
	}
	return version, nil
}
