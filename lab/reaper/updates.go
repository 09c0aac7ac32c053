//go:build linux

package main

import (
	"fmt"
	"regexp"
)

// Sections of the registry's file: the updates of the agent's stand-in (windows/shims/wuapi.c), and the version of Windows.
var (
	updateSection  = regexp.MustCompile(`(?ms)^\[Software\\\\WMCOLab\\\\Updates\\\\\d+\] .*?(?:\n\n|\z)`)
	packageSection = regexp.MustCompile(`(?ms)^\[Software\\\\WMCOLab\\\\Packages\] .*?(?:\n\n|\z)`)
	agentSection   = regexp.MustCompile(`(?ms)^\[Software\\\\WMCOLab\\\\Updates\] .*?(?:\n\n|\z)`)
	versionSection = regexp.MustCompile(`(?ms)^\[Software\\\\Microsoft\\\\Windows NT\\\\CurrentVersion\] .*?(?:\n\n|\z)`)
)

// Values of updates, as windows/shims/wuapi.c has them: states, the result and HRESULT (CBS_E_INSTALLERS_FAILED) of an update that was taken back.
const (
	updateFound, updateDownloaded, updateWaits, updateInstalled = 1, 2, 3, 4
	resultFailed, installersFailed                              = 4, 0x800f0922
)

// completeUpdates changes the text of the registry as Windows does at its start: installed updates that wait for it are completed, and change the
// revision of Windows, or are taken back. The last cumulative update goes if it was removed, and is pending again.
func completeUpdates(text string) string {
	packages, before := packageSection.FindString(text), dword(versionSection.FindString(text), "UBR")
	if dword(packages, "Removed") != 0 {
		text = updateSection.ReplaceAllStringFunc(text, func(section string) string {
			if dword(section, "State") == updateInstalled && dword(section, "UBR") == before {
				section = withDWORD(section, "State", updateFound)
			}
			return section
		})
		return withRevision(text, dword(packages, "Previous"), 0)
	}
	var revision uint32
	text = updateSection.ReplaceAllStringFunc(text, func(section string) string {
		if dword(section, "State") != updateWaits {
			return section
		}
		if dword(section, "TakenBack") != 0 {
			section = withDWORD(section, "State", updateDownloaded)
			return withDWORD(withDWORD(section, "Result", resultFailed), "Code", installersFailed)
		}
		revision = max(revision, dword(section, "UBR"))
		return withDWORD(section, "State", updateInstalled)
	})
	text = agentSection.ReplaceAllStringFunc(text, func(section string) string { return withDWORD(section, "RestartFirst", 0) })
	if revision == 0 {
		return text
	}
	return withRevision(text, revision, before)
}

// withRevision returns the text of the registry with another revision of Windows, and the one before it.
func withRevision(text string, revision, previous uint32) string {
	text = packageSection.ReplaceAllStringFunc(text, func(section string) string {
		return withDWORD(withDWORD(section, "Previous", previous), "Removed", 0)
	})
	return versionSection.ReplaceAllStringFunc(text, func(section string) string { return withDWORD(section, "UBR", revision) })
}

func dwordLine(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^"` + name + `"=dword:([0-9a-f]{8})$`)
}

// dword returns a number of a section; 0 if it is absent.
func dword(section, name string) (value uint32) {
	if found := dwordLine(name).FindStringSubmatch(section); found != nil {
		_, _ = fmt.Sscanf(found[1], "%x", &value)
	}
	return value
}

// withDWORD returns a section with another number. One that is absent stays so.
func withDWORD(section, name string, value uint32) string {
	return dwordLine(name).ReplaceAllString(section, fmt.Sprintf(`"%s"=dword:%08x`, name, value))
}
