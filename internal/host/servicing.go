package host

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FeatureError is what Windows answers when it does not tell the state of a feature, or does not enable it.
type FeatureError struct {
	// Call is what was asked for, and Code the HRESULT or the error of Windows.
	Call string
	Code uint32
}

// Error makes FeatureError an error.
func (e *FeatureError) Error() string { return fmt.Sprintf("%s answers %#x", e.Call, e.Code) }

// NeedsRestart says that what was begun before needs a restart first: ERROR_FAIL_REBOOT_REQUIRED and ERROR_FAIL_REBOOT_INITIATED, as they are
// and as HRESULTs, and what servicing (CBS) answers while a transaction is pending.
func (e *FeatureError) NeedsRestart() bool {
	return slices.Contains([]uint32{3017, 3018, 0x80070bc9, 0x80070bca, 0x800f0806, 0x800f082f}, e.Code)
}

// LacksSource says that Windows found no files to install from: neither on the host, nor at Windows Update or what stands for it.
func (e *FeatureError) LacksSource() bool {
	return slices.Contains([]uint32{0x800f081f, 0x800f0906, 0x800f0907, 0x800f0954}, e.Code)
}

// Waits is why Windows waits for a restart.
type Waits struct {
	// Causes are for people.
	Causes []string
	// Servicing says that features or updates are half installed, which is one of the causes.
	Servicing bool
	// Replacements are the files that are replaced with the next start, each as "file -> file". Programs put some there at each start, so
	// that an entry alone does not mean that a restart changes anything.
	Replacements []string
}

// ReplacementsWait is the cause for files that wait for their replacement.
const ReplacementsWait = "files in use wait for their replacement (PendingFileRenameOperations)"

// Told are all causes, for people.
func (w Waits) Told() []string {
	told := slices.Clone(w.Causes)
	if len(w.Replacements) > 0 {
		told = append(told, ReplacementsWait)
	}
	return told
}

// NameWaits says, for people, that the name of the computer changes with the next start; empty if it does not. Windows keeps names in capitals
// beside those that were given.
func NameWaits(active, next string) string {
	if strings.EqualFold(active, next) {
		return ""
	}
	return fmt.Sprintf("the computer name changes from %s to %s", active, next)
}

// Unfinished is what Windows has begun and not finished, for people.
type Unfinished struct {
	// Up is for how long Windows runs.
	Up time.Duration
	// Setup is its own setup, Servicing the installation of features and updates.
	Setup, Servicing []string
}

// maxReplacements bounds the entries that are looked at.
const maxReplacements = 256

// Replacements are the files that the value PendingFileRenameOperations replaces with the next start: its strings are pairs of a file and what
// it becomes. A pair without the second string deletes the file, for which nobody waits.
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

// native begins the names of files as the kernel has them.
const native = `\??\`
