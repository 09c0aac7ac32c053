package hostapi

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FeatureError is the error of Windows when it does not return the state of a feature or does not enable it.
type FeatureError struct {
	// Call is the failed call, and Code the HRESULT or Windows error.
	Call string
	Code uint32
}

// Error implements error.
func (e *FeatureError) Error() string { return fmt.Sprintf("%s returned %#x", e.Call, e.Code) }

// NeedsRestart reports whether an earlier operation needs a restart first: ERROR_FAIL_REBOOT_REQUIRED and ERROR_FAIL_REBOOT_INITIATED, as Windows
// errors and as HRESULTs, and the codes of servicing (CBS) while a transaction is pending.
func (e *FeatureError) NeedsRestart() bool {
	return slices.Contains([]uint32{3017, 3018, 0x80070bc9, 0x80070bca, 0x800f0806, 0x800f082f}, e.Code)
}

// LacksSource reports whether Windows found no files to install from, neither on the host nor at Windows Update or its replacement.
func (e *FeatureError) LacksSource() bool {
	return slices.Contains([]uint32{0x800f081f, 0x800f0906, 0x800f0907, 0x800f0954}, e.Code)
}

// Waits lists why Windows waits for a restart.
type Waits struct {
	// Causes are texts for people.
	Causes []string
	// Servicing is true if features or updates are partially installed, which is one of the causes.
	Servicing bool
	// Replacements are the files that are replaced at the next start, each as "file -> file". Programs add some at each start, so an entry alone does
	// not mean that a restart changes anything.
	Replacements []string
}

// ReplacementsWait is the cause for files that are replaced at the next start.
const ReplacementsWait = "files in use wait for their replacement (PendingFileRenameOperations)"

// All returns all causes, for people.
func (w Waits) All() []string {
	reported := slices.Clone(w.Causes)
	if len(w.Replacements) > 0 {
		reported = append(reported, ReplacementsWait)
	}
	return reported
}

const renamePrefix = "the computer name changes from "

// IsRenamePending reports whether a cause of a pending restart is a text of PendingRename.
func IsRenamePending(cause string) bool { return strings.HasPrefix(cause, renamePrefix) }

// PendingRename describes the change of the computer name at the next start; empty if there is none. Windows stores names in upper case in
// addition to the configured spelling.
func PendingRename(active, next string) string {
	if strings.EqualFold(active, next) {
		return ""
	}
	return renamePrefix + active + " to " + next
}

// Unfinished is what Windows has begun but not finished, for people.
type Unfinished struct {
	// Up is the uptime of Windows.
	Up time.Duration
	// Setup are operations of Windows Setup, Servicing installations of features and updates.
	Setup, Servicing []string
}

// maxReplacements limits the entries that are returned.
const maxReplacements = 256

// Replacements returns the files that the value PendingFileRenameOperations replaces at the next start. Its strings are pairs of a file and its new
// name. A pair without the second string deletes the file, which is no reason for a restart.
func Replacements(values []string) []string {
	var all []string
	for pair := range slices.Chunk(values, 2) {
		if len(pair) < 2 || pair[0] == "" || pair[1] == "" || len(all) == maxReplacements {
			continue
		}
		all = append(all, fmt.Sprintf("%s -> %s", strings.TrimPrefix(pair[0], native), strings.TrimPrefix(strings.TrimPrefix(pair[1], "!"), native)))
	}
	return all
}

// native is the prefix of file names in the kernel.
const native = `\??\`
