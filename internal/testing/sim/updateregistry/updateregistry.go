// Package updateregistry describes updates for the stand-in of the Windows Update Agent on Wine (lab/windows/shims/wuapi.c), as values of the registry.
package updateregistry

import (
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// Key is the key below HKEY_LOCAL_MACHINE with quirks of the agent. Updates are keys below it, named 00000001 and so on without gaps.
const Key = `SOFTWARE\WMCOLab\Updates`

// Quirks of the agent, as DWORD values of Key.
const (
	// RestartFirst makes the agent need a restart before it installs. It is reset by the start.
	RestartFirst = "RestartFirst"
	// SearchResult is the HRESULT with which searches at the server fail; 0 if they succeed.
	SearchResult = "SearchResult"
)

// Update is an update that the server of a host has.
type Update struct {
	// Update is as the agent reports it; its first article counts, and its class must be Security or Critical.
	windowsupdate.Update
	// IsFound means that Windows has found it in a search.
	IsFound bool
	// Takes is how long its installation takes.
	Takes time.Duration
	// InstallResult is the HRESULT with which its installation fails; 0 if it succeeds.
	InstallResult uint32
	// WindowsRevision is the revision of Windows from the next start on; 0 keeps it.
	WindowsRevision uint32
	// TakenBack means that Windows takes it back at the next start.
	TakenBack bool
}

// Values returns the values of the update's key: a string or uint32 each.
func (u Update) Values() map[string]any {
	values := map[string]any{
		"ID": u.ID, "Title": u.Title, "Severity": u.Severity, "Category": categoryOf(u.Class), "Article": strings.TrimPrefix(u.KBs[0], "KB"),
		"Revision": uint32(u.Revision), "RebootBehavior": behaviorOf(u.Restart), "Published": uint32(u.Published.Unix()),
		"Milliseconds": uint32(u.Takes.Milliseconds()), "InstallResult": u.InstallResult, "UBR": u.WindowsRevision,
	}
	if u.IsFound {
		values["State"] = uint32(1)
	}
	if u.TakenBack {
		values["TakenBack"] = uint32(1)
	}
	return values
}

// categoryOf returns the category ID of a class (https://learn.microsoft.com/previous-versions/windows/desktop/ff357803(v=vs.85)).
func categoryOf(class windowsupdate.Class) string {
	if class == windowsupdate.Critical {
		return "E6CF1350-C01B-414D-A61F-263D14D133B4"
	}
	return "0FA1201D-4330-4FA8-8AE9-B877473B6441"
}

// behaviorOf returns the number of InstallationRebootBehavior.
func behaviorOf(r windowsupdate.Restart) uint32 {
	return map[windowsupdate.Restart]uint32{windowsupdate.RestartAlways: 1, windowsupdate.RestartPossible: 2}[r]
}
