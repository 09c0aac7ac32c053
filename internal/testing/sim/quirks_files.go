package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/payload/selfextract"
)

// FileQuirks concern files and programs: scanners that hold them, and software that removes them.
type FileQuirks struct {
	// Held is how long a scanner holds a file, starting with the first change of its name, or with the first time it is read. Meanwhile, creating,
	// linking, renaming, removing and truncating it fail with HeldCode; so does reading it, with one of hostapi.UnreadableCodes. A file that arrives by SFTP is held, too, when it is renamed.
	Held     time.Duration
	HeldCode hostapi.Code
	// Distrusted are the kinds of programs that security software blocks when they arrive on the host.
	Distrusted Programs
	// Refusal is the system error with which starting one of them fails: 225 (ERROR_VIRUS_INFECTED), 1260 (ERROR_ACCESS_DISABLED_BY_POLICY) or 4551
	// (ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION). If it is 0, the file is removed right after it arrived.
	Refusal hostapi.Code
}

// Programs are kinds of programs.
type Programs string

// The kinds of programs that security software distrusts.
const (
	// Unpackers contain another program that they write and start.
	Unpackers Programs = "Unpackers"
	// UnknownPrograms are all programs that no installer put on the host.
	UnknownPrograms Programs = "UnknownPrograms"
)

func randomFiles(r *rand.Rand) FileQuirks {
	q := FileQuirks{HeldCode: hostapi.HeldCodes()[r.IntN(len(hostapi.HeldCodes()))]}
	if r.IntN(2) == 0 {
		q.Held = time.Duration(r.IntN(100)) * time.Millisecond
	}
	q.Distrusted = []Programs{"", "", Unpackers, UnknownPrograms}[r.IntN(4)]
	q.Refusal = []hostapi.Code{0, 225, 1260, 4551}[r.IntN(4)]
	return q
}

// heldLocked returns an error if a scanner holds the file that is to be changed or opened.
func (b *boot) heldLocked(op, name string) error {
	q := b.w.options.Quirks.Files
	if q.Held == 0 || !slices.Contains([]string{"create", "link", "rename", "remove", "truncate", "open"}, op) {
		return nil
	}
	until, seen := b.w.held[name]
	if !seen {
		until = time.Now().Add(q.Held)
		b.w.held[name] = until
	}
	if time.Now().Before(until) {
		return fmt.Errorf("%s %s: %w", op, name, q.HeldCode)
	}
	return nil
}

// distrusts reports whether security software blocks a program that arrived on the host.
func (q FileQuirks) distrusts(local string) bool {
	switch q.Distrusted {
	case UnknownPrograms:
		return strings.HasSuffix(local, ".exe")
	case Unpackers:
		f, err := os.Open(local)
		if err != nil {
			return false
		}
		defer f.Close()
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return false
		}
		_, _, err = selfextract.Find(f, size)
		return err == nil
	}
	return false
}

// refusalText returns the characteristic part of Windows' text for an error.
func refusalText(code hostapi.Code) string {
	return map[hostapi.Code]string{225: "contains a virus", 1260: "blocked by group policy", 4551: "policy has blocked this file"}[code]
}

// arrived does what security software does with a file that arrived by SFTP.
func (q FileQuirks) arrived(local string) {
	if q.Refusal == 0 && q.distrusts(local) {
		_ = os.Remove(local) // it may already be gone
	}
}
